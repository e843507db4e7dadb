# Faults of checks, benchmarks, devices and shared objects of generators.
if(NOT KILN_SANITIZE)
  kiln_test(kernel_error_test LABEL error HALIDE
            SOURCES ${CMAKE_CURRENT_LIST_DIR}/kernel_error_test.cpp
                    ${CMAKE_CURRENT_LIST_DIR}/generator_error_test.cpp
            LINK kiln)
  add_dependencies(kernel_error_test kiln_program kiln_generators kiln_test_generators kiln-build
                   check_bad_unsupported)
  foreach(fault copies replaces twice aborts)
    add_library(faulty_${fault} MODULE ${CMAKE_CURRENT_LIST_DIR}/faulty_generators.cpp)
    target_link_libraries(faulty_${fault} PRIVATE kiln)
    target_compile_definitions(faulty_${fault} PRIVATE FAULT_${fault})
    target_precompile_headers(faulty_${fault} REUSE_FROM kiln_pch)
    kiln_options(faulty_${fault})
    set_target_properties(faulty_${fault} PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
    add_dependencies(kernel_error_test faulty_${fault})
  endforeach()
endif()
