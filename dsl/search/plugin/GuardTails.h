/** \file
 * A schedule that was found at its estimates, made right for every size.
 */
#pragma once

#include "dsl/schedule/PipelineInfo.h"
#include "dsl/schedule/Schedule.h"

namespace kiln::search {

/// Splits of outputs, and of Funcs that read an input themselves or through what is inlined into them, get GuardWithIf in
/// place of another tail: a call may have fewer elements than a tile, and then ShiftInwards and RoundUp reach outside of
/// the caller's buffers. Kiln's own builds keep such tails and check sizes first (BuildTrial.h, variants_of); a plain
/// Halide build has one schedule for all calls. `canonical` is canonical, and stays so.
Schedule guard_tails(Schedule canonical, const PipelineInfo &info);

} // namespace kiln::search
