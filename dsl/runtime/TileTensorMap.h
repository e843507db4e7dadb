/** \file
 * TMA descriptors, made by the driver and kept: one costs a microsecond, and a program calls a kernel on the same
 * buffers again and again.
 */
#pragma once

#include "TileDriver.h"
#include "kiln_tile.h"

namespace kiln::runtime {

/// The descriptor of a box of `view`. `somewhere` is a device address for views without elements, which are described
/// but never read. A view that breaks TMA's rules is reported: KILN_INVALID_ARGUMENT. Any thread.
int make_tensor_map(void *user_context, const TileDriver &driver, const kiln_tile_view &view,
                    const kiln_tile_param &param, uint64_t somewhere, TensorMap &out);

} // namespace kiln::runtime
