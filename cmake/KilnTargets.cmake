# Functions that declare Kiln's own libraries and tests: one set of warnings, one precompiled Halide.h.

# kiln_options(TARGET): warnings as errors, and sanitizers where asked.
function(kiln_options target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Werror -Wno-unused-parameter)
  # GCC 13 takes what a temporary Halide handle refers to for a part of the handle.
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-dangling-reference>)
  endif()
  if(KILN_SANITIZE)
    target_compile_definitions(${target} PRIVATE KILN_SANITIZE)
    target_compile_options(${target} PUBLIC -fsanitize=address,undefined -fno-sanitize-recover=all -g)
    # Instrumented, parts of the standard library (std::regex) look uninitialized to gcc.
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
    target_link_options(${target} PUBLIC -fsanitize=address,undefined)
  endif()
endfunction()

# kiln_halide_pch(): Halide.h compiled once (8 s); every target that uses Halide shares it.
function(kiln_halide_pch)
  add_library(kiln_pch OBJECT ${PROJECT_SOURCE_DIR}/cmake/pch.cpp)
  target_link_libraries(kiln_pch PUBLIC Halide::Halide fmt::fmt nlohmann_json::nlohmann_json)
  target_precompile_headers(kiln_pch PRIVATE <Halide.h> <fmt/format.h> <nlohmann/json.hpp>)
  kiln_options(kiln_pch)
endfunction()

# kiln_library(NAME [HALIDE] SOURCES file... [LINK target...]): a part of dsl as an object library.
# Parts named here are joined into libkiln.so by dsl/CMakeLists.txt.
function(kiln_library name)
  cmake_parse_arguments(ARG "HALIDE" "" "SOURCES;LINK" ${ARGN})
  add_library(${name} OBJECT ${ARG_SOURCES})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/include)
  target_link_libraries(${name} PUBLIC fmt::fmt nlohmann_json::nlohmann_json Threads::Threads ${ARG_LINK})
  kiln_options(${name})
  if(ARG_HALIDE)
    target_link_libraries(${name} PUBLIC Halide::Halide)
    target_precompile_headers(${name} REUSE_FROM kiln_pch)
  endif()
endfunction()

# kiln_test(NAME LABEL label [HALIDE] SOURCES file... [LINK target...]): a GoogleTest program, one ctest
# entry a case, under the label of its folder (correctness, error, golden, fuzz, integration).
function(kiln_test name)
  cmake_parse_arguments(ARG "HALIDE" "LABEL" "SOURCES;LINK" ${ARGN})
  if(ARG_HALIDE AND KILN_SANITIZE)
    return() # that build has no Halide
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE KILN_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                                             KILN_BINARY_DIR="${PROJECT_BINARY_DIR}")
  kiln_options(${name})
  if(ARG_HALIDE)
    # An executable would get -fPIE, and the precompiled header was made with -fPIC.
    set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${name} PRIVATE -fPIC)
    target_precompile_headers(${name} REUSE_FROM kiln_pch)
  endif()
  # One ctest runs both trees: the names say which is which.
  set(test ${name})
  if(KILN_SANITIZE)
    string(APPEND test .sanitized)
  endif()
  add_test(NAME ${test} COMMAND ${name})
  set_tests_properties(${test} PROPERTIES LABELS ${ARG_LABEL})
endfunction()
