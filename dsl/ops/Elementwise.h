/** \file
 * Chains of elementwise steps over Funcs of any rank.
 *
 * Layout: dimension 0 is innermost. An operand of fewer dimensions than the result varies along its innermost ones
 * and is repeated along the others: bias(n) with x(n, m) adds the same row to every m.
 * Types: operands of any float type are widened to float32, the chain is computed in float32, and the result is
 * float32 unless a storage type is asked for.
 */
#pragma once

#include "dsl/ops/Activations.h"

#include <Halide.h>

#include <functional>
#include <string>
#include <vector>

namespace kiln::ops {

using Nary = std::function<Halide::Expr(const std::vector<Halide::Expr> &)>;

/// The value of `f` at `coordinates`, in float32; f's dimensions beyond the first f.dimensions() are ignored, which
/// repeats it along them. Throws kiln::Error K1032 when f has more dimensions than there are coordinates.
Halide::Expr at(const Halide::Func &f, const std::vector<Halide::Expr> &coordinates);

/// result(vars…) = f(operand values at vars…), one pure Func named `name` over `vars`, stored as `type`. Inputs: any
/// number of Funcs. Throws kiln::Error K1032 (see at).
Halide::Func elementwise(const std::string &name, const std::vector<Halide::Var> &vars,
                         const std::vector<Halide::Func> &operands, const Nary &f,
                         const Halide::Type &type = Halide::Float(32));

/// relu(a·x + b): `a` and `b` scalars, or values at the same place.
Halide::Expr relu_chain(const Halide::Expr &a, const Halide::Expr &x, const Halide::Expr &b);

/// gelu(x·w + b) + residual.
Halide::Expr gelu_residual(const Halide::Expr &x, const Halide::Expr &w, const Halide::Expr &b,
                           const Halide::Expr &residual);

/// silu(gate)·up (Shazeer 2020, "GLU variants improve transformer").
Halide::Expr swiglu(const Halide::Expr &gate, const Halide::Expr &up);

} // namespace kiln::ops
