# Tile kernels in libraries as they ship: built, linked and called, with a CUDA driver that computes nothing.
kiln_test(tile_library_test LABEL correctness SOURCES tile_library_test.cpp LINK kiln)
target_link_libraries(tile_library_test PRIVATE ${PROJECT_BINARY_DIR}/lib/libkiln_runtime.a ${CMAKE_DL_LIBS})
add_dependencies(tile_library_test kiln-build kiln_runtime kiln_tile_generators kiln_fake_cuda)
kiln_test(tile_opencl_library_test LABEL correctness SOURCES tile_opencl_library_test.cpp LINK kiln OpenCL::OpenCL)
target_link_libraries(tile_opencl_library_test PRIVATE ${PROJECT_BINARY_DIR}/lib/libkiln_runtime.a ${CMAKE_DL_LIBS})
add_dependencies(tile_opencl_library_test kiln-build kiln_runtime kiln_generators kiln_tile_generators)
# PoCL with two devices of one platform, for contexts of several.
add_test(NAME tile_opencl_library_test.devices COMMAND tile_opencl_library_test --gtest_filter=*EveryDevice*)
set_tests_properties(tile_opencl_library_test.devices PROPERTIES LABELS correctness ENVIRONMENT
                                                                 "POCL_DEVICES=pthread pthread")
