kiln_test(tile_build_error_test LABEL error HALIDE SOURCES ${CMAKE_CURRENT_LIST_DIR}/tile_build_error_test.cpp
          LINK kiln)
