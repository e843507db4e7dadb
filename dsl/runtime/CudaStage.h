/** \file
 * Arguments in CUDA memory that begins where a kernel's wide accesses may not: the kernel gets a copy in memory of its
 * own.
 */
#pragma once

#include "Frame.h"

namespace kiln::runtime {

/// Whether argument i of the variant asks for more than the address of `buffer` gives.
bool cuda_needs_stage(const kiln_entry_variant &variant, int i, const halide_buffer_t *buffer);

/// Gives `copy`, which describes `given`, memory of its own, for an input with the elements of `given` in it. Work is
/// queued on the call's stream. Reports to `frame` and returns its status.
int cuda_stage(Frame &frame, halide_buffer_t *given, halide_buffer_t *copy, bool is_input);

/// Queues the copy of all elements back into `given` if `is_written`, and frees the memory of `copy`.
int cuda_unstage(Frame &frame, halide_buffer_t *given, halide_buffer_t *copy, bool is_written);

} // namespace kiln::runtime
