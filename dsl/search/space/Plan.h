/** \file
 * A schedule as decisions: for each Func where it is computed, and for its loops the tiles at each level. Moves change a
 * plan; render_plan writes the schedule that it means. One form for CPUs and GPU loops:
 *
 *                     CPU                         GPU
 *     Task   loops    parallel (fused)            blocks
 *     Outer  loops    serial                      serial, inside the threads: a thread strides over them
 *     Inner  loops    serial                      threads
 *     Block  loops    serial                      serial
 *     inside          unrolled, vectorized        unrolled, vectorized
 *
 * Loops of a reduction run inside the Block loops, or (reduce_outside) inside the Task loops. A Func computed at a level of
 * another one is computed in the innermost loop of that level.
 */
#pragma once

#include "dsl/schedule/Schedule.h"

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kiln::search {

enum class Where { Inline, Root, At };
enum Level : int { Task = 0, Outer = 1, Inner = 2, Block = 3, Reduce = 4 };
constexpr int tile_levels = 4;
const char *level_name(int level);

enum class Tail { Guard, Shift, Round };

/// A place inside the loops of another Func. Which of its stages is meant follows from who reads.
struct PlanPlace {
    Where where = Where::Root;
    std::string host; ///< At
    int level = Task; ///< At
    bool operator==(const PlanPlace &) const = default;
};

struct FuncPlan {
    PlanPlace place;
    std::optional<PlanPlace> store; ///< further out than `place`: values are kept for the next iterations
    /// Tile sizes by level and dimension (in the order of the Func's arguments), in elements, each at most the level's
    /// above; 0: the whole of the level above.
    std::array<std::vector<int64_t>, tile_levels> tile;
    std::vector<int>
        order; ///< of the dimensions' loops, innermost first: a permutation, at every level the same
    int vector_dim = -1; ///< dimension that is vectorized; -1: none
    int lanes = 1;
    int fused = 0;  ///< Task loops that are fused into the parallel loop, outermost first; 0: all of them
    int reduce = 0; ///< iterations of the innermost RVar inside its split; 0: not split
    bool reduce_outside = false;
    int reduce_unroll = 1; ///< copies of the innermost reduction loop
    int rfactor = 0;       ///< partial results that a reduction over contiguous elements keeps; 0: none
    Tail tail = Tail::Guard;
    std::vector<int> storage; ///< order of the storage's dimensions, innermost first; empty: as the arguments
    int align = 0;            ///< align_storage of the innermost dimension; 0: none
    bool operator==(const FuncPlan &) const = default;
};

/// A copy of what `consumer` reads of `producer`, for locality: `producer.in(consumer)`.
struct WrapPlan {
    std::string producer, consumer;
    PlanPlace place;
    int lanes = 1;
    std::vector<int> storage;
    bool operator==(const WrapPlan &) const = default;
};

struct Plan {
    std::map<std::string, FuncPlan> funcs; ///< of all Funcs but inputs
    std::vector<WrapPlan> wraps;
    bool operator==(const Plan &) const = default;

    /// One line of text, and back. Nothing where the text is none of a plan.
    std::string str() const;
    static std::optional<Plan> parse(const std::string &text);
};

} // namespace kiln::search
