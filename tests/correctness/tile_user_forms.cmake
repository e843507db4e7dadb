kiln_test(tile_user_forms_test LABEL correctness HALIDE
          SOURCES ${CMAKE_CURRENT_LIST_DIR}/tile_user_forms_test.cpp ${CMAKE_CURRENT_LIST_DIR}/tile_reference.cpp
          LINK kiln kiln_tile_programs)
