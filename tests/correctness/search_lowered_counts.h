/** \file
 * What a scheduled pipeline does, counted on the statement that Halide lowers it to: the truth that features are compared
 * with. Shares no code with them.
 */
#pragma once

#include "dsl/search/space/Problem.h"

namespace kiln::test {

struct LoweredCounts {
    double adds = 0, muls = 0, divs = 0, specials = 0, compares = 0; ///< of floats, lanes counted one by one
    /// In instructions of `register_bytes`; equal addresses in one straight piece of code count once, those that the
    /// innermost loop does not move once for the loop.
    double vector_loads = 0, scalar_loads = 0, gathers = 0;
    double vector_stores = 0, scalar_stores = 0, scatters = 0;
    double loaded_bytes = 0, stored_bytes = 0;
    double tasks = 0;                              ///< iterations of parallel loops, all stages together
    double iterations = 0;                         ///< of serial and parallel loops
    double allocated = 0;                          ///< bytes of all allocations, each once
    double widest = 1;                             ///< lanes
    std::map<std::string, double> stored_elements; ///< by buffer
    int unknown = 0;                               ///< extents that the sizes did not tell
};

/// Of the outputs, with a schedule applied and all extents fixed by bounds.
LoweredCounts count_lowered(const std::vector<Halide::Func> &outputs, const Target &target,
                            int register_bytes);

} // namespace kiln::test
