/** \file
 * The schedule for when nobody wrote one.
 */
#pragma once

#include "dsl/schedule/PipelineInfo.h"
#include "dsl/schedule/Schedule.h"
#include "dsl/target/Target.h"

namespace kiln {

/// A plain schedule that is right for any pipeline and any sizes on `target`, as ordinary schedule text (its `source`).
/// Funcs that their only reader reads once, element by element, are inlined; all others are computed at root. CPU:
/// innermost dimension vectorized, outermost parallel, updates with their pure loops so. GPUs: blocks of 256 threads
/// over one or two dimensions; a stage without pure loops runs in one thread.
Schedule default_schedule(const PipelineInfo &pipeline, const Target &target);

} // namespace kiln
