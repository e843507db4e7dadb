/** \file
 * Schedules with tile kernels, from the form of the algorithm (KernelForm.h): a sum of products and what follows it become
 * one kernel, rows with their reductions another, a loop that carries a result over blocks a third.
 */
#pragma once

#include "dsl/search/space/Context.h"

namespace kiln::search {

/// The families that fit the pipeline, each with its knobs, the more promising first; none on targets without tile kernels.
/// A knob that bears the name of one of the generator's parameters chooses the algorithm too.
std::vector<Schedule> tile_families(const PlanContext &context);

} // namespace kiln::search
