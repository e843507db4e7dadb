# Algorithms with plans that the tests of dsl/tile share.
add_library(kiln_tile_programs OBJECT ${CMAKE_CURRENT_LIST_DIR}/tile_programs.cpp)
target_link_libraries(kiln_tile_programs PUBLIC kiln)
target_precompile_headers(kiln_tile_programs REUSE_FROM kiln_pch)
kiln_options(kiln_tile_programs)
