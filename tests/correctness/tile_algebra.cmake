kiln_test(tile_algebra_test LABEL correctness HALIDE SOURCES ${CMAKE_CURRENT_LIST_DIR}/tile_algebra_test.cpp
          LINK kiln kiln_tile_programs)
