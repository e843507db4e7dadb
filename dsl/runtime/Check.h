/** \file
 * The contract of a call, checked before anything runs: each breach names the argument, the value and the need.
 */
#pragma once

#include "Frame.h"

namespace kiln::runtime {

/// Rank, type, extents, strides, memory, alignment and flags of one buffer, before any copy of it is made.
/// `shape_only`: it needs no memory. Reports to `frame` and returns its status.
int check_buffer(Frame &frame, const kiln_entry_argument &argument, const halide_buffer_t *buffer,
                 bool shape_only = false);

/// No output may share memory with another argument. `buffers` has null for scalars.
int check_overlap(Frame &frame, const kiln_entry_library &library, halide_buffer_t *const *buffers);

/// Elements of a buffer, or -1 where they exceed 2^63 - 1.
int64_t element_count(const halide_buffer_t &buffer);

/// True where two boxes of elements share a byte. Exact for every layout that people use; layouts so irregular
/// that the search would not end soon count as sharing.
bool boxes_overlap(const halide_buffer_t &a, uint64_t address_a, const halide_buffer_t &b,
                   uint64_t address_b);
bool overlaps_itself(const halide_buffer_t &buffer);

} // namespace kiln::runtime
