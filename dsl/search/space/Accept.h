/** \file
 * The gate of the space: nothing passes but what the checker finds legal for all sizes and the device can hold.
 */
#pragma once

#include "dsl/schedule/CheckSchedule.h"
#include "dsl/schedule/Knobs.h"
#include "dsl/search/space/Problem.h"

#include <map>

namespace kiln::search {

/// "" for a schedule that may be tried; else the reason, the same words for all schedules with that fault: the code and
/// the message without its names. Neither lowers nor compiles.
std::string reject_reason(const Problem &problem, const Schedule &schedule, const KnobValues &knobs = {});

/// "" where the device can hold what a legal schedule asks for; else the limit it breaks. `sized` is its loop nest at the
/// problem's sizes.
std::string over_device_limits(const Problem &problem, const LoopNest &sized);

} // namespace kiln::search
