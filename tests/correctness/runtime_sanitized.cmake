if(KILN_SANITIZE)
  return()
endif()
# The runtime's tests again, with the runtime under the address and undefined-behaviour sanitizers. Kernels are linked to
# it as they are loaded. Leaks are not looked for: Halide, LLVM and OpenCL drivers keep what they have until exit.
foreach(library asan ubsan)
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=lib${library}.so OUTPUT_VARIABLE path
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
  list(APPEND sanitizers ${path})
endforeach()
list(JOIN sanitizers ":" sanitizers)
foreach(test contract shapes variants view)
  add_test(NAME runtime_${test}_test.sanitized COMMAND runtime_${test}_test)
  set_tests_properties(
    runtime_${test}_test.sanitized
    PROPERTIES
      LABELS correctness
      ENVIRONMENT
      "LD_PRELOAD=${sanitizers};ASAN_OPTIONS=detect_leaks=0;CC=${CMAKE_C_COMPILER} -fsanitize=address,undefined;KILN_RUNTIME=${PROJECT_BINARY_DIR}/dsl/runtime/sanitized/libkiln_runtime.a"
  )
endforeach()
