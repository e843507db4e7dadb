# The runtime's part of tile kernels: modules, descriptors, launches, checks, against a driver that computes nothing.
kiln_test(tile_runtime_test LABEL correctness SOURCES tile_runtime_test.cpp)
target_include_directories(tile_runtime_test PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/include/kiln)
target_link_libraries(tile_runtime_test PRIVATE Threads::Threads ${PROJECT_BINARY_DIR}/lib/libkiln_runtime.a
                                                ${CMAKE_DL_LIBS})
add_dependencies(tile_runtime_test kiln_runtime kiln_fake_cuda)
