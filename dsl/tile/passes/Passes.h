/** \file
 * The passes from what `build` makes to what `emit` prints, in order. Each is a file; the runner (Runner.h) names,
 * times, verifies and dumps them.
 */
#pragma once

#include "dsl/target/Device.h"
#include "dsl/tile/ir/Ir.h"

#include <functional>
#include <string>
#include <vector>

namespace kiln::tile {

void hoist_invariant(Kernel &k); ///< out of loops: what does not change in them
void fuse_loops(Kernel &k);      ///< loops over the same range become one
void fold_starts(Kernel &k);     ///< Σ + rest becomes a product started at rest
void clean_up(Kernel &k);        ///< copies of tiles, equal copies of views, what nobody reads
void guard_edges(
    Kernel
        &k); ///< masks what lies past a ragged edge, where the reduction that reads it needs more than zeros
void lift_bits(Kernel &k);       ///< tests and masks of bits become comparisons and selects
void drop_limits(Kernel &k);     ///< limits of reductions where what lies past them adds nothing anyway
void fold_conditions(Kernel &k); ///< conditions of carried updates become part of a mask
void split_reduce(Kernel &k);    ///< deals a loop that sums to several blocks; the last adds up their parts
void rewrite_running(Kernel &k); ///< e^y · Σ e^x becomes Σ e^(x + y), for what is carried and rescaled
void scale_exp2(Kernel &k);      ///< exp becomes exp2, constants folded into what it is taken of
void hoist_slices(Kernel &k);    ///< what depends on the rows alone is computed once a row
void block_ranges(Kernel &k);    ///< leaves out blocks that are masked; no test in those that are not
void lag_maximum(Kernel &k);     ///< lets a running maximum stay behind, where the schedule says so
void defer_lanes(Kernel &k);     ///< carried sums meet over threads after the loop
void plan_cluster(Kernel &k);    ///< where a cluster's blocks lie; refuses copies that they cannot share
void spread_cluster(Kernel &k);  ///< parts of one tile for the blocks of a cluster
void plan_layouts(Kernel &k);    ///< a layout for every tile, and which tiles share registers
void plan_shared(Kernel &k, const DeviceLimits &limits); ///< rings, staging buffers, offsets
void inject_pipeline(Kernel &k); ///< waits, releases and groups of products; producer and consumer roles
void lower_stores(Kernel &k);    ///< stores into staging, fences, barriers and TMA stores

// ---- facts that several passes share

/// How blocks of a cluster share what they read the same (`multicast`): each loads one of `parts` parts into all of
/// `blocks`. One part: they do not. Exprs over `cluster.rank`.
struct SharedCopy {
    int parts = 1;
    Expr part, blocks;
};
SharedCopy shared_copy(const Kernel &k, const Copy &c);
/// Bits of the blocks whose slots of the ring are filled together with this one's; undefined: none but this one's.
Expr readers_of(const Kernel &k, const std::string &ring);
/// How many bits `blocks` has in the block of that number; 0 where that is no constant.
int count_readers(const Expr &blocks, int rank);

/// Whether a store goes through shared memory and TMA; otherwise straight from registers.
bool staged(const Kernel &k, const Store &store);
/// The box of such a store: 64 rows of one slab.
SharedLayout staging_box(const Kernel &k, const Store &store);

struct Pass {
    std::string name;
    std::function<void(Kernel &, const DeviceLimits &)> run;
};

/// All passes between `build` and `emit`, in order; a name may come twice.
const std::vector<Pass> &passes();

} // namespace kiln::tile
