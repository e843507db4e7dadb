/** \file
 * Tile kernels loaded on a device: one module a kernel and context, loaded at its first launch there.
 */
#pragma once

#include "TileDriver.h"
#include "kiln_tile.h"

namespace kiln::runtime {

struct TileModule {
    uint32_t id;
    void *context;
    void *module, *function;
    int64_t resident; ///< blocks that run at once, whole clusters; 0 where the device cannot hold one
    int64_t max_grid;
    TileModule *next;
};

/// The kernel in the context, which must be current; null after a report. Any thread; lives until
/// release_tile_modules.
const TileModule *tile_module(void *user_context, const TileDriver &driver, const kiln_tile_kernel &kernel,
                              void *context);

/// Unloads all modules of the context, which is current.
void release_tile_modules(void *context);

} // namespace kiln::runtime
