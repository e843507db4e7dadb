/** \file
 * One block of the final IR: warpgroups with a stack each, shared memory that knows who wrote what, rings, products and
 * stores in flight. The blocks of a cluster run together.
 */
#pragma once

#include "dsl/tile/interpret/Run.h"

#include <deque>
#include <random>

namespace kiln::tile {

/// The elements of one warpgroup under a RegisterLayout: element r·128 + t is register r of thread t.
class Threads {
public:
    Threads(const Kernel &k, RegisterLayout layout, int warpgroup);
    const RegisterLayout layout;
    size_t size() const { return size_; }
    /// The coordinate along the axis at every element; zeros for an axis of one element. Null: the layout lacks it.
    const std::vector<int> *coordinates(const std::string &axis) const;
    /// Whether the element is the first of its copies among all threads of the kernel.
    bool is_first(size_t element) const { return first_[element % 128]; }

private:
    size_t size_;
    std::map<std::string, std::vector<int>> at_;
    std::vector<bool> first_;
};

/// Bytes of shared memory with what is known of each.
class SharedMemory {
public:
    enum class State : uint8_t {
        Empty,    ///< nobody wrote it
        Arriving, ///< an asynchronous copy writes it
        Arrived,  ///< by asynchronous copy
        Written,  ///< by threads, not yet fenced
        Fenced,   ///< then fenced by the writer
        Visible   ///< then a barrier was passed: those in `seen` may have it copied
    };
    explicit SharedMemory(size_t bytes)
        : bytes(bytes), state(bytes), writer(bytes), seen(bytes), reader(bytes), reads(bytes) {}

    std::vector<uint8_t> bytes;
    std::vector<State> state;
    std::vector<int8_t> writer;        ///< number of the warpgroup
    std::vector<uint32_t> seen;        ///< warpgroups, as bits
    std::vector<int8_t> reader;        ///< the warpgroup whose store reads the byte
    size_t low = ~size_t(0), high = 0; ///< bytes outside were never written by threads
    std::vector<uint8_t>
        reads; ///< 0: nobody; 1: a store reads it; 2: it has, and only the warpgroup's issuing thread knows
};

struct Barriers { ///< of one slot: either its full or its empty one
    int count = 1, pending = 1;
    int64_t bytes = 0, completed = 0;
};

/// A warpgroup, or the one thread of it that issues copies.
struct Actor {
    struct Frame {
        const Body *body;
        size_t pc = 0;
        const Stmt *loop = nullptr;
        int64_t at = 0, end = 0;
    };
    struct Place {                ///< in a ring
        int64_t taken = 0;        ///< slots advanced over
        std::deque<int64_t> held; ///< waited for and not yet given back
        std::set<int64_t> read_by_threads;
    };
    struct Registers {
        ColumnPtr values;
        bool has_value = false; ///< or will have, when the product in flight is done
        int64_t touched = 0;    ///< by anything but a product, on the clock
    };
    struct Product {
        const Stmt *stmt;
        std::map<std::string, int64_t> uses; ///< ring -> slot that it reads
        bool zero = false, done = false;
    };
    struct Copying { ///< a store by TMA
        const Stmt *stmt;
        std::vector<int64_t> base;
        int64_t buffer = 0;
        bool done = false;
    };

    int number = 0; ///< of the warpgroup in the block
    int wg = 0;     ///< within the role
    bool single = false;
    std::string name;
    std::vector<Frame> stack;
    Variables scope;
    std::map<std::string, Place> rings;
    std::map<std::string, Registers> registers; ///< by root tile
    std::vector<Product> open;
    std::deque<std::vector<Product>> groups;
    std::vector<Copying> open_stores;
    std::deque<std::vector<Copying>> store_groups;
    int64_t clock = 0, fenced = -1;
    int64_t barrier_waited = -1;      ///< the generation of the named barrier that it waits for
    int64_t cluster_waited = -1;      ///< and of the cluster's
    int64_t meetings = 0;             ///< reductions over several warpgroups so far
    std::set<std::string> read_since; ///< shared tiles that all threads fill, read since its last barrier
    const Stmt *waits_for = nullptr;
    int64_t published = 0; ///< `publish` so far
    int64_t arrivals = 0;  ///< at counters of parts so far
};

class Machine;

/// Warpgroups that reduce together.
struct Meeting {
    int arrived = 0;
    std::map<int64_t, std::map<int64_t, double>>
        values; ///< left coordinate -> coordinate of the axis -> value
};

/// Blocks that run together, by their numbers in the cluster.
struct Cluster {
    std::vector<std::unique_ptr<Machine>> blocks;
    int64_t generation = 0; ///< of its barrier
    int arrived = 0;
    /// Reductions over parts of an axis: by statement and how many the warpgroups had before.
    std::map<std::pair<const Stmt *, int64_t>, Meeting> meetings;
};

class Machine {
public:
    Machine(Run &run, const Mode &mode, int block, std::mt19937 &random, Cluster &cluster);
    static void go(Cluster &cluster, std::mt19937 &random);

private:
    struct Loading {
        const Stmt *stmt;
        std::vector<int64_t> base;
        std::string ring;
        int64_t slot;
        int from, to; ///< rows of the box
        bool last;    ///< rows above `to` are of no other part: they hold anything
    };
    struct Named {
        int arrived = 0, threads = 0;
        uint32_t who = 0;
        int64_t generation = 0;
    };

    Run &run_;
    const Kernel &k_;
    Mode mode_;
    int block_;
    std::mt19937 &random_;
    Cluster &cluster_;
    SharedMemory shared_;
    std::deque<Actor> actors_;
    std::map<std::string, std::vector<Barriers>> full_, empty_;
    std::map<std::string, std::vector<int64_t>> given_back_; ///< by this block's readers, a slot
    std::vector<Loading> loading_;
    std::map<int64_t, Named> named_;
    std::map<std::pair<const Stmt *, int64_t>, Meeting> meetings_;
    std::map<int64_t, bool> last_; ///< by number of the arrival: whether this block came last
    std::map<std::string, int> staged_bytes_;
    int64_t grid_ = 0;
    std::set<std::string> produced_;
    std::vector<RegisterLayout> layouts_;
    std::map<std::pair<int, int>, Threads> threads_;
    std::map<std::tuple<int, int, int>, std::vector<uint32_t>> aligned_;

    [[noreturn]] void fault(const Actor &a, const std::string &text) const;
    void start(const Role &role, const Body &body);
    bool step(Actor &a); ///< false: it waits
    bool ended() const;
    size_t live() const;
    /// Another block of the cluster, or this one; a fault where it is none, or has ended.
    Machine &block(const Actor &a, int rank) const;
    std::vector<int> ranks(const Actor &a, const Expr &blocks) const;
    bool next_tile(Actor &a, Actor::Frame &f);
    bool run_some();
    void complete_one();
    void drift(Actor &a); ///< in random mode something asynchronous may end
    void check_end() const;
    std::string deadlock() const;

    // One for each statement; those that may have to wait return false.
    template<typename T>
    bool run(Actor &a, const T &o, const Stmt &s);
    bool run(Actor &a, const For &o, const Stmt &s);
    bool run(Actor &a, const If &o, const Stmt &s);
    bool run(Actor &a, const TileLoop &o, const Stmt &s);
    bool run(Actor &a, const Last &o, const Stmt &s);
    bool run(Actor &a, const Publish &o, const Stmt &s);
    bool run(Actor &a, const Wait &o, const Stmt &s);
    bool run(Actor &a, const Expect &o, const Stmt &s);
    bool run(Actor &a, const Release &o, const Stmt &s);
    bool run(Actor &a, const Advance &o, const Stmt &s);
    bool run(Actor &a, const Skip &o, const Stmt &s);
    bool run(Actor &a, const Drain &o, const Stmt &s);
    bool run(Actor &a, const Load &o, const Stmt &s);
    bool run(Actor &a, const Copy &o, const Stmt &s);
    bool run(Actor &a, const Mma &o, const Stmt &s);
    bool run(Actor &a, const MmaFence &o, const Stmt &s);
    bool run(Actor &a, const MmaCommit &o, const Stmt &s);
    bool run(Actor &a, const MmaWait &o, const Stmt &s);
    bool run(Actor &a, const Map &o, const Stmt &s);
    bool run(Actor &a, const Reduce &o, const Stmt &s);
    bool run(Actor &a, const Fill &o, const Stmt &s);
    bool run(Actor &a, const Move &o, const Stmt &s);
    bool run(Actor &a, const LaneReduce &o, const Stmt &s);
    bool run(Actor &a, const Barrier &o, const Stmt &s);
    bool run(Actor &a, const ClusterBarrier &o, const Stmt &s);
    bool run(Actor &a, const ProxyFence &o, const Stmt &s);
    bool run(Actor &a, const StageStore &o, const Stmt &s);
    bool run(Actor &a, const TmaStore &o, const Stmt &s);
    bool run(Actor &a, const StoreCommit &o, const Stmt &s);
    bool run(Actor &a, const StoreWait &o, const Stmt &s);
    bool run(Actor &a, const GlobalStore &o, const Stmt &s);
    bool run(Actor &a, const Store &o, const Stmt &s);

    // Rings
    const Ring &ring(const std::string &name) const;
    void arrive(Barriers &b, int count, int64_t bytes, const std::string &what);
    void begin(const Actor &a, const Load &o, Loading l); ///< in this block; `a` may be of another
    void complete(const Loading &l);
    /// Bytes of shared memory that rows of a box in that slot take, as ranges.
    std::vector<std::pair<size_t, size_t>> bytes_of_rows(const Tile &t, int64_t slot, int from, int to) const;
    void passed(uint32_t who); ///< a barrier, by these warpgroups
    /// Whether copies of a producer fill the ring; otherwise all threads copy, between barriers.
    bool has_producer(const std::string &ring) const { return produced_.count(ring) > 0; }
    int64_t slot_address(const Tile &t, int64_t use) const;
    /// The slot that the warpgroup reads the tile in; a fault unless it waited for it and still holds it.
    int64_t held_use(const Actor &a, const Tile &t) const;
    /// Index in a view and byte in shared memory of every element of a box; only of rows `from` to `to` - 1 where said.
    void each_of_box(const Region &r, const std::vector<int64_t> &base, const SharedLayout &l,
                     const std::function<void(const std::vector<int64_t> &, int)> &f, int from = 0,
                     int to = -1) const;

    // Registers
    int layout_id(const RegisterLayout &l);
    const Threads &threads(const RegisterLayout &l, int wg);
    /// Values of a tile at the elements of another layout.
    ColumnPtr aligned(Actor &a, const std::string &tile, const Threads &to);
    ColumnPtr shared_values(Actor &a, const Tile &t, const Threads &at);
    ColumnPtr evaluate(Actor &a, const Expr &e, const Threads &at, const Mask &mask = nullptr);
    ColumnPtr read(Actor &a, const std::string &tile);
    void write(Actor &a, const std::string &tile, ColumnPtr values);
    /// An ordinary access to registers: none of them may be in flight.
    void touch(Actor &a, const std::string &tile, bool writes);
    void check_arrived(const Actor &a, int64_t at, int bytes, const std::string &tile) const;
    bool by_threads(const Stmt &product) const;
    void multiply(Actor &a, Actor::Product &p);
    void retire(Actor &a, size_t left);
    void store_global(Actor &a, const Region &to, const std::string &src, int vector);
    void carry_out(Actor &a, Actor::Copying &c);

    friend class Elements;
};

} // namespace kiln::tile
