/** \file
 * What the generators share: constraints between arguments, so that a call with shapes that do not fit is refused by
 * name before anything runs, and the parameter `type`.
 */
#pragma once

#include "dsl/generator/Generator.h"
#include "dsl/ops/Numeric.h"

#include <Halide.h>

namespace kiln::generators {

/// Coordinates begin at 0 in every dimension. Strides stay free but for the innermost, which Halide holds at 1.
template<typename... Buffers>
void begin_at_zero(Buffers &...buffers) {
    auto one = [](auto &b) {
        for (int d = 0; d < b.dimensions(); ++d) {
            b.dim(d).set_min(0);
        }
    };
    (one(buffers), ...);
}

/// Dimension `d` of `b` has the extent of dimension `of` of `a`.
template<typename B, typename A>
void same_extent(B &b, int d, A &a, int of) {
    b.dim(d).set_extent(a.dim(of).extent());
}

/// All dimensions of `b` have the extents of `a`'s.
template<typename B, typename A>
void same_shape(B &b, A &a) {
    for (int d = 0; d < b.dimensions(); ++d) {
        same_extent(b, d, a, d);
    }
}

inline const std::pair<const std::string, std::string> type_param = {
    "type", "what the buffers store; arithmetic is float32"};

} // namespace kiln::generators
