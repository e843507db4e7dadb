/** \file
 * What changed between two schedules, in meaning.
 */
#pragma once

#include "dsl/schedule/Knobs.h"
#include "dsl/schedule/Schedule.h"

namespace kiln {

/// The differences of `a` and `b`, one a line, `- ` and `+ ` before what only the first and only the second has, grouped
/// by stage. Shorthands, macros, layout, comments, the order of statements on different stages and the split of a chain
/// into statements do not count. Statements are compared with the knobs at the given (or first) values; where those
/// agree, also with each knob at some of its other values. "" where both mean the same.
std::string schedule_diff(const Schedule &a, const Schedule &b, const KnobValues &a_values = {},
                          const KnobValues &b_values = {});

} // namespace kiln
