/** \file
 * The loops of one stage of a plan.
 */
#pragma once

#include "dsl/search/space/Context.h"

namespace kiln::search {

/// What a stage's loops are called, for what is computed inside.
struct StageLoops {
    std::vector<std::string>
        levels;               ///< the innermost loop of each level (Task … Reduce), "" where it has none
    std::vector<int> nesting; ///< the levels, outermost first
    /// The innermost loop at or outside of a level.
    std::string innermost_at(int level) const;
};

/// Splits, order and kinds of stage `s` as a chain of directives; `loops` says what they are called.
std::string render_stage(const PlanContext &context, const std::string &func, const FuncPlan &plan, int stage,
                         const PlanContext::Sizes &sizes, StageLoops &loops);

/// A reduction over contiguous elements by partial results: whole statements. `place` is where the Func is computed.
std::string render_rfactor(const PlanContext &context, const std::string &func, const FuncPlan &plan,
                           int stage, const std::string &place, const PlanContext::Sizes &sizes);

} // namespace kiln::search
