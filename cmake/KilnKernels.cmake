# kiln_add_kernels(TARGET GENERATOR name
#                  TARGETS "cpu avx2" cpu cuda …     variants behind one name, in order of preference
#                  [SCHEDULE default | auto | file… | folder]  the first with a schedule for the target; `default` ends
#                                                    the list; `auto` is what `kiln tune` found, or the cost model's choice
#                  [PARAMS key=value…]               generator parameters
#                  [LOAD library…]                   shared objects with generators: files or CMake targets
#                  [NAME name]                       the C function; TARGET otherwise
#                  [RUNTIME static|shared|none])     what TARGET links beside the kernel; static
#
# A folder of schedules holds GENERATOR/TARGET.sched, and in variants.txt which others serve some calls; Kiln's own are in
# KILN_SCHEDULES.
#
# TARGET becomes a library to link: it brings NAME.h (and kiln.h), the kernel and the runtime. Call it again with the
# same TARGET for more kernels. The kernel is built again when a schedule, an object with generators or Kiln changes.
function(kiln_add_kernels target)
  cmake_parse_arguments(ARG "" "GENERATOR;NAME;RUNTIME" "TARGETS;SCHEDULE;PARAMS;LOAD" ${ARGN})
  if(ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "kiln_add_kernels(${target}): unknown arguments ${ARG_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT ARG_GENERATOR)
    message(FATAL_ERROR "kiln_add_kernels(${target}): GENERATOR is missing")
  endif()
  if(NOT ARG_TARGETS)
    message(FATAL_ERROR "kiln_add_kernels(${target}): TARGETS is missing, such as `TARGETS cpu`")
  endif()
  if(NOT ARG_NAME)
    set(ARG_NAME ${target})
  endif()
  if(NOT ARG_SCHEDULE)
    set(ARG_SCHEDULE default)
  endif()

  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${target}.kernels)
  file(MAKE_DIRECTORY ${folder})
  set(depends ${KILN_BUILD_TOOL} ${KILN_ROOT}/lib/libkiln.so)
  if(EXISTS ${KILN_ROOT}/lib/kiln_generators.so)
    list(APPEND depends ${KILN_ROOT}/lib/kiln_generators.so)
  endif()
  set(schedules)
  foreach(schedule ${ARG_SCHEDULE})
    if(NOT schedule STREQUAL "default" AND NOT schedule STREQUAL "auto")
      get_filename_component(schedule ${schedule} ABSOLUTE)
      if(IS_DIRECTORY ${schedule})
        file(GLOB files CONFIGURE_DEPENDS ${schedule}/variants.txt ${schedule}/${ARG_GENERATOR}/*.sched)
        list(APPEND depends ${files})
      else()
        list(APPEND depends ${schedule})
      endif()
    endif()
    list(APPEND schedules ${schedule})
  endforeach()
  set(loads)
  foreach(load ${ARG_LOAD})
    if(TARGET ${load})
      list(APPEND loads $<TARGET_FILE:${load}>)
      list(APPEND depends ${load} $<TARGET_FILE:${load}>)
    else()
      get_filename_component(load ${load} ABSOLUTE)
      list(APPEND loads ${load})
      list(APPEND depends ${load})
    endif()
  endforeach()

  # The request as JSON; names and paths hold no characters that JSON escapes.
  set(request ${folder}/${ARG_NAME}.request.json)
  set(json "{\"generator\": \"${ARG_GENERATOR}\", \"name\": \"${ARG_NAME}\", \"output_dir\": \"${folder}\"")
  foreach(list targets schedules params loads)
    if(list STREQUAL "targets")
      set(values ${ARG_TARGETS})
    elseif(list STREQUAL "params")
      set(values ${ARG_PARAMS})
    else()
      set(values ${${list}})
    endif()
    list(TRANSFORM values REPLACE "(.+)" "\"\\1\"")
    list(JOIN values ", " values)
    string(APPEND json ",\n \"${list}\": [${values}]")
  endforeach()
  file(GENERATE OUTPUT ${request} CONTENT "${json}}\n")

  set(archive ${folder}/${ARG_NAME}.a)
  add_custom_command(
    OUTPUT ${archive} ${folder}/${ARG_NAME}.h ${folder}/${ARG_NAME}.json
    COMMAND ${KILN_BUILD_TOOL} --library ${request}
    DEPENDS ${request} ${depends}
    COMMENT "Building kernel ${ARG_NAME}"
    VERBATIM)
  add_custom_target(${target}_${ARG_NAME}_build DEPENDS ${archive})
  add_library(${target}_${ARG_NAME} STATIC IMPORTED)
  set_target_properties(${target}_${ARG_NAME} PROPERTIES IMPORTED_LOCATION ${archive}
                                                         INTERFACE_INCLUDE_DIRECTORIES ${folder})
  add_dependencies(${target}_${ARG_NAME} ${target}_${ARG_NAME}_build)

  if(NOT TARGET ${target})
    add_library(${target} INTERFACE)
  endif()
  target_link_libraries(${target} INTERFACE ${target}_${ARG_NAME})
  if(NOT ARG_RUNTIME OR ARG_RUNTIME STREQUAL "static")
    target_link_libraries(${target} INTERFACE Kiln::runtime)
    set_property(TARGET ${target}_${ARG_NAME} PROPERTY INTERFACE_LINK_LIBRARIES Kiln::runtime)
  elseif(ARG_RUNTIME STREQUAL "shared")
    target_link_libraries(${target} INTERFACE Kiln::runtime_shared)
    set_property(TARGET ${target}_${ARG_NAME} PROPERTY INTERFACE_LINK_LIBRARIES Kiln::runtime_shared)
  else()
    target_include_directories(${target} INTERFACE ${KILN_ROOT}/include/kiln ${KILN_ROOT}/include)
  endif()
endfunction()
