# The runtime a second time under the address and undefined-behaviour sanitizers, and by clang with all warnings.
# tests/correctness/runtime_sanitized.cmake runs the runtime's tests with the first; KILN_RUNTIME names it to them.
add_library(kiln_runtime_sanitized_objects OBJECT EXCLUDE_FROM_ALL ${KILN_RUNTIME_SOURCES})
foreach(property INCLUDE_DIRECTORIES COMPILE_DEFINITIONS COMPILE_FEATURES CXX_STANDARD POSITION_INDEPENDENT_CODE)
  get_target_property(value kiln_runtime_objects ${property})
  set_target_properties(kiln_runtime_sanitized_objects PROPERTIES ${property} "${value}")
endforeach()
target_compile_options(
  kiln_runtime_sanitized_objects PRIVATE -O1 -g -fno-exceptions -fno-rtti -fno-threadsafe-statics -fvisibility=hidden
                                         -fsanitize=address,undefined -fno-sanitize-recover=all)

set(sanitized ${CMAKE_CURRENT_BINARY_DIR}/sanitized)
file(MAKE_DIRECTORY ${sanitized})
add_custom_command(
  OUTPUT ${sanitized}/libkiln_runtime.a
  COMMAND ${CMAKE_COMMAND} -DTOOL=$<TARGET_FILE:kiln-halide-runtime> -DOUT=${sanitized}
          "-DOBJECTS=$<JOIN:$<TARGET_OBJECTS:kiln_runtime_sanitized_objects>,$<COMMA>>"
          "-DORIGINALS=$<JOIN:${KILN_ORIGINALS},$<COMMA>>" -DARCHIVE=${sanitized}/libkiln_runtime.a
          -DSHARED=${sanitized}/libkiln_runtime.so "-DCC=${CMAKE_C_COMPILER};-fsanitize=address,undefined"
          -DLD=${CMAKE_LINKER} -DAR=${CMAKE_AR} -DOBJCOPY=${CMAKE_OBJCOPY} -P ${CMAKE_CURRENT_SOURCE_DIR}/join.cmake
  DEPENDS kiln-halide-runtime kiln_runtime_sanitized_objects $<TARGET_OBJECTS:kiln_runtime_sanitized_objects>
          join.cmake
  VERBATIM
  COMMENT "Joining the sanitized libkiln_runtime")
add_custom_target(kiln_runtime_sanitized ALL DEPENDS ${sanitized}/libkiln_runtime.a)

# clang, where it is not the compiler of this tree already.
find_program(KILN_CLANG clang++)
if(KILN_CLANG AND NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
  set(by_clang)
  foreach(source ${KILN_RUNTIME_SOURCES})
    set(object ${CMAKE_CURRENT_BINARY_DIR}/clang/${source}.o)
    add_custom_command(
      OUTPUT ${object}
      COMMAND ${KILN_CLANG} -std=c++17 -O1 -fPIC -fno-exceptions -fno-rtti -fno-threadsafe-statics -fvisibility=hidden
              -Wall -Wextra -Werror -Wno-unused-parameter -DKILN_BUILDING_RUNTIME -DKILN_VERSION="${PROJECT_VERSION}"
              -I${KILN_INCLUDE} -I${CMAKE_CURRENT_SOURCE_DIR} -MD -MF ${object}.d -c ${CMAKE_CURRENT_SOURCE_DIR}/${source}
              -o ${object}
      DEPENDS ${source}
      DEPFILE ${object}.d
      VERBATIM
      COMMENT "Compiling ${source} of the runtime by clang")
    list(APPEND by_clang ${object})
  endforeach()
  file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/clang)
  add_custom_target(kiln_runtime_clang ALL DEPENDS ${by_clang})
endif()
