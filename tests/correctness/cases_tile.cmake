kiln_test(cases_tile_test LABEL correctness HALIDE
          SOURCES ${CMAKE_CURRENT_LIST_DIR}/cases_tile_test.cpp ${CMAKE_CURRENT_LIST_DIR}/tile_reference.cpp
          LINK kiln kiln_tile_programs)
