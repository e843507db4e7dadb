kiln_test(schedule_language_test LABEL correctness
  SOURCES schedule_language_test.cpp schedule_language_print_test.cpp
  LINK kiln_schedule kiln_target kiln_support)
# The printed Halide compiles, and does what the schedule says.
kiln_test(schedule_language_halide_test LABEL correctness HALIDE
  SOURCES schedule_language_halide_test.cpp LINK kiln_schedule kiln_target kiln_support Halide::Halide)
