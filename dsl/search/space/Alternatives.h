/** \file
 * Forms of one algorithm that a schedule chooses: a knob that bears the name of one of the generator's parameters is that
 * parameter's value (how long the blocks of a blocked algorithm are), where the problem leaves it open.
 */
#pragma once

#include "dsl/schedule/Knobs.h"
#include "dsl/search/space/Problem.h"

namespace kiln::search {

/// Whether the problem's generator has a parameter of that name.
bool is_parameter(const Problem &problem, const std::string &name);

/// The problem with the parameters that the schedule's knobs, at `values` or their first ones, choose; `problem` itself where
/// they choose none. It lives as long as `problem`. Throws Error as problem_of.
const Problem &problem_of_schedule(const Problem &problem, const Schedule &schedule,
                                   const KnobValues &values = {});

/// The problem with the first of all its alternatives.
const Problem &first_alternative(const Problem &problem);

} // namespace kiln::search
