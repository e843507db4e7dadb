kiln_test(tile_text_test LABEL correctness HALIDE SOURCES tile_text_test.cpp LINK kiln)
