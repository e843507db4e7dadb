kiln_test(tile_rows_test LABEL correctness HALIDE
          SOURCES ${CMAKE_CURRENT_LIST_DIR}/tile_rows_test.cpp ${CMAKE_CURRENT_LIST_DIR}/tile_scheduled.cpp
                  ${CMAKE_CURRENT_LIST_DIR}/tile_emulation.cpp ${CMAKE_CURRENT_LIST_DIR}/tile_reference.cpp
          LINK kiln)
