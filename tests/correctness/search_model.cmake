kiln_test(search_model_test LABEL correctness SOURCES search_model_test.cpp LINK kiln)
