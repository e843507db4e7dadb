/** \file
 * OpenCL for Halide's runtime: the caller's context and queue, or one context that the runtime makes and keeps. The
 * loader is opened at run time.
 */
#pragma once

#include "Frame.h"

namespace kiln::runtime {

/// Whether a context and queue can be had under this call; else `why`.
bool opencl_fits(const kiln_call *call, Text &why);

/// Finishes and drops every context that the runtime made, on every device.
void opencl_release_own();

} // namespace kiln::runtime
