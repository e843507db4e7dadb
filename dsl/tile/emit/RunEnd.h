/** \file
 * The comparison that tells where a row ends, along a run of neighbours that one thread holds. Where the end is a multiple of
 * the run, a whole run lies before it or behind it: one test for a vector in place of one for each element.
 */
#pragma once

#include "dsl/tile/ir/Ir.h"

#include <optional>

namespace kiln::tile {

struct RunEnd {
    Halide::Expr test;  ///< as it stands in the value
    bool answer;        ///< of `test` before the end
    Halide::Expr limit; ///< the end, as a coordinate of the axis; the same for all threads

    /// The value before the end, or behind it.
    Halide::Expr decided(const Halide::Expr &value, bool before) const;
};

/// Of `value` along `axis`; nothing where there is none, or several.
std::optional<RunEnd> find_run_end(const Kernel &k, const Halide::Expr &value, const std::string &axis);

} // namespace kiln::tile
