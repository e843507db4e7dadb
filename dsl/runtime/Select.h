/** \file
 * Which variant of a kernel runs a call: the first in the library's order whose processor is there, whose backend
 * is where the data are, and whose conditions on shapes and addresses hold.
 */
#pragma once

#include "Frame.h"

namespace kiln::runtime {

/// `buffers` null: any shape (for prepare), though a kind of device counts. Reports to `frame` and returns null where none fits. `reason` says why
/// earlier variants were passed over.
const kiln_entry_variant *select_variant(Frame &frame, const kiln_entry_library &library,
                                         halide_buffer_t *const *buffers, Text &reason);

} // namespace kiln::runtime
