/** \file
 * Runs tile IR on the CPU. IR as `build` and the rewrites leave it runs block by block on dense tiles; IR with roles runs as
 * the device would: warpgroups that a seeded scheduler picks, rings with barriers, asynchronous copies and products that
 * complete early, late or at random, tiles in the registers of threads by their RegisterLayout and in the bytes of shared
 * memory by their SharedLayout. It is the gate of every pass: it computes the result, and names what a device would do
 * wrong or only sometimes.
 *
 * Found: deadlock, wrong phase, reading before arrival or after release, refilling before release, registers touched
 * while a product is in flight, missing fences of either kind, staging buffers overwritten while they are read, what is
 * in flight at the end, output elements written twice or never.
 */
#pragma once

#include "dsl/tile/ir/Ir.h"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace kiln::tile {

/// What a view is bound to. Element `index` lies at Σ index·stride elements.
struct Array {
    Halide::Type type;
    std::vector<int64_t> extents, strides; ///< elements; dimension 0 is the innermost
    std::vector<uint8_t> bytes;

    Array() = default;
    Array(Halide::Type type, std::vector<int64_t> extents); ///< dense, zero
    Array(Halide::Type type, std::vector<int64_t> extents, std::vector<int64_t> strides);

    int64_t size() const; ///< elements within the extents
    bool contains(const std::vector<int64_t> &index) const;
    int64_t offset(const std::vector<int64_t> &index) const; ///< elements from the start
    double get(int64_t offset) const;                        ///< of 64-bit integers the nearest double
    void set(int64_t offset, double value);                  ///< rounded to the type
    /// Calls `f(offset)` for every element, dimension 0 fastest.
    void each(const std::function<void(int64_t)> &f) const;
};
using Memory = std::map<std::string, Array>; ///< by view

/// When asynchronous work is done: as soon as it is issued, only when something waits for it, or in between.
enum class When { Early, Late, Random };
struct Mode {
    When loads = When::Early, products = When::Early, stores = When::Early;
    unsigned seed = 1; ///< of the scheduler
    int blocks = 1;    ///< of a persistent kernel: so many share the tiles
};

/// Accesses of one kind. A request is one instruction of a warp.
struct Accesses {
    int64_t requests = 0, bytes = 0;
    int64_t parts = 0; ///< what the memory system makes of them: 32-byte sectors, or cycles of the 32 banks
    int64_t least = 0; ///< parts that these bytes need at least
};

struct Counters {
    int64_t loaded = 0;                   ///< bytes of views that asynchronous copies read
    Accesses view_reads, view_writes;     ///< by threads
    Accesses shared_reads, shared_writes; ///< by threads
    int64_t tma_stored = 0;               ///< bytes of views that asynchronous copies wrote
    int64_t products = 0;                 ///< wgmma instructions of m64nNk16 and their like
    int64_t multiply_adds = 0;
    int64_t waits = 0;         ///< executed waits on barriers of rings
    int64_t outside_reads = 0; ///< of views by threads, outside their extents
};

struct Outcome {
    std::string fault; ///< "" where the run was clean
    Counters counters;
    std::set<const Stmt *> reached;
};

/// Runs the whole grid. Views' arrays must be in `memory`; outputs are written there. Throws Error K1167 where the IR
/// is not executable at all (an unknown call, a view without array).
Outcome interpret(const Kernel &k, Memory &memory, const Mode &mode = {});

/// Statements that a run did not reach, as text: what the chosen sizes do not test.
std::vector<std::string> unreached(const Kernel &k, const Outcome &outcome);

} // namespace kiln::tile
