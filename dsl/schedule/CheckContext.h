/** \file
 * What the checker's parts share. Each part is one function over the context: it reads the nest and reports faults.
 */
#pragma once

#include "dsl/schedule/CheckSchedule.h"

#include <map>

namespace kiln {

struct CheckContext {
    CheckContext(const Schedule &schedule, const PipelineInfo &pipeline, const Target &target,
                 const DeviceLimits &limits, const std::set<std::string> &damaged)
        : schedule(schedule), pipeline(pipeline), target(target), limits(limits), damaged(damaged) {}

    const Schedule &schedule;
    const PipelineInfo &pipeline;
    const Target &target;
    const DeviceLimits &limits;
    const std::set<std::string> &damaged;
    LoopNest nest;
    std::vector<Diagnostic> diagnostics;

    /// A directive of the schedule that is looked at again when all loops are known.
    struct Later {
        const DirectiveCall *call;
        std::string func;
        int update;
        std::vector<std::string> conditions;
    };
    std::vector<Later> prefetches, compute_withs;
    /// The first directive of a Func other than compute_inline, for faults about all of them.
    std::map<std::string, const DirectiveCall *> first_call;

    /// The new diagnostic, to add notes and helps to; valid until the next one.
    Diagnostic &report(std::string code, std::string message, Span span, std::string label = "");
    Diagnostic &warn(std::string code, std::string message, Span span, std::string label = "");

    /// The loops around a use of a Func, outermost first.
    using Chain = std::vector<LoopNest::Enclosing>;
    /// Around all uses of `func`, also those through inlined Funcs. A use without any loop is an empty chain.
    const std::vector<Chain> &uses_of(const std::string &func);
    /// The loops around the place where `f` is computed, for each such place: none for root, several where a Func
    /// without a place has several readers.
    std::vector<Chain> places_of(const FuncNest &f);
    /// Places where `func` may be computed, as `compute_at(y, m)`, innermost last; always ends the list that a
    /// help shows.
    std::vector<std::string> legal_places(const std::string &func);

private:
    std::map<std::string, std::vector<Chain>> uses;
    std::set<std::string> in_progress;
};

/// `line 9`; "the algorithm" for no line.
std::string where(Span span);
/// `a`, `b` and `c`
std::string names_text(const std::vector<std::string> &names, const char *none = "none");
/// Whether the Func has no loops of its own: pure, and computed where it is used.
bool is_folded_in(const FuncNest &f);

/// Runs the statements in order: names, loops, splits, tails (K01xx, K02xx), and fills `nest`.
void build_nest(CheckContext &context);
/// Finds the stages that levels mean and checks compute, store and hoist places (K03xx).
void check_placement(CheckContext &context);
/// Folds, bounds, prefetch, async, ring buffers, compute_with (K03xx).
void check_storage(CheckContext &context);
/// Extents that must be constants, lanes, blends, unrolling, races (K02xx).
void check_loop_kinds(CheckContext &context);
/// Blocks, threads, shared memory, what a target has not (K04xx).
void check_gpu(CheckContext &context);
/// Tile kernels: where their directives stand, instructions' shapes, registers, shared memory (K1170 to K1179).
void check_tile(CheckContext &context);

} // namespace kiln
