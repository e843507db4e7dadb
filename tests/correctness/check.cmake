kiln_test(check_evaluator_test LABEL correctness HALIDE SOURCES check_evaluator_test.cpp
          LINK kiln_check kiln_target kiln_support)
