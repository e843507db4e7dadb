kiln_test(check_error_test LABEL error HALIDE
          SOURCES ${CMAKE_CURRENT_LIST_DIR}/check_error_test.cpp
          LINK kiln kiln_test_pipelines kiln_tile_programs)
