kiln_test(tile_emit_test LABEL correctness HALIDE SOURCES ${CMAKE_CURRENT_LIST_DIR}/tile_emit_test.cpp
          LINK kiln kiln_tile_programs)
