# What stands between Halide's code and a compiled tile kernel: bounds, values of a launch, refusals.
kiln_test(tile_stage_test LABEL correctness HALIDE SOURCES tile_stage_test.cpp LINK kiln)
add_dependencies(tile_stage_test kiln_runtime)
