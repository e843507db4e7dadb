# Tile kernels in libraries as they ship: built, linked and called, with a CUDA driver that computes nothing.
kiln_test(tile_library_test LABEL correctness SOURCES tile_library_test.cpp LINK kiln)
target_link_libraries(tile_library_test PRIVATE ${PROJECT_BINARY_DIR}/lib/libkiln_runtime.a ${CMAKE_DL_LIBS})
add_dependencies(tile_library_test kiln-build kiln_runtime kiln_tile_generators kiln_fake_cuda)
kiln_test(tile_opencl_library_test LABEL correctness SOURCES tile_opencl_library_test.cpp LINK kiln OpenCL::OpenCL)
target_link_libraries(tile_opencl_library_test PRIVATE ${PROJECT_BINARY_DIR}/lib/libkiln_runtime.a ${CMAKE_DL_LIBS})
add_dependencies(tile_opencl_library_test kiln-build kiln_runtime kiln_tile_generators)
# PoCL then has two devices of one platform, for contexts of several.
set_tests_properties(tile_opencl_library_test PROPERTIES ENVIRONMENT "POCL_DEVICES=pthread pthread")
