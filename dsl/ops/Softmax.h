/** \file
 * Softmax along dimension 0 of x(j, i…).
 *
 *   row_max(i…) = max_j x(j, i…)
 *   e(j, i…)    = exp(x(j, i…) - row_max(i…))
 *   row_sum(i…) = Σ_j e(j, i…)
 *   softmax     = e / row_sum
 *
 * Types: x of any float type, arithmetic and sums in float32. A NaN or a +inf in a row makes the whole row NaN, and so
 * does a row of nothing but -inf, as the formula says; masked rows are the business of attention (Attention.h).
 */
#pragma once

#include <Halide.h>

#include <string>
#include <vector>

namespace kiln::ops {

struct SoftmaxOptions {
    std::string prefix;        ///< put before the names row_max, e, row_sum, softmax
    bool log = false;          ///< x - row_max - log(row_sum) in place of the quotient
    Halide::Expr scale = 1.0f; ///< multiplies x
};

struct Softmax {
    Halide::Func row_max, e, row_sum;
    Halide::Func result;           ///< float32, over vars
    Halide::RDom r;                ///< named "r": along the row
    std::vector<Halide::Var> vars; ///< j, i, i1, i2, …
};

/// `extent` is the length of a row, at least 1.
Softmax softmax(const Halide::Func &x, const Halide::Expr &extent, const SoftmaxOptions &options = {});

/// Names for the coordinates of rows: j (innermost), i, i1, i2, …
std::vector<Halide::Var> row_vars(int rank);

} // namespace kiln::ops
