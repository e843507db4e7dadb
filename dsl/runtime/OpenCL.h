/** \file
 * OpenCL for Halide's runtime: the caller's context and queue, or one context that the runtime makes and keeps. The
 * loader is opened at run time.
 */
#pragma once

#include "Frame.h"
#include "Launch.h"

namespace kiln::runtime {

/// Whether a context and queue can be had under this call; else `why`.
bool opencl_fits(const kiln_call *call, Text &why);

/// Behind halide_buffer_t::device, as Halide 21's OpenCL runtime keeps it.
struct ClHandle {
    uint64_t offset; ///< bytes
    void *mem;       ///< cl_mem
};

/// A function of OpenCL's loader as it is; null where there is none. (Halide's halide_opencl_get_symbol hands out some of our
/// own in their place.)
void *opencl_symbol(const char *name);

/// The context and queue of `call`; reports where there are none.
int opencl_queue(const kiln_call *call, void **context, void **queue, Text &why);

/// What the device of `call` allows; false where it cannot be asked. Threads and blocks are left to the driver.
bool opencl_limits(const kiln_call *call, LaunchLimits &limits);

/// CL_DEVICE_TYPE and CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT of the device of the call's queue; 0 where it cannot be asked.
uint64_t opencl_device_kind(const kiln_call *call);
uint32_t opencl_device_vector(const kiln_call *call);

/// Finishes and drops every context that the runtime made, on every device.
void opencl_release_own();

} // namespace kiln::runtime
