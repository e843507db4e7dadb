/** \file
 * The child's work: from a generator and a schedule to an object file. One call a process, since Halide numbers
 * names per process.
 */
#pragma once

#include "dsl/lower/BuildProtocol.h"

namespace kiln {

/// Writes job.object. All faults of the user's come back as diagnostics; an internal fault of Halide's as K0710.
CompileReply compile_variant(const CompileJob &job);

} // namespace kiln
