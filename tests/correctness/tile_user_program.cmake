kiln_test(tile_user_program_test LABEL correctness HALIDE
          SOURCES ${CMAKE_CURRENT_LIST_DIR}/tile_user_program_test.cpp ${CMAKE_CURRENT_LIST_DIR}/tile_user_products.cpp
                  ${CMAKE_CURRENT_LIST_DIR}/tile_user_rows.cpp ${CMAKE_CURRENT_LIST_DIR}/tile_scheduled.cpp
                  ${CMAKE_CURRENT_LIST_DIR}/tile_emulation.cpp ${CMAKE_CURRENT_LIST_DIR}/tile_reference.cpp
          LINK kiln)
