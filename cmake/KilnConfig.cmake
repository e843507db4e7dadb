# find_package(Kiln): the same file serves an installation and a build tree, which have one layout:
# bin/kiln-build, lib/libkiln_runtime.a, include/kiln/kiln.h.
#
#   Kiln::runtime         what a program with kernels links, static
#   Kiln::runtime_shared  the same as a shared library
#   Kiln::kiln            what a shared object with generators links (C++20)
#   Kiln::kiln_program    the command line
#   Kiln::autoscheduler::Kiln  for add_halide_library(… AUTOSCHEDULER …) in a plain Halide build
#   kiln_add_kernels()    see KilnKernels.cmake
#   KILN_SCHEDULES        the folder of Kiln's own schedules
get_filename_component(KILN_ROOT "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(KILN_BUILD_TOOL "${KILN_ROOT}/bin/kiln-build")
set(KILN_SCHEDULES "${KILN_ROOT}/share/kiln/schedules")

# In a build tree: where the sources and Halide's headers are.
set(KILN_DSL_INCLUDE "${KILN_ROOT}/include")
include("${CMAKE_CURRENT_LIST_DIR}/KilnBuildTree.cmake" OPTIONAL)

find_package(Threads REQUIRED)
foreach(kind runtime runtime_shared)
  if(TARGET Kiln::${kind})
    continue()
  endif()
  if(kind STREQUAL "runtime")
    add_library(Kiln::${kind} STATIC IMPORTED GLOBAL)
    set(location "${KILN_ROOT}/lib/libkiln_runtime.a")
  else()
    add_library(Kiln::${kind} SHARED IMPORTED GLOBAL)
    set(location "${KILN_ROOT}/lib/libkiln_runtime.so")
  endif()
  set_target_properties(Kiln::${kind} PROPERTIES
    IMPORTED_LOCATION "${location}"
    INTERFACE_INCLUDE_DIRECTORIES "${KILN_ROOT}/include/kiln;${KILN_ROOT}/include"
    INTERFACE_LINK_LIBRARIES "Threads::Threads;${CMAKE_DL_LIBS};m")
endforeach()

if(NOT TARGET Kiln::kiln)
  add_library(Kiln::kiln SHARED IMPORTED GLOBAL)
  set_target_properties(Kiln::kiln PROPERTIES
    IMPORTED_LOCATION "${KILN_ROOT}/lib/libkiln.so"
    INTERFACE_INCLUDE_DIRECTORIES "${KILN_DSL_INCLUDE}"
    INTERFACE_COMPILE_FEATURES cxx_std_20)
  if(KILN_HALIDE_LIBRARY)
    set_property(TARGET Kiln::kiln PROPERTY INTERFACE_LINK_LIBRARIES "${KILN_HALIDE_LIBRARY}")
  else()
    set_property(TARGET Kiln::kiln PROPERTY INTERFACE_LINK_LIBRARIES "${KILN_ROOT}/lib/libHalide.so")
  endif()
endif()

# Halide takes the last part of the name for the autoscheduler's.
if(NOT TARGET Kiln::autoscheduler::Kiln AND EXISTS "${KILN_ROOT}/lib/libautoschedule_kiln.so")
  add_library(Kiln::autoscheduler::Kiln MODULE IMPORTED GLOBAL)
  set_target_properties(Kiln::autoscheduler::Kiln PROPERTIES
    IMPORTED_LOCATION "${KILN_ROOT}/lib/libautoschedule_kiln.so")
endif()

if(NOT TARGET Kiln::kiln_program AND EXISTS "${KILN_ROOT}/bin/kiln")
  add_executable(Kiln::kiln_program IMPORTED GLOBAL)
  set_target_properties(Kiln::kiln_program PROPERTIES IMPORTED_LOCATION "${KILN_ROOT}/bin/kiln")
endif()

include("${CMAKE_CURRENT_LIST_DIR}/KilnKernels.cmake")
set(Kiln_FOUND TRUE)
