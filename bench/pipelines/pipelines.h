/** \file
 * What the pipelines share: sizes as constraints and estimates.
 */
#pragma once

#include "dsl/generator/Generator.h"

#include <Halide.h>

#include <vector>

namespace kiln::bench {

/// Coordinates begin at 0; the searchers of Halide are told these extents.
template<typename Buffer>
void sizes(Buffer &b, const std::vector<int> &estimates) {
    for (int d = 0; d < static_cast<int>(estimates.size()); d++) {
        b.dim(d).set_min(0);
        b.dim(d).set_estimate(0, estimates[d]);
    }
}

/// Dimension `d` of `b` is dimension `of` of `a`, and `more`.
template<typename B, typename A>
void extent_of(B &b, int d, A &a, int of, int more = 0) {
    b.dim(d).set_extent(a.dim(of).extent() + more);
}

inline Workload work(const char *name, std::map<std::string, std::vector<int64_t>> extents, bool bench) {
    return {name, std::move(extents), {}, {}, bench};
}

} // namespace kiln::bench
