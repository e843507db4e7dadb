/** \file
 * What no schedule can beat: the roofline of the whole problem.
 */
#pragma once

#include "dsl/generator/Generator.h"
#include "dsl/search/space/Problem.h"

#include <string>

namespace kiln::search {

struct Bound {
    double flops = 0, bytes = 0; ///< arithmetic, every value once; inputs and outputs, each once
    double ms = 0;               ///< by the device's measured ceilings; 0 where they are not known
    bool by_memory = false;      ///< which of the two sets it
    /// Less is not believed. GPUs: ceilings that were measured for this very type, memory only where the problem is far larger
    /// than the caches. CPUs: arithmetic at what no core exceeds. 0: unknown.
    double floor_ms = 0;
};

Bound bound_of(const Problem &problem, int threads = 0);

/// The sizes of a problem as dsl/check takes them.
Workload workload_of(const Problem &problem);

} // namespace kiln::search
