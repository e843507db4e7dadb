add_library(kiln_test_pipelines OBJECT ${CMAKE_CURRENT_LIST_DIR}/schedule_apply_pipelines.cpp
                                       ${CMAKE_CURRENT_LIST_DIR}/schedule_apply_random.cpp)
target_link_libraries(kiln_test_pipelines PUBLIC kiln)
target_precompile_headers(kiln_test_pipelines REUSE_FROM kiln_pch)
kiln_options(kiln_test_pipelines)

kiln_test(schedule_apply_property_test LABEL correctness HALIDE
          SOURCES ${CMAKE_CURRENT_LIST_DIR}/schedule_apply_property_test.cpp
          LINK kiln kiln_test_pipelines)

kiln_test(schedule_apply_test LABEL correctness HALIDE
          SOURCES ${CMAKE_CURRENT_LIST_DIR}/schedule_apply_test.cpp
          LINK kiln kiln_test_pipelines)
