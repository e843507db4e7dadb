/** \file
 * Activation functions, Expr to Expr in float32: usable in any chain and as an epilogue. NaN goes through all of
 * them. Formulas as in the papers named; the values at ±inf are the limits where the formula has one.
 */
#pragma once

#include <Halide.h>

#include <functional>
#include <string>
#include <vector>

namespace kiln::ops {

using Unary = std::function<Halide::Expr(Halide::Expr)>;

Halide::Expr relu(const Halide::Expr &x);                            ///< max(x, 0)
Halide::Expr leaky_relu(const Halide::Expr &x, float slope = 0.01f); ///< x where x > 0, else slope·x
Halide::Expr sigmoid(const Halide::Expr &x);                         ///< 1 / (1 + e^-x)
Halide::Expr silu(const Halide::Expr &x); ///< x / (1 + e^-x), "swish" (Ramachandran et al. 2017)
Halide::Expr gelu(const Halide::Expr &x); ///< x/2 (1 + erf(x/√2)) (Hendrycks and Gimpel 2016)
/// The tanh form of the same paper: x/2 (1 + tanh(√(2/π) (x + 0.044715 x³)))
Halide::Expr gelu_tanh(const Halide::Expr &x);
Halide::Expr softplus(const Halide::Expr &x);                ///< log(1 + e^x), as max(x, 0) + log(1 + e^-|x|)
Halide::Expr mish(const Halide::Expr &x);                    ///< x tanh(softplus(x)) (Misra 2019)
Halide::Expr elu(const Halide::Expr &x, float alpha = 1.0f); ///< x where x > 0, else alpha (e^x - 1)
Halide::Expr hard_tanh(const Halide::Expr &x);               ///< x clamped to [-1, 1]
/// Halide::erf (a rational approximation, error below 1e-6 of the result). legalize_math gives it erf(±inf) = ±1,
/// erf(-0) = -0 and NaN, which it does not have of itself.
Halide::Expr erf(const Halide::Expr &x);

/// The activation of a generator parameter's name: identity, relu, leaky_relu, sigmoid, silu, gelu, gelu_tanh,
/// softplus, mish, elu, hard_tanh, tanh. Throws kiln::Error K1030 for another name.
Unary activation(const std::string &name);
std::vector<std::string> activation_names();

} // namespace kiln::ops
