# What `cmake --install` copies, and the same layout in the build tree. An installation can be moved as a whole.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package ${PROJECT_BINARY_DIR}/lib/cmake/Kiln)
foreach(file KilnConfig.cmake KilnKernels.cmake)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/${file} ${package}/${file} COPYONLY)
endforeach()
write_basic_package_version_file(${package}/KilnConfigVersion.cmake VERSION ${PROJECT_VERSION}
                                 COMPATIBILITY SameMinorVersion)

get_target_property(halide_include Halide::Halide INTERFACE_INCLUDE_DIRECTORIES)
list(GET halide_include 0 halide_include)
string(REGEX REPLACE "^\\$<BUILD_INTERFACE:(.*)>$" "\\1" halide_include "${halide_include}")
file(GENERATE OUTPUT ${package}/KilnBuildTree.cmake CONTENT
"# Only in a build tree: not installed.
set(KILN_DSL_INCLUDE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/include ${PROJECT_BINARY_DIR}/include/kiln ${halide_include})
set(KILN_SCHEDULES ${PROJECT_SOURCE_DIR}/schedules)
set(KILN_HALIDE_LIBRARY $<TARGET_FILE:Halide::Halide>)
")

set_target_properties(kiln kiln_generators PROPERTIES INSTALL_RPATH "$ORIGIN")
foreach(program kiln_program kiln-build kiln-measure)
  if(TARGET ${program})
    set_target_properties(${program} PROPERTIES INSTALL_RPATH "$ORIGIN/../lib")
    install(TARGETS ${program} RUNTIME DESTINATION bin)
  endif()
endforeach()
install(TARGETS kiln LIBRARY DESTINATION lib)
install(TARGETS kiln_generators LIBRARY DESTINATION lib)
install(FILES ${PROJECT_BINARY_DIR}/lib/libkiln_runtime.a DESTINATION lib)
install(PROGRAMS ${PROJECT_BINARY_DIR}/lib/libkiln_runtime.so DESTINATION lib)
install(PROGRAMS $<TARGET_FILE:Halide::Halide> DESTINATION lib RENAME libHalide.so)
install(DIRECTORY ${PROJECT_BINARY_DIR}/include/kiln DESTINATION include)
install(FILES ${halide_include}/Halide.h DESTINATION include)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/dsl DESTINATION include FILES_MATCHING PATTERN "*.h"
        PATTERN runtime EXCLUDE)
install(FILES ${package}/KilnConfig.cmake ${package}/KilnConfigVersion.cmake ${package}/KilnKernels.cmake
        DESTINATION lib/cmake/Kiln)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/schedules DESTINATION share/kiln)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/THIRD_PARTY.md DESTINATION share/doc/kiln)
