/** \file
 * Small Exprs that the operations share: widening of 16-bit operands, and tests that survive fast-math flags
 * (docs/numerics.md).
 */
#pragma once

#include <Halide.h>

#include <string>

namespace kiln::ops {

/// `x` as float32. Operands of 16 bits are widened before any arithmetic: all sums are kept in float32.
Halide::Expr f32(const Halide::Expr &x);

/// `value` (float32) as `type`, rounded to nearest even where that is narrower.
Halide::Expr to_type(const Halide::Type &type, const Halide::Expr &value);

/// -infinity, float32.
Halide::Expr minus_inf();

/// Whether float32 `x` is -infinity, by its bits. Also true for the 15 numbers next to it, from -3.4028232e38 down, and
/// for a NaN with its sign bit set (see the source).
Halide::Expr is_minus_inf(const Halide::Expr &x);

/// Whether float32 `x` is +0 or -0, by its bits: x == 0 may come out true for NaN under fast-math flags.
Halide::Expr is_zero(const Halide::Expr &x);

/// 0 where `m` is -infinity, else `m`: what to subtract from scores whose maximum is `m`, so that a row without any
/// allowed element gives exp(-inf - 0) = 0 and not exp(-inf + inf) = NaN.
Halide::Expr safe(const Halide::Expr &m);

/// `value` where `allowed`, else -infinity, without a `select` around `value`: Halide's bounds inference would shrink
/// what `value` reads to the allowed region and so break the constant size of a register tile (86 against 56 ms for a
/// causal attention). The bits are masked instead, which also drops a NaN that stands at a masked place.
Halide::Expr masked(const Halide::Expr &allowed, const Halide::Expr &value);

/// The name of a Func as its user gave it: without Halide's `$1`, and an input's without `_im`. For messages.
std::string shown_name(const Halide::Func &f);

/// 1/sqrt(x) by a division and a square root, both correctly rounded.
Halide::Expr inverse_sqrt(const Halide::Expr &x);

} // namespace kiln::ops
