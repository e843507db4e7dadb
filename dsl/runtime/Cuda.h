/** \file
 * CUDA for Halide's runtime and ours: the caller's context and stream, the primary context by default, memory from
 * the stream-ordered pool or the caller's allocator. The driver is opened at run time.
 */
#pragma once

#include "Frame.h"
#include "Launch.h"

namespace kiln::runtime {

/// Whether this machine can run the variant under this call; else `why`.
bool cuda_fits(const kiln_call *call, const kiln_entry_variant &variant, Text &why);

/// Appends what was found: the driver's version, the device's name and capability. Nothing where there is no driver.
void describe_cuda(const kiln_call *call, Text &text);

/// What the device of `call` allows; false where it cannot be asked.
bool cuda_limits(const kiln_call *call, LaunchLimits &limits);

} // namespace kiln::runtime
