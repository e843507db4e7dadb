/** \file
 * What a device allows of a kernel launch. Drivers refuse a launch beyond it with a bare error code, or end the program
 * (PoCL, over local memory): it is checked before.
 */
#pragma once

#include <cstdint>

namespace kiln::runtime {

struct LaunchLimits {
    int64_t threads;      ///< in a block
    int64_t block[3];     ///< threads along each axis
    int64_t grid[3];      ///< blocks along each axis
    int64_t shared_bytes; ///< of a block, without the opt-in that Halide's loops do not make
    char device[128];     ///< its name
};

} // namespace kiln::runtime
