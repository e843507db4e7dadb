/** \file
 * Tile IR: typed tiles with named axes and few operations. A kernel is a body of statements in SSA form; loops carry
 * tiles explicitly (`for ko in 0 .. n carry acc = 0 then acc_next`). The passes (passes/Passes.h) take it from what the
 * definitions say to what the hardware does; every state prints and parses back (ir/Text.h).
 *
 * Exprs are Halide's. Their Variables are: `%k` the coordinate of axis k inside its tile, a tile's name its element at
 * the same coordinates, a loop's name, `wg` the warpgroup within its role, `turn` how many block tiles this block
 * had before this one, `cluster.rank` the number of this block in its cluster, and `x.extent.0`, `x.stride.1`,
 * `x.min.0` of a view. A view is read inside an
 * Expr by the pure call `view:x` with one index a dimension, innermost first. Indices of views, in such calls and in
 * Regions, count from the view's minimum; what lies outside reads as 0. Dimension 0 has stride 1.
 */
#pragma once

#include "dsl/tile/ir/Layout.h"
#include "dsl/tile/ir/Plan.h"

#include <Halide.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <variant>
#include <vector>

namespace kiln::tile {

using Halide::Expr;

/// A fault of the user's program or schedule: thrown as kiln::Error with a K11xx code.
[[noreturn]] void refuse(const char *code, std::string message, Span span = {},
                         std::vector<std::string> helps = {});

/// "bf16", "f16", "f32", "i8", "u32", "bool".
std::string type_name(Halide::Type type);

/// A buffer as the kernel sees it: an input, an output, or a Func computed elsewhere. Or memory of the launch's own.
struct View {
    enum class Memory {
        Buffer,    ///< of the call
        Workspace, ///< between blocks of one launch; nothing is in it at first
        Counters   ///< int32 zeros, which the kernel leaves zero
    };
    std::string name;
    Halide::Type type;
    int rank = 0;
    bool is_output = false;
    Memory memory = Memory::Buffer;
    std::vector<Expr> extents =
        {}; ///< of what is no buffer, which is dense; innermost first, over extents of buffers
    bool is_buffer() const { return memory == Memory::Buffer; }
};

/// One dimension of a region of a view: a base that is the same for the whole block, plus an axis; or a point.
struct ViewDim {
    Expr base;
    std::string axis; ///< "" for a point
};
struct Region {
    std::string view;
    std::vector<ViewDim> dims; ///< dimension 0 is the innermost
};

enum class Space { Register, Shared };

struct Tile {
    std::string name;
    Halide::Type type;
    std::vector<std::string> axes; ///< none: one value for the whole block
    std::string func;              ///< the Func or view it comes from
    // Decided by plan_layouts and plan_shared:
    Space space = Space::Register;
    RegisterLayout registers;
    SharedLayout shared;
    std::string ring;  ///< of a tile that a ring holds
    int offset = 0;    ///< bytes in shared memory, of slot 0
    std::string alias; ///< the tile whose registers it shares
    bool partial =
        false; ///< each thread's share of a sum is not yet added up over the threads that hold copies
};

enum class ReduceOp { Sum, Product, Max, Min };
const char *reduce_name(ReduceOp op); ///< "sum"
Expr reduce_identity(ReduceOp op, Halide::Type type);
Expr reduce_combine(ReduceOp op, const Expr &a, const Expr &b);

struct Stmt;
using Body = std::vector<Stmt>;

// ---- what `build` makes

/// dst = the region; elements outside the view are 0.
struct Copy {
    std::string dst;
    Region from;
};
/// The region = src; elements outside the view are left out.
struct Store {
    Region to;
    std::string src;
};
/// dst = start + Σ_axis a·b. `start` is a tile, or "" for zero. Where `zero_when` is defined and true, start counts as zero.
struct Mma {
    std::string dst, start, a, b, axis;
    Expr zero_when;
    Expr limit; ///< until guard_edges: only coordinates of the axis below it count; undefined: all
};
/// dst = value at every coordinate. Where `unless` (the same for the whole block) holds it is known to be the identity.
struct Map {
    std::string dst;
    Expr value;
    Expr unless;
    bool seldom = false; ///< the factors by which it scales a tile are mostly 1: worth asking first
};
/// dst = reduction of `value` over `axis`.
struct Reduce {
    std::string dst;
    ReduceOp op = ReduceOp::Sum;
    std::string axis;
    Expr value;
    Expr limit;          ///< as for Mma
    RegisterLayout over; ///< of the values before they are reduced; by plan_layouts
    int blocks = 1; ///< of the cluster, whose parts of the axis are reduced together: each gets the whole
};
struct Carry {
    std::string name;
    Expr init;
    std::string next;
};
struct For {
    std::string var;
    Expr lo, hi;
    std::vector<Carry> carry;
    Body body;
    /// Where from <= var < to, every map with an `unless` is the identity. May use `wg`. Undefined: nowhere.
    Expr untested_from = {}, untested_to = {};
};
struct If {
    Expr condition;
    Body body, otherwise;
};

/// This block is one of `parts` that work on the counter at `at`, a region without axes. Where the others have come here
/// before it, it runs the body: what they stored in workspaces is seen there.
struct Last {
    Region at;
    Expr parts;
    Body body;
};

// ---- what the passes lower to

/// Statements that only some warpgroups run. `threads` of each warpgroup's 128 run the body: 1 for a producer that issues TMA.
struct Role {
    std::string name;
    int first_warpgroup = 0, warpgroups = 1, threads = 128, registers = 0;
    Body body;
};
/// For every block tile that is this block's: the variables of Kernel::grid are set.
struct TileLoop {
    Body body;
};
/// Barriers of a ring. full: the slot's data arrived. empty: all readers are done with the slot.
struct Wait {
    enum class What { Full, Empty } what = What::Full;
    std::string ring;
};
struct Expect {
    std::string ring;
    Expr bytes;
}; ///< arrive on full, and that many bytes will come
struct Release {
    std::string ring;
    bool sync = false;
    Expr blocks = {}; ///< bits of the blocks of the cluster that are told; undefined: this one
}; ///< arrive on empty of the oldest slot still held; sync: after a barrier of the warpgroup
struct Advance {
    std::string ring;
}; ///< the next slot
/// As `count` advances: slots that another warpgroup takes.
struct Skip {
    std::string ring;
    Expr count;
};
/// Waits until all slots of the ring were given back: then no block of the cluster will write or signal this one's.
struct Drain {
    std::string ring;
};
/// Asynchronous copy into the ring's current slot that completes on its full barrier.
struct Load {
    std::string dst;
    Region from;
    CopyKind kind = CopyKind::Tma;
    /// Rows along the layout's outer axis that are copied; those above are left as they are. Undefined: all.
    Expr rows = {};
    /// Multicast: the rows are cut in so many parts; this block loads part number `part` into the same slot of every block
    /// of the cluster whose bit is set in `blocks`, and completes on the barrier of each.
    int parts = 1;
    Expr part = {}, blocks = {};
};
struct MmaFence {};  ///< registers written so far are seen by the products that follow
struct MmaCommit {}; ///< the products since the last commit become one group
struct MmaWait {
    int pending = 0;
}; ///< until at most so many groups are in flight
struct Fill {
    std::string dst;
    Expr value;
}; ///< start of a carried tile
struct Move {
    std::string dst, src;
}; ///< the next value of a carried tile, where it lies elsewhere
struct LaneReduce {
    std::string dst, src;
    ReduceOp op = ReduceOp::Sum;
}; ///< adds up what `partial` left
/// Barrier among `threads` threads (whole warpgroups); id 0 is the block's.
struct Barrier {
    Expr id;
    int threads = 0;
    bool arrive_only = false;
};
/// All threads of all blocks of the cluster meet; what they wrote to shared memory is seen by all of them.
struct ClusterBarrier {};
/// Ordinary writes to shared memory become visible to the asynchronous copies.
struct ProxyFence {};
/// The warpgroup's rows 64·row_block … + 63 of src, columns `column` … + layout.inner_extent - 1, go to the staging
/// buffer that starts at byte `buffer` of shared memory. 64 rows are what one warpgroup's instruction holds.
struct StageStore {
    std::string src;
    Expr buffer;
    int row_block = 0, column = 0;
    SharedLayout layout;
    Expr value = {}; ///< where defined, src is in no registers: its elements are computed for this box
};
/// The staged box goes to the region by TMA, issued by one thread of the warpgroup; clipped to the view. An axis in
/// the region stands for the extent that `layout` gives it.
struct TmaStore {
    Region to;
    Expr buffer;
    SharedLayout layout;
};
/// What the thread stored in workspaces is seen by all blocks.
struct Publish {};
struct StoreCommit {};
struct StoreWait {
    int pending = 0;
}; ///< until at most so many committed stores still read their buffers
/// Direct, clipped stores from registers; `vector` neighbours in one access where alignment is known.
struct GlobalStore {
    Region to;
    std::string src;
    int vector = 1;
};

struct Stmt {
    std::variant<Copy, Store, Mma, Map, Reduce, For, If, Last, Publish, Role, TileLoop, Wait, Expect, Release,
                 Advance, Skip, Drain, Load, MmaFence, MmaCommit, MmaWait, Fill, Move, LaneReduce, Barrier,
                 ClusterBarrier, ProxyFence, StageStore, TmaStore, StoreCommit, StoreWait, GlobalStore>
        op;
    std::string func; ///< the Func that asked for it, for comments and messages
    template<typename T>
    T *as() {
        return std::get_if<T>(&op);
    }
    template<typename T>
    const T *as() const {
        return std::get_if<T>(&op);
    }
};

/// Slots in shared memory that are filled and emptied in turn; one pair of barriers a slot for all its tiles.
struct Ring {
    std::string name;
    std::vector<std::string> tiles;
    int depth = 1;
    int bytes = 0;     ///< that arrive in a slot
    int consumers = 1; ///< arrivals of each block that empty a slot
    int blocks = 1;    ///< of the cluster, this one among them, whose arrivals empty a slot
    int barriers = 0;  ///< byte of the first barrier in shared memory: depth full ones, then depth empty ones
};

struct GridLoop {
    std::string name;
    Expr extent;
    int cluster =
        1; ///< neighbours along the loop that are of one cluster; those past the extent find nothing to do
};

/// A kernel at any stage of its making.
struct Kernel {
    std::string name;
    TilePlan plan;
    std::map<std::string, int> axes; ///< extent of each axis
    std::map<std::string, Tile> tiles;
    std::vector<View> views;    ///< in the order that the call passes them: inputs, then outputs
    std::vector<GridLoop> grid; ///< the fastest first
    std::vector<Ring> rings;
    Body body;
    std::string row_axis; ///< dealt to the warpgroups
    int threads = 0, shared_bytes = 0;
    int staging = 0; ///< byte of the staging buffers for stores: `staging_bytes` for each computing warpgroup
    int staging_bytes = 0;
    int scratch = 0; ///< byte where reductions over warps meet: 4 bytes a row and warp
    int scratch_bytes = 0;
    /// What a call must satisfy (over `x.extent.0`): a tile spans a whole dimension of at most its size.
    std::vector<Expr> conditions;
    std::vector<std::string> remarks; ///< what an optional rewrite did, or why it did not: shown by `explain`

    const View *view(const std::string &name) const;
    const Tile &tile(const std::string &name) const;
    Ring *ring(const std::string &name);
    const Ring *ring(const std::string &name) const;
    /// A name that neither tile, axis, loop nor view has: `base`, `base1`, ….
    std::string fresh(const std::string &base);
    /// A new tile of a fresh name.
    Tile &add_tile(const std::string &base, Halide::Type type, std::vector<std::string> axes,
                   const std::string &func);
    Expr ref(const std::string &tile) const;
    Expr axis_var(const std::string &axis) const;
    /// The axes that the value depends on, through the tiles it reads.
    std::set<std::string> axes_of(const Expr &e) const;
    std::set<std::string> tiles_of(const Expr &e) const;
    /// The tile whose registers `tile` lives in, through all aliases.
    const std::string &root(const std::string &tile) const;
    /// Warpgroups that a register tile is dealt to: the consumers, or one where each takes whole tiles (ping-pong).
    /// Thread t of the consumers has index t modulo the layout's threads.
    int warpgroups() const { return plan.ping_pong ? 1 : plan.consumers; }
    /// Blocks of a cluster. Block number r of it is at r % x along the first grid loop and r / x along the second.
    int cluster_blocks() const;
    /// How the products of that Func are multiplied.
    MmaKind product_kind(const std::string &func) const;
    /// Whether the statement is a product that runs on beside its threads (wgmma) until a wait.
    bool is_asynchronous(const Stmt &product) const;
    /// Whether the Expr depends on a grid loop along which blocks may lie past the end.
    bool may_exceed_grid(const Expr &e) const;

private:
    std::set<std::string> names_;
};

/// Calls `f` for every statement, outer ones first.
void walk(Body &body, const std::function<void(Stmt &)> &f);
void walk(const Body &body, const std::function<void(const Stmt &)> &f);
/// Every Expr of the statement itself, not of the statements inside.
void each_expr(Stmt &s, const std::function<void(Expr &)> &f);
void each_expr(const Stmt &s, const std::function<void(const Expr &)> &f);
/// The tile that the statement defines, or "".
std::string defines(const Stmt &s);
/// Tiles that the statement reads; with those of the statements inside.
std::set<std::string> reads(const Kernel &k, const Stmt &s);
/// Whether the IR still says what and not how: only statements that `build` makes.
bool is_early(const Kernel &k);
bool is_axis_var(const std::string &variable);
Expr replace_variable(const Expr &e, const std::string &name, const Expr &by);

} // namespace kiln::tile
