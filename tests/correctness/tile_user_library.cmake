kiln_test(tile_user_library_test LABEL correctness HALIDE SOURCES ${CMAKE_CURRENT_LIST_DIR}/tile_user_library_test.cpp LINK kiln)
add_dependencies(tile_user_library_test kiln_user_generators kiln-build)
