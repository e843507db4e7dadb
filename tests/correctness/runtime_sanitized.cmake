# The runtime's tests again: they, the runtime and what kernels bring in C under the address and undefined-behaviour
# sanitizers. Halide's own code and compiled kernels are not instrumented. Leaks are not looked for: Halide and LLVM keep
# what they have until exit.
add_executable(runtime_sanitized_test runtime_contract_test.cpp runtime_shapes_test.cpp runtime_variants_test.cpp
                                      runtime_view_test.cpp tile_runtime_test.cpp)
target_compile_definitions(runtime_sanitized_test PRIVATE KILN_BINARY_DIR="${PROJECT_BINARY_DIR}")
target_compile_options(runtime_sanitized_test PRIVATE -g -fsanitize=address,undefined -fno-sanitize-recover=all
                                                      -Wno-maybe-uninitialized)
target_link_options(runtime_sanitized_test PRIVATE -fsanitize=address,undefined)
set(sanitized_runtime ${PROJECT_BINARY_DIR}/dsl/runtime/sanitized/libkiln_runtime.a)
target_link_libraries(runtime_sanitized_test PRIVATE kiln GTest::gtest_main ${sanitized_runtime} ${CMAKE_DL_LIBS})
kiln_options(runtime_sanitized_test)
add_dependencies(runtime_sanitized_test kiln-build kiln_runtime_sanitized kiln_test_generators
                 kiln_fake_cuda)
add_test(NAME runtime_test.sanitized COMMAND runtime_sanitized_test)
set_tests_properties(
  runtime_test.sanitized
  PROPERTIES LABELS correctness
             ENVIRONMENT
             "ASAN_OPTIONS=detect_leaks=0;CC=${CMAKE_C_COMPILER} -fsanitize=address,undefined;KILN_RUNTIME=${sanitized_runtime}")
