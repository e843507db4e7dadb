/** \file
 * Which specialization of a stage a call of given sizes takes.
 */
#pragma once

#include "dsl/schedule/LoopNest.h"
#include "dsl/search/space/Problem.h"

namespace kiln::search {

/// The first specialization whose conditions hold at the problem's sizes (dense strides), else the stage itself.
const StageNest *stage_in_effect(const Problem &problem, const StageNest &stage);

} // namespace kiln::search
