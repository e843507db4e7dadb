/** \file
 * Normalizations along dimension 0 of x(j, i…), with an optional residual added first.
 *
 *   h = x, or x + residual
 *   layer_norm (Ba, Kiros, Hinton 2016): mean = Σ h / n, sq = Σ (h - mean)², y = (h - mean) / √(sq / n + eps) · gamma + beta
 *   rms_norm (Zhang, Sennrich 2019):     sq = Σ h²,                          y = h / √(sq / n + eps) · gamma
 *
 * The variance is summed from deviations (two passes), which does not cancel as E[h²] - E[h]² does.
 * Types: any float type in; arithmetic and sums in float32. `gamma` and `beta` have one dimension (j); an undefined Func
 * leaves its step out.
 */
#pragma once

#include <Halide.h>

#include <string>
#include <vector>

namespace kiln::ops {

struct NormOptions {
    std::string prefix;    ///< put before the names h, sum, mean, sq, inv and norm
    Halide::Func residual; ///< added to x first, where defined
    Halide::Func gamma;    ///< n factors
    Halide::Func beta;     ///< n offsets
    Halide::Expr eps = 1e-5f;
    /// The type in which a sum with the residual is rounded before it is normalized, as when it is stored between.
    Halide::Type h_type = Halide::Float(32);
};

struct Norm {
    Halide::Func h;                ///< what is normalized, float32: x, or the (rounded) sum with the residual
    Halide::Func sum;              ///< Σ h (layer_norm only)
    Halide::Func mean;             ///< (layer_norm only)
    Halide::Func sq;               ///< Σ (h - mean)², or Σ h²
    Halide::Func inv;              ///< 1 / √(sq / n + eps)
    Halide::Func result;           ///< float32
    Halide::RDom r;                ///< named "r": along the row
    std::vector<Halide::Var> vars; ///< j, i, i1, …
};

/// `extent` is the length n of a row, at least 1.
Norm layer_norm(const Halide::Func &x, const Halide::Expr &extent, const NormOptions &options = {});
Norm rms_norm(const Halide::Func &x, const Halide::Expr &extent, const NormOptions &options = {});

} // namespace kiln::ops
