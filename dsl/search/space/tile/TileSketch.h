/** \file
 * Schedules with tile kernels (targets with sm_90a), from the form of the algorithm: a sum of products and its readers
 * become one kernel, rows with their reductions another.
 */
#pragma once

#include "dsl/search/space/Context.h"

namespace kiln::search {

struct TileSketch {
    std::string name;
    Schedule schedule; ///< a family: knobs and what they require
};

/// The families that fit the pipeline, each with its knobs; none on other targets.
std::vector<TileSketch> tile_families(const PlanContext &context);

/// Members of them, a few each.
std::vector<TileSketch> tile_sketches(const PlanContext &context);

} // namespace kiln::search
