/** \file
 * Matrix products with batch dimensions, and what follows them (epilogues) as lambdas.
 *
 * Layout: dimension 0 is innermost. With both operands in their usual (row-major) layout,
 *   acc(n, m, batch…) = Σ_k a(k, m, batch…) · b(n, k, batch…),
 * that is C = A·B for A of M rows and K columns, B of K rows and N columns. The four transposes: Layout says which of
 * an operand's two matrix dimensions is innermost; a buffer may also be passed with its strides exchanged.
 * Types: operands of float32, float16 or bfloat16; products and sums are float32.
 *
 * By pairs (ContractionOptions::pairs): dot-product instructions (AVX512-BF16's vdpbf16ps, AMX's tdpbf16ps) add the products of
 * two neighbouring k at once, AMX of 32, for which b must lie in pairs of k. K is rounded up to K' = 32 ⌈K / 32⌉ with zeros:
 *   rows(k, m, batch…) = a(k, m, batch…) for k < K, else 0;   pairs(p, n, k, batch…) = b(n, 2k + p, batch…) for 2k + p < K, else 0;
 *   acc(n, m, batch…) = Σ_{k.x < 32, k.y < K'/32} rows(32 k.y + k.x, m) · pairs(k.x mod 2, n, 16 k.y + ⌊k.x / 2⌋).
 * a and b are read only where k < K.
 */
#pragma once

#include "dsl/ops/Elementwise.h"

#include <Halide.h>

#include <functional>
#include <string>
#include <vector>

namespace kiln::ops {

enum class Layout {
    RowMajor,   ///< a(k, m…), b(n, k…)
    Transposed, ///< a(m, k…), b(k, n…)
};

/// A change to the sum before it is stored: gets the float32 value and the coordinates (n, m, batch…).
using Epilogue = std::function<Halide::Expr(Halide::Expr value, const std::vector<Halide::Expr> &at)>;

struct ContractionOptions {
    Layout a = Layout::RowMajor;
    Layout b = Layout::RowMajor;
    int batch = 0; ///< batch dimensions; an operand with only two dimensions is shared by all batches
    std::string name = "acc";
    bool pairs = false; ///< see above
    std::string rows_name = "rows", pairs_name = "pairs";
};

struct Contraction {
    Halide::Func acc; ///< the sum, float32: acc(n, m, batch…), pure 0 and one update over `k`
    Halide::RDom k;   ///< named "k"; by pairs k.x within 32, k.y over those
    Halide::Var n, m;
    std::vector<Halide::Var> vars; ///< n, m, batch0, batch1, …
    Halide::Func rows,
        pairs; ///< by pairs: of a's and b's type, each with the batch dimensions of its operand
};

/// The product. `k_extent` is the length of the sum; 0 gives 0. Throws kiln::Error K1033 when an operand's rank is
/// neither 2 nor 2 + batch.
Contraction contraction(const Halide::Func &a, const Halide::Func &b, const Halide::Expr &k_extent,
                        const ContractionOptions &options = {});

/// name(n, m, batch…) = epilogue(acc(n, m, batch…)), stored as `type`.
Halide::Func with_epilogue(const std::string &name, const Contraction &product, const Epilogue &epilogue,
                           const Halide::Type &type = Halide::Float(32));

Epilogue bias(const Halide::Func &b);             ///< + b(n)
Epilogue residual(const Halide::Func &r);         ///< + r(n, m, batch…)
Epilogue activate(const Unary &f);                ///< f(value)
Epilogue sequence(const std::vector<Epilogue> &); ///< one after the other; none: the sum itself

} // namespace kiln::ops
