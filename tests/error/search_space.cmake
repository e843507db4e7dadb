kiln_test(search_space_error_test LABEL error HALIDE SOURCES search_space_error_test.cpp LINK kiln)
