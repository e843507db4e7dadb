/** \file
 * The schedule that a plan means.
 */
#pragma once

#include "dsl/search/space/Context.h"

namespace kiln::search {

/// As text in the schedule language, with the plan itself in a comment, so that a stored schedule can be changed as a plan
/// again. Whether it is legal is for the checker. Throws std::invalid_argument with a reason in a few words where the plan
/// asks for a loop that there is not.
std::string render_plan(const PlanContext &context, const Plan &plan, const std::string &name);

/// The plan that a schedule carries, where it still means that schedule.
std::optional<Plan> plan_of(const PlanContext &context, const Schedule &schedule);

} // namespace kiln::search
