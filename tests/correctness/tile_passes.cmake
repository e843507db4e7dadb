kiln_test(tile_passes_test LABEL correctness HALIDE SOURCES tile_passes_test.cpp LINK kiln)
