# The runtime again under sanitizers: address and undefined behaviour, which ./dev test builds, and thread, which
# `ninja -C build runtime_race_test` builds. tests/correctness/runtime_sanitized.cmake runs the runtime's tests with
# each; KILN_RUNTIME names it to them.

# kiln_instrumented_runtime(NAME SANITIZERS): NAME/libkiln_runtime.{a,so} in this folder, by the target kiln_runtime_NAME.
function(kiln_instrumented_runtime name sanitizers)
  set(objects kiln_runtime_${name}_objects)
  add_library(${objects} OBJECT EXCLUDE_FROM_ALL ${KILN_RUNTIME_SOURCES})
  foreach(property INCLUDE_DIRECTORIES COMPILE_DEFINITIONS COMPILE_FEATURES CXX_STANDARD POSITION_INDEPENDENT_CODE)
    get_target_property(value kiln_runtime_objects ${property})
    set_target_properties(${objects} PROPERTIES ${property} "${value}")
  endforeach()
  target_compile_options(${objects} PRIVATE -O1 -g -fno-exceptions -fno-rtti -fno-threadsafe-statics -fvisibility=hidden
                                            -fsanitize=${sanitizers} -fno-sanitize-recover=all)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${name})
  file(MAKE_DIRECTORY ${folder})
  add_custom_command(
    OUTPUT ${folder}/libkiln_runtime.a
    COMMAND ${CMAKE_COMMAND} -DTOOL=$<TARGET_FILE:kiln-halide-runtime> -DOUT=${folder}
            "-DOBJECTS=$<JOIN:$<TARGET_OBJECTS:${objects}>,$<COMMA>>" "-DORIGINALS=$<JOIN:${KILN_ORIGINALS},$<COMMA>>"
            -DARCHIVE=${folder}/libkiln_runtime.a -DSHARED=${folder}/libkiln_runtime.so
            "-DCC=${CMAKE_C_COMPILER};-fsanitize=${sanitizers}" -DLD=${CMAKE_LINKER} -DAR=${CMAKE_AR}
            -DOBJCOPY=${CMAKE_OBJCOPY} -P ${CMAKE_CURRENT_SOURCE_DIR}/join.cmake
    DEPENDS kiln-halide-runtime ${objects} $<TARGET_OBJECTS:${objects}> join.cmake
    VERBATIM
    COMMENT "Joining libkiln_runtime under ${sanitizers}")
  add_custom_target(kiln_runtime_${name} DEPENDS ${folder}/libkiln_runtime.a)
endfunction()

kiln_instrumented_runtime(sanitized address,undefined)
kiln_instrumented_runtime(race thread)

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
