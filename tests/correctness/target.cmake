kiln_test(target_test LABEL correctness SOURCES target_test.cpp LINK kiln_target kiln_support)
