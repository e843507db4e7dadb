kiln_test(tile_build_test LABEL correctness HALIDE SOURCES ${CMAKE_CURRENT_LIST_DIR}/tile_build_test.cpp
          LINK kiln kiln_tile_programs)
