if(NOT KILN_SANITIZE)
  kiln_test(hand_schedules_test LABEL correctness HALIDE SOURCES hand_schedules_test.cpp LINK kiln)
  add_dependencies(hand_schedules_test kiln_generators kiln-build kiln_runtime)
endif()
