/** \file
 * Whole plans: each Func decided after its readers, by a policy that is fixed (for seeds) or drawn (for random plans).
 */
#pragma once

#include "dsl/search/space/Candidate.h"
#include "dsl/search/space/Context.h"

namespace kiln::search {

struct Policy {
    std::string name;
    double inline_cost = 0;         ///< Funcs of at most so many operations are inlined; read once: always
    int fuse_level = Task;          ///< where other Funcs go inside their reader
    double fuse = 1;                ///< share of the Funcs that are fused rather than computed at root
    int64_t width = 0, height = 32; ///< of a task's tile along the two innermost dimensions; 0: whole
    int64_t inner_height = 0;       ///< of the Outer level's tile; 0: whole
    int64_t block_vectors = 2, block_rows = 6; ///< register tile of a product
    int64_t panel = 64;                        ///< columns of a product's task
    int64_t panel_rows = 0;                    ///< rows of it; 0: all
    int reduce_split = 0;
    int reduce_unroll = 1;
    bool pack = true;       ///< copies of what a product reads along its vectors
    int unroll_vectors = 1; ///< of pure stages
    bool slide = false;     ///< stored at the task, computed row by row
};

/// The policies that seeds come from, the more promising first.
std::vector<Policy> seed_policies(const PlanContext &context);
Policy random_policy(const PlanContext &context, Rng &rng);

/// Decisions that the policy leaves open are drawn from `rng`; null: the first choice each time.
Plan make_plan(const PlanContext &context, const Policy &policy, Rng *rng);

} // namespace kiln::search
