# The autoscheduler's space and features.
if(NOT KILN_SANITIZE)
  add_library(kiln_search_pipelines OBJECT search_pipelines.cpp)
  target_link_libraries(kiln_search_pipelines PUBLIC kiln)
  target_precompile_headers(kiln_search_pipelines REUSE_FROM kiln_pch)
  kiln_options(kiln_search_pipelines)
  kiln_test(search_space_test LABEL correctness HALIDE SOURCES search_space_test.cpp
            LINK kiln kiln_test_pipelines kiln_search_pipelines)
  kiln_test(search_space_reach_test LABEL correctness HALIDE SOURCES search_space_reach_test.cpp LINK kiln)
  add_dependencies(search_space_reach_test kiln_generators)
  kiln_test(search_features_test LABEL correctness HALIDE SOURCES search_features_test.cpp search_lowered_counts.cpp LINK kiln)
endif()
