# The runtime's tests again: they, the runtime and what kernels bring in C under sanitizers. Halide's own code and compiled
# kernels are not instrumented. Leaks are not looked for: Halide and LLVM keep what they have until exit.

# kiln_instrumented_runtime_test(TEST RUNTIME SANITIZERS SOURCE...)
function(kiln_instrumented_runtime_test test runtime sanitizers)
  add_executable(${test} ${ARGN})
  target_compile_definitions(${test} PRIVATE KILN_BINARY_DIR="${PROJECT_BINARY_DIR}" KILN_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  target_compile_options(${test} PRIVATE -g -fsanitize=${sanitizers} -fno-sanitize-recover=all -Wno-maybe-uninitialized)
  target_link_options(${test} PRIVATE -fsanitize=${sanitizers})
  target_link_libraries(${test} PRIVATE kiln GTest::gtest_main ${PROJECT_BINARY_DIR}/dsl/runtime/${runtime}/libkiln_runtime.a
                                        ${CMAKE_DL_LIBS})
  kiln_options(${test})
  add_dependencies(${test} kiln-build kiln_runtime_${runtime} kiln_test_generators kiln_generators kiln_fake_cuda)
endfunction()

kiln_instrumented_runtime_test(
  runtime_sanitized_test sanitized address,undefined runtime_contract_test.cpp runtime_shapes_test.cpp
  runtime_variants_test.cpp runtime_view_test.cpp tile_runtime_test.cpp)
set(instrumented "CC=${CMAKE_C_COMPILER} -fsanitize=")
set(runtime KILN_RUNTIME=${PROJECT_BINARY_DIR}/dsl/runtime)
add_test(NAME runtime_test.sanitized COMMAND runtime_sanitized_test)
set_tests_properties(
  runtime_test.sanitized
  PROPERTIES LABELS correctness
             ENVIRONMENT
             "ASAN_OPTIONS=detect_leaks=0;${instrumented}address,undefined;${runtime}/sanitized/libkiln_runtime.a")

# Threads: not in ctest, since this sanitizer refuses to start where the kernel spreads addresses widely. One thread a kernel, and
# no test whose callers share Halide's pool of threads: the pool is Halide's own object code, whose locks the sanitizer does not see. By hand:
#   ninja -C build check-races
kiln_instrumented_runtime_test(runtime_race_test race thread runtime_cuda_test.cpp runtime_shapes_test.cpp
                               runtime_variants_test.cpp tile_runtime_test.cpp)
set_target_properties(runtime_race_test PROPERTIES EXCLUDE_FROM_ALL TRUE)
add_custom_target(
  check-races
  COMMAND ${CMAKE_COMMAND} -E env ${instrumented}thread ${runtime}/race/libkiln_runtime.a
          HL_NUM_THREADS=1 $<TARGET_FILE:runtime_race_test> --gtest_filter=-Shapes.ManyThreads
  DEPENDS runtime_race_test
  USES_TERMINAL VERBATIM)
