/** \file
 * Tile kernels of a schedule: which Funcs each computes, and what its block loops and sums are split into. Read off the
 * loop nest; the checker, the tile compiler and the lowering take it from here.
 */
#pragma once

#include "dsl/schedule/LoopNest.h"

namespace kiln {

struct TileGroup {
    const FuncNest *kernel = nullptr; ///< marked `tile_kernel()`
    std::vector<const FuncNest *>
        outputs; ///< what it stores: the kernel's Func, then those marked `tile_kernel(kernel)`
    std::vector<const FuncNest *> inside; ///< computed inside its loops; wrappers too, inlined Funcs not
    std::vector<const FuncNest *> before; ///< computed before it and read by it; no inputs

    bool computes(const std::string &func) const; ///< is one of `outputs` or `inside`
};

/// In the order of their kernels in the nest. The pointers are into it.
std::vector<TileGroup> tile_groups(const LoopNest &nest);

/// Whether the Func is an output of a tile kernel or computed inside one.
bool in_tile_kernel(const LoopNest &nest, const FuncNest &f);
/// The Func whose tile kernel stores `f`, or "": its own name, or that of the Func it joins.
std::string tile_kernel_of(const FuncNest &f);

/// A Var or RVar of a stage: the loop around the tile, and how much of it lies inside.
struct TileDim {
    std::string var;
    bool is_rvar = false;
    std::string loop;            ///< around the tile; "" where the tile spans it all
    bool is_block = false;       ///< `loop` runs over blocks
    std::optional<int64_t> size; ///< inside the tile; 1: the loop is all there is. Empty: no constant
    bool is_whole = false;       ///< by `whole`: `size` is an upper bound
    bool is_plain = true;        ///< false: split twice or fused, which a tile kernel cannot take
    Span span;                   ///< what made it so; line 0: the algorithm
};

/// One for each loop that the algorithm gives the stage, innermost first.
std::vector<TileDim> tile_dims(const StageNest &stage);

} // namespace kiln
