/** \file
 * How far a right result may lie from the exact one. Everything that compares kernels with references uses this
 * formula: the evaluator applies it to each value while it computes, tests and references apply it by hand.
 *
 *     tolerance = u(storage)·|r| + (K + 2)·2u(accumulate)·Σ|terms|
 *
 * for a result r that sums K terms in any order (Higham, Accuracy and Stability of Numerical Algorithms, 2nd
 * ed., section 3.1: the bound is γ_K·Σ|a||b|; the factor 2 leaves room for products that are rounded before
 * they are added, and for constants that a compiler folds). u is half the distance of neighbouring numbers:
 * 2^-8 for bfloat16, 2^-11 for float16, 2^-24 for float32, 2^-53 for float64; 0 for integers, which must agree
 * exactly. Elementwise chains are the case K = number of operations.
 */
#pragma once

#include <Halide.h>

#include <cstdint>

namespace kiln {

/// u of a type: half an ulp, relative.
double unit_roundoff(const Halide::Type &type);

/// The significant bits of a float type (8, 11, 24, 53).
int significant_bits(const Halide::Type &type);

/// The largest error that a value next to zero can have: half the smallest subnormal where the type keeps
/// them, the smallest normal number where kernels may flush them (float32, bfloat16, float64).
double underflow_error(const Halide::Type &type);

/// The largest finite value.
double largest_finite(const Halide::Type &type);

/// K terms of sizes that add up to `sum_abs`, added in any order in `accumulate`.
double sum_tolerance(const Halide::Type &accumulate, int64_t terms, double sum_abs);

/// Storing `value` in `storage`.
double storage_tolerance(const Halide::Type &storage, double value);

/// The formula above.
double tolerance(const Halide::Type &storage, const Halide::Type &accumulate, int64_t terms, double value,
                 double sum_abs);

/// Error of a function of the C library or its GPU and Halide kin, in units of u·|result|, for argument `x`.
/// From the accuracy tables of the CUDA C++ Programming Guide and of the OpenCL C specification, doubled;
/// exp grows with its argument because GPUs and Halide compute it as 2^(x·log2 e).
double function_ulps(const char *function, double x);

} // namespace kiln
