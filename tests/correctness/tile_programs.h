/** \file
 * Algorithms with a hand-written TilePlan each: what the tests of dsl/tile build, interpret and emit. Nothing here is
 * known to the compiler by name.
 */
#pragma once

#include "dsl/tile/ir/Plan.h"

#include <Halide.h>

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

/// Blocks of 128 x 64 elements by 64 along a sum, unless the program says otherwise.
std::vector<Program> tile_programs();

/// One of them; throws std::out_of_range where there is none of that name.
Program tile_program(const std::string &name);

} // namespace kiln::tile
