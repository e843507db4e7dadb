/** \file
 * Algorithms with a hand-written TilePlan each: what the tests of dsl/tile build, interpret and emit. Nothing here is
 * known to the compiler by name.
 */
#pragma once

#include "dsl/tile/ir/Plan.h"

#include <Halide.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace kiln::tile {

/// Extents of every input and output, dimension 0 first.
using Extents = std::map<std::string, std::vector<int>>;

struct Program {
    std::string name;
    std::vector<Halide::Func> outputs;
    TilePlan plan;
    std::vector<Halide::ImageParam> inputs;
    std::vector<Extents> sizes; ///< small ones: first whole tiles, then ragged
};

/// Attention in blocks of keys, as a Tuple carried over them (dsl/ops/Attention.h has the formulas).
struct AttentionForm {
    std::string name = "attention";
    int rows = 128, block = 64, width = 64; ///< queries and keys of a block, elements of a head
    int group = 1;                          ///< query heads that read one key head
    bool with_lse = true;
    /// Which keys j a query i may see, and what becomes of a scaled score.
    std::function<Halide::Expr(Halide::Expr i, Halide::Expr j)> mask = {};
    std::function<Halide::Expr(Halide::Expr score, Halide::Expr i, Halide::Expr j)> change = {};
};
Program attention_program(const AttentionForm &form);
/// The weights are 1 / (1 + e^-s) and no maximum is carried; causal.
Program sigmoid_attention();

/// Blocks of 128 x 64 elements by 64 along a sum, unless the program says otherwise.
std::vector<Program> tile_programs();

/// One of them; throws std::out_of_range where there is none of that name.
Program tile_program(const std::string &name);

} // namespace kiln::tile
