kiln_test(parse_fuzz_test LABEL fuzz SOURCES parse_fuzz.cpp fuzz_main.cpp LINK kiln_schedule kiln_target kiln_support)
