kiln_test(tile_attention_test LABEL correctness HALIDE
          SOURCES ${CMAKE_CURRENT_LIST_DIR}/tile_attention_test.cpp ${CMAKE_CURRENT_LIST_DIR}/tile_reference.cpp
          LINK kiln kiln_tile_programs)
kiln_test(tile_attention_data_test LABEL correctness HALIDE
          SOURCES ${CMAKE_CURRENT_LIST_DIR}/tile_attention_data_test.cpp ${CMAKE_CURRENT_LIST_DIR}/tile_reference.cpp
          LINK kiln kiln_tile_programs)
