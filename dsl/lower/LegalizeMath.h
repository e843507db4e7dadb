/** \file
 * Math whose NaN, infinities and signed zeros are those of IEEE arithmetic, per target; docs/numerics.md has
 * the rules. Halide compiles with LLVM's "no NaNs, no infinities" flags, so a comparison of x with itself is
 * removed and its own polynomials return numbers for NaN: the tests here look at bits.
 */
#pragma once

#include <Halide.h>

namespace kiln {

/// True where float32 `x` is a NaN, by its bits: survives fast-math flags and compiles on OpenCL, vectors
/// included.
Halide::Expr is_nan_bits(const Halide::Expr &x);

/// Rewrites exp, log, pow, tanh, erf, min, max of float32 in `e` for `target`. A min or max that folds a
/// value into `in_update_of` itself stays as it is: it must remain associative for rfactor and atomic.
Halide::Expr legalize_math(const Halide::Expr &e, const Halide::Internal::Function &in_update_of,
                           const Halide::Target &target);

} // namespace kiln
