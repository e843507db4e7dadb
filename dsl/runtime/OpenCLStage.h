/** \file
 * Buffers of OpenCL that begin where the device cannot address: a kernel gets a copy of their elements in memory of
 * its own. Devices take sub-buffers only from multiples of CL_DEVICE_MEM_BASE_ADDR_ALIGN on (PoCL: 128 bytes), and none of
 * a cl_mem that is a sub-buffer itself. `name` is the argument's, for messages.
 */
#pragma once

#include "OpenCL.h"

namespace kiln::runtime {

struct OpenCLStage {
    ClHandle handle; ///< what the copy's `device` points to; mem is null where nothing is staged
};

/// Whether the device of `call` refuses an argument at the offset of `buffer`.
bool opencl_needs_stage(const kiln_call *call, const halide_buffer_t *buffer);

/// Gives `copy`, which describes `given`, memory of its own, for an input with the elements of `given` in it. Work is
/// queued, not awaited. Reports to `frame` and returns its status.
int opencl_stage(Frame &frame, const char *name, halide_buffer_t *given, halide_buffer_t *copy, bool is_input,
                 OpenCLStage &stage);

/// Queues the copy of all elements back into `given` if `is_written`, and drops the stage.
int opencl_unstage(Frame &frame, const char *name, const halide_buffer_t *given, bool is_written,
                   OpenCLStage &stage);

} // namespace kiln::runtime
