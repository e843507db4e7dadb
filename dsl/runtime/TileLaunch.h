/** \file
 * The launch of a tile kernel on each kind of device: what kiln_tile_launch hands on once the call was checked.
 */
#pragma once

#include "Frame.h"
#include "kiln_tile.h"

namespace kiln::runtime {

/// A launch of kiln_tile_launch, whose grid has so many tiles: more than 0, or -1 where 63 bits do not hold them.
struct TileCall {
    void *user_context;
    const kiln_tile_kernel &kernel;
    const kiln_tile_view *views;
    int32_t view_count;
    const int64_t *grid;
    int32_t grid_count;
    int64_t tiles;
    const kiln_tile_param *params;
    int32_t param_count;
};

/// Of the devices that the kernel was compiled for.
const halide_device_interface_t *tile_interface(const kiln_tile_kernel &kernel);

/// Gives outputs memory on the device and brings inputs there. Returns 0 or a code after a report.
int give_tile_memory(const TileCall &call);

/// Reports that the grid has more blocks than `most`, which can be launched.
int refuse_tile_grid(const TileCall &call, int64_t most);

/// A KILN_TILE_INT that 32 bits do not hold is reported.
int check_tile_int(const TileCall &call, const kiln_tile_param &param);

/// What kernels multiply by in place of dividing by the parameter's value.
uint64_t tile_reciprocal(const kiln_tile_param &param);

/// OpenCL (OpenCLTile.cpp). A launch queues the kernel; both build the program where the context has none yet.
int opencl_tile_launch(const TileCall &call);
int opencl_tile_prepare(void *user_context, const kiln_tile_kernel &kernel);
/// Drops all programs of the context.
void release_opencl_tiles(void *context);

} // namespace kiln::runtime
