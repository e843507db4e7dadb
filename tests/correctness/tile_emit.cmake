kiln_test(tile_emit_test LABEL correctness HALIDE SOURCES ${CMAKE_CURRENT_LIST_DIR}/tile_emit_test.cpp
          LINK kiln kiln_tile_programs)
# Emitted text, compiled for the CPU by the test itself.
kiln_test(tile_emulated_test LABEL correctness HALIDE
          SOURCES ${CMAKE_CURRENT_LIST_DIR}/tile_emulated_test.cpp ${CMAKE_CURRENT_LIST_DIR}/tile_emulation.cpp
                  ${CMAKE_CURRENT_LIST_DIR}/tile_reference.cpp
          LINK kiln kiln_tile_programs)
find_package(OpenCL REQUIRED)
kiln_test(tile_opencl_test LABEL correctness HALIDE
          SOURCES ${CMAKE_CURRENT_LIST_DIR}/tile_opencl_test.cpp ${CMAKE_CURRENT_LIST_DIR}/tile_reference.cpp
          LINK kiln kiln_tile_programs OpenCL::OpenCL)
