kiln_test(ops_test LABEL correctness HALIDE SOURCES ops_test.cpp LINK kiln)
kiln_test(ops_attention_test LABEL correctness HALIDE SOURCES ops_attention_test.cpp LINK kiln)
add_dependencies(ops_test kiln_generators)
