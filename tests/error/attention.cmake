if(NOT KILN_SANITIZE)
  kiln_test(attention_error_test LABEL error SOURCES attention_error_test.cpp LINK kiln)
  add_dependencies(attention_error_test kiln_program kiln_generators kiln-build)
endif()
