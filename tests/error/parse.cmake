kiln_test(parse_error_test LABEL error SOURCES parse_error_test.cpp LINK kiln_schedule kiln_target kiln_support)
