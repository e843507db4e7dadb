kiln_test(legalize_test LABEL correctness HALIDE SOURCES legalize_test.cpp LINK kiln)
kiln_test(legalize_math_test LABEL correctness HALIDE SOURCES legalize_math_test.cpp LINK kiln)
kiln_test(widen_accesses_test LABEL correctness HALIDE SOURCES widen_accesses_test.cpp LINK kiln)
