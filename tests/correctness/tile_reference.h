/** \file
 * Programs of tile_programs.h with data: arrays for the interpreter, and the result by Halide's JIT with every reduction
 * at root, which shares nothing with dsl/tile.
 */
#pragma once

#include "dsl/tile/interpret/Interpret.h"
#include "tests/correctness/tile_programs.h"

#include <string>

namespace kiln::tile {

class Reference {
public:
    explicit Reference(Program program);
    const Program &program() const { return program_; }
    /// Small integers for inputs (in [-2, 2], so that sums stay exact), a poison value for outputs.
    Memory data(const Extents &extents, unsigned seed = 1) const;
    /// The outputs that Halide computes.
    Memory outputs(const Memory &inputs, const Extents &extents);

private:
    Program program_;
    bool scheduled_ = false;
};

/// The extents that a size gives to every view. Outputs without extents are a fault of the program.
std::vector<int64_t> wide(const std::vector<int> &extents);

/// "" or the first difference and how many there are. `ulps`: the error allowed, in units of the last place of the type; 0: none.
std::string compare(const Memory &got, const Memory &wanted, double ulps = 0);

} // namespace kiln::tile
