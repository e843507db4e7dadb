kiln_test(tile_schedule_test LABEL correctness HALIDE SOURCES ${CMAKE_CURRENT_LIST_DIR}/tile_schedule_test.cpp
          LINK kiln kiln_tile_programs)
