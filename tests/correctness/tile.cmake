kiln_test(tile_text_test LABEL correctness HALIDE SOURCES ${CMAKE_CURRENT_LIST_DIR}/tile_text_test.cpp LINK kiln)
kiln_test(tile_interpret_test LABEL correctness HALIDE SOURCES ${CMAKE_CURRENT_LIST_DIR}/tile_interpret_test.cpp ${CMAKE_CURRENT_LIST_DIR}/tile_reference.cpp
          LINK kiln kiln_tile_programs)
kiln_test(tile_fault_test LABEL correctness HALIDE SOURCES ${CMAKE_CURRENT_LIST_DIR}/tile_fault_test.cpp ${CMAKE_CURRENT_LIST_DIR}/tile_reference.cpp
          LINK kiln kiln_tile_programs)
kiln_test(tile_verify_test LABEL correctness HALIDE SOURCES ${CMAKE_CURRENT_LIST_DIR}/tile_verify_test.cpp LINK kiln)
kiln_test(tile_layout_test LABEL correctness HALIDE SOURCES ${CMAKE_CURRENT_LIST_DIR}/tile_layout_test.cpp LINK kiln)
kiln_test(tile_sizes_test LABEL correctness HALIDE SOURCES ${CMAKE_CURRENT_LIST_DIR}/tile_sizes_test.cpp ${CMAKE_CURRENT_LIST_DIR}/tile_reference.cpp
          LINK kiln kiln_tile_programs)
