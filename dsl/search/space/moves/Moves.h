/** \file
 * Single changes of a plan. Each move is a file; it lists what it could do to a plan, and the checker says what of that is
 * legal.
 */
#pragma once

#include "dsl/search/space/Context.h"

#include <functional>

namespace kiln::search {

struct Step {
    std::string what; ///< `blur_x at output.outer`
    std::function<void(Plan &)> apply;
};

struct Move {
    const char *name;
    double weight; ///< how often random changes take it
    std::vector<Step> (*steps)(const PlanContext &, const Plan &);
};

std::vector<Step> place_steps(const PlanContext &, const Plan &);  ///< inline, root, at a loop of a reader
std::vector<Step> tile_steps(const PlanContext &, const Plan &);   ///< sizes of the tiles, level by level
std::vector<Step> vector_steps(const PlanContext &, const Plan &); ///< which dimension, how many lanes
std::vector<Step> order_steps(const PlanContext &, const Plan &);  ///< which dimension's loops are inside
std::vector<Step> reduce_steps(const PlanContext &,
                               const Plan &); ///< splits and place of a reduction's loops
std::vector<Step> rfactor_steps(const PlanContext &, const Plan &); ///< partial results of a reduction
std::vector<Step> wrap_steps(const PlanContext &, const Plan &);    ///< copies of what is read
std::vector<Step> storage_steps(const PlanContext &,
                                const Plan &); ///< where and in which order values are kept
std::vector<Step> parallel_steps(const PlanContext &, const Plan &); ///< which loops are tasks
std::vector<Step> tail_steps(const PlanContext &, const Plan &);     ///< what happens past the end of a split

const std::vector<Move> &all_moves();

} // namespace kiln::search
