/** \file
 * The consumers' side of inject_pipeline: issues their statements in order and keeps account of what is in flight, so
 * that every wait, release and group of products follows from what reads and writes what.
 */
#pragma once

#include "dsl/tile/passes/Passes.h"

namespace kiln::tile {

class Consumer {
public:
    explicit Consumer(Kernel &k);
    /// What one block tile is to the consumers. Refuses (K1124) a pipeline_stage that would change what is computed.
    Body run(const Body &body);

private:
    using Names = std::set<std::string>;

    /// A group of products: the registers they use, and the rings whose slots go back when it has ended.
    struct Flight {
        Names registers;
        Names reading;
        std::vector<std::string> release;
    };

    Kernel &k_;
    Names read_by_threads_; ///< rings: all threads must have read before one gives the slot back
    std::map<std::string, Expr> readers_; ///< of rings that blocks of a cluster fill for each other
    std::vector<Flight> flights_;
    Flight open_;
    bool is_open_ = false;
    bool nested_ = false;

    /// For the body of a loop: nothing of the outer body is in flight there.
    struct Inside {
        const Consumer &outer;
    };
    explicit Consumer(Inside in);

    void put(Body &out, decltype(Stmt::op) op, const std::string &func = "") const;
    Names rings_of(const Body &body) const;
    Names rings_read(const Stmt &s, const Names &own) const;
    Names registers_used(const Stmt &s) const;

    // Groups of products
    void commit(Body &out);
    void wait(Body &out, size_t count);
    void finish(Body &out);
    void touch(Body &out, const Names &registers);
    void product(Body &out, const Stmt &s, const Mma &m);

    // Slots of rings
    void release(Body &out, const std::string &ring) const;
    void done_with(Body &out, const std::string &ring);
    void copy_together(Body &out, const Body &body, size_t i);
    void last_of_parts(Body &out, const Last &l, const std::string &func);

    // Statements
    void issue(Body &out, const std::vector<Body> &pieces, const Names &own);
    void straight(Body &out, const Body &body) { issue(out, {body}, rings_of(body)); }

    // Loops (ConsumerLoops.cpp)
    std::vector<Carry> fold_zero_starts(For &f) const;
    std::vector<For> ranges(const For &f, const Expr &lo) const;
    Body moves(const std::vector<Carry> &carry, const Names &of, const std::string &func) const;
    Names loop(Body &out, const Stmt &s, const For &original, const Names &last_read);
    void plain_loop(Body &out, const Stmt &s, const For &f, const std::vector<Carry> &carry);
    struct Stages;
    Stages stages(const For &f, const std::vector<Carry> &carry) const;
    Names staged_loop(Body &out, const Stmt &s, const For &f, const std::vector<Carry> &carry,
                      const Names &last_read);
    bool is_staged(const For &f) const;
    int stage_of(const Stmt &s) const;

    // Warpgroups that take whole tiles in turn
    Body in_turn(Body mine, const Body &body) const;
    void skips(Body &out, const Body &body, const Expr &times, Names &seen) const;
    void wait_for_turn(Body &out, const std::string &func);
    void pass_turn(Body &out, const std::string &func);
    /// The products of an iteration, in `groups` groups, issued in turn.
    void issue_in_turn(Body &iteration, int groups, const std::string &func) const;
};

/// Named barriers 1 … are the stores'; those from 8 on say whose turn it is to issue products.
constexpr int first_turn_barrier = 8;
constexpr int turn_threads = 256; ///< who passes and who waits
/// Those of all consumers, or from there on of each that takes whole tiles: also the printer's, for reductions.
constexpr int crew_barrier = 15, own_barriers = 11;

} // namespace kiln::tile
