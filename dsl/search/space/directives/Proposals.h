/** \file
 * The families of directive steps, one a file.
 */
#pragma once

#include "dsl/schedule/LoopNest.h"
#include "dsl/search/space/directives/DirectiveMoves.h"

namespace kiln::search {

struct Proposals {
    const Problem &problem;
    const Schedule &schedule; ///< canonical
    const LoopNest &nest;
    std::string only; ///< the Func (of a wrapper: what it wraps) that is looked at; "": all
    std::vector<DirectiveStep> steps;

    bool wants(const FuncNest &func) const;

    /// A stage with loops, and the specialization of it that is meant ("" for the stage itself).
    struct At {
        StageRef stage;
        std::string condition;
        const FuncNest *func;
        const StageNest *loops;
    };
    /// All stages that can be scheduled, with their specializations.
    std::vector<At> stages() const;
    /// A Func or wrapper as the start of a chain.
    static StageRef ref_of(const FuncNest &func, int update = -1);

    void add(const char *move, const At &at, std::string name, std::vector<Node> args);
    void add(const char *move, const FuncNest &func, std::string name, std::vector<Node> args);
};

/// Sizes that splits and tiles are tried with.
const std::vector<int64_t> &step_sizes();
std::optional<Node> parse_condition(const std::string &text);

void propose_loops(Proposals &);           ///< split, fuse, reorder
void propose_kinds(Proposals &);           ///< vectorize, unroll, parallel, gpu_blocks, gpu_threads, …
void propose_places(Proposals &);          ///< compute_root, compute_at, store_at, wrappers
void propose_storage(Proposals &);         ///< store_in, reorder_storage, bounds of storage
void propose_reductions(Proposals &);      ///< rfactor, atomic
void propose_ahead(Proposals &);           ///< prefetch, async
void propose_specializations(Proposals &); ///< specialize
void propose_tile_kernels(Proposals &);    ///< directives of tile kernels
void propose_removals(Proposals &);        ///< one directive fewer

} // namespace kiln::search
