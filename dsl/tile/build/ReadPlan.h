/** \file
 * From a checked schedule to the plan of one of its tile kernels.
 */
#pragma once

#include "dsl/schedule/TileGroup.h"
#include "dsl/target/Target.h"
#include "dsl/tile/ir/Plan.h"

namespace kiln::tile {

/// What the schedule says about the kernel that computes `group`, with the documented defaults for what it leaves out.
/// `group` is of tile_groups over the nest of analyse_schedule, which has found no fault in it.
/// Throws Error: K1101 an output's Var without a block, K1130 a sum that is split twice, K1131 two names for one staged
/// buffer.
TilePlan read_plan(const TileGroup &group);

/// Defaults that follow from the target: copies by the TMA where it has one, else by cp.async or by the threads that
/// compute; in OpenCL no warpgroup that only copies.
void fit_target(TilePlan &plan, const Target &target);

} // namespace kiln::tile
