// clang-format off
/** \file
 * Canonical form: knobs substituted and folded, macros and shorthands expanded, every argument present, typed and
 * in its fixed place. The checker, the applier and the searcher read only this form and need to know only the
 * primitives below. It is itself a Schedule: it prints, parses, and canonical(canonical(s)) == canonical(s).
 *
 * A canonical Schedule has no knobs, requires or macros. Its statements are those of the source, in order, without
 * empty ones (but `x.in(acc);` alone stays: it makes the wrapper); a statement's calls are primitives.
 *
 * Arguments, by the words of the table:
 *   loop, new, dim   Name ("xo", "k.x"; the loop `outermost` is Halide's Var::outermost()); new and dim without dots
 *   func             Name
 *   stage            what stage_of() turns into a StageRef: Name, `f.update(n)`, `f.in(…)`; update == -1 means
 *                    that no stage was named
 *   int              Int, in the range given (at most 2^31 - 1)
 *   bool             Name "true" or "false"
 *   tail             Name: Auto RoundUp GuardWithIf Predicate PredicateLoads PredicateStores ShiftInwards
 *                    ShiftInwardsAndBlend RoundUpAndBlend. Auto is left for the checker to resolve.
 *   text             String
 *
 * On a stage (the Func itself means its pure definition; also after `specialize`, then for that specialization):
 *   split(loop old, new outer, new inner, int factor >= 1, tail)      outer or inner may be `old` itself
 *   fuse(loop inner, loop outer, new fused)                           fused may be one of the two
 *   reorder(loop, loop, …)                                            two or more, innermost first, all different
 *   rename(loop old, new name)
 *   serial(loop)  parallel(loop)  vectorize(loop)  unroll(loop)
 *   gpu_blocks(loop)  gpu_threads(loop)  gpu_lanes(loop)              one loop a call
 *   gpu_single_thread()
 *   partition(loop, Name Auto|Never|Always)  never_partition_all()  always_partition_all()
 *   atomic(bool override_associativity_test)  allow_race_conditions()  unscheduled()
 *   prefetch(func, loop at, loop from, int offset >= 0, Name Clamp|GuardWithIf|NonFaulting)
 *   compute_with(stage, loop, List of List{loop, Name AlignStart|AlignEnd|NoAlign|Auto})
 *                                                                     never empty; one align alone is {{loop, it}}
 *   specialize(condition)   the calls after it in the chain schedule the specialization, not the stage; a second
 *                           `specialize` of an equal condition on the same stage means the same specialization.
 *                           condition: Int, Float, Name (a scalar input), Unary, Binary (+ - * / % comparisons
 *                           && ||), Call min, max, select, and the methods extent, min, stride: args[0] is the
 *                           Name of a buffer, args[1] a dimension as Name (its Var) or Int (its index)
 *   specialize_fail(text)   last in its chain
 *   rfactor(List of List{loop rvar, new var})   only on an update, last in its chain, and the statement has a
 *                           binding, the name of the new Func from then on
 * On a Func or wrapper only (stage.update == -1, not after `specialize`):
 *   compute_root()  compute_inline()  compute_at(stage, loop)
 *   store_root()  store_at(stage, loop)  hoist_storage_root()  hoist_storage(stage, loop)
 *   async()  ring_buffer(int extent >= 1)
 *   store_in(Name Auto|Heap|Stack|Register|GPUShared|AMXTile)
 *   fold_storage(dim, int extent >= 1, bool fold_forward)  align_storage(dim, int >= 1)  bound_storage(dim, int >= 1)
 *   reorder_storage(dim, dim, …)                                      two or more, innermost first, all different
 *   bound(dim, int min, int extent >= 1)  bound_extent(dim, int extent >= 1)
 *   align_bounds(dim, int modulus >= 1, int remainder in [0, modulus))  align_extent(dim, int modulus >= 1)
 * In a tile kernel, on a stage:
 *   mma(Name wgmma|mma_sync|fma, Name exact|tf32)  pipeline_stage(int in 0 … 1)  whole(loop, int size >= 1)
 *   split_reduce(int parts >= 2)  lag(int bits in 1 … 64)
 * On a Func only:
 *   tile_kernel()  tile_kernel(func)
 *   copy(Name tma|cp_async|plain)  swizzle(int 0|32|64|128)  stages(int >= 1)  multicast()
 *   cluster(int x, int y)  persistent(int group)  warpgroups(int consumers, int producers, dim rows or Name Auto)
 *   registers(int consumer, int producer)  ping_pong(Name tiles|products)  dynamic()  launch_ahead()
 *
 * Names made by expansion: vectorize(x, 8) is split(x, x, xv, 8, Auto).vectorize(xv); unroll gives xu, parallel xt
 * (x stays the outer, parallel loop). Dots become `_` (k.x gives k_xv). Where the stage introduces that name itself,
 * a number follows (xv1). A name that the algorithm already has is for the checker to report.
 *
 * Spans: every call carries the span of the source call that it came from, every argument that the user wrote its
 * own span, one that was made or left out that of the call; in a macro: that of the macro's call. expanded_from holds
 * the source call's text, for a note, where the primitive is not what the user wrote.
 */
// clang-format on
#pragma once

#include "dsl/schedule/Knobs.h"
#include "dsl/schedule/Schedule.h"

#include <set>

namespace kiln {

struct CanonicalResult {
    Schedule schedule;
    /// K0022–K0039 (macros, directives and their arguments) and K0605–K0610 (knobs and require), all of them.
    std::vector<Diagnostic> diagnostics;
    /// Funcs (by StageRef::func) that lost a faulty call: later faults about their loops may be only echoes.
    std::set<std::string> damaged;
};

/// Never throws. Faulty calls are left out of the result, so that checking can go on.
CanonicalResult canonicalize(const Schedule &schedule, const KnobValues &values = {});

/// The same for callers without a place for diagnostics: throws kiln::Error when there is an error.
Schedule canonical(const Schedule &schedule, const KnobValues &values = {});

/// A stage argument of a primitive (compute_at, compute_with, …) as a StageRef; nothing where it is no stage.
std::optional<StageRef> stage_of(const Node &node);

} // namespace kiln
