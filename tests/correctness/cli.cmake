# The command line: its parts alone, and the real program.
kiln_test(cli_support_test LABEL correctness SOURCES cli_support_test.cpp LINK kiln_support)
if(NOT KILN_SANITIZE)
  kiln_test(cli_watch_test LABEL correctness HALIDE SOURCES cli_watch_test.cpp LINK kiln_cli kiln)
  kiln_test(cli_command_test LABEL correctness SOURCES cli_command_test.cpp cli_error_test.cpp LINK kiln_support)
  target_compile_definitions(cli_command_test PRIVATE CMAKE_PROGRAM="${CMAKE_COMMAND}")
  add_dependencies(cli_command_test kiln_program kiln_generators kiln-build kiln_runtime)
endif()
