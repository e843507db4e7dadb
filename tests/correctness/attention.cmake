# Variants of attention on libraries as kiln_add_kernels builds them.
if(NOT KILN_SANITIZE)
  kiln_test(attention_variants_test LABEL correctness SOURCES attention_variants_test.cpp LINK kiln)
  target_link_libraries(attention_variants_test PRIVATE ${PROJECT_BINARY_DIR}/lib/libkiln_runtime.a ${CMAKE_DL_LIBS})
  add_dependencies(attention_variants_test kiln_generators kiln-build kiln_runtime)
endif()
