/** \file
 * Fused products as a user writes them: fifteen lines of Funcs each, with a schedule of about twelve beside this file. None
 * is known to the compiler. Built to libraries in tests, and run on a GPU against PyTorch by bench/user.py.
 */
#include "dsl/generator/Generator.h"

#include <Halide.h>

namespace {

using Halide::BFloat;

Halide::Expr f32(const Halide::Expr &e) {
    return Halide::cast<float>(e);
}
Halide::Expr bf16(const Halide::Expr &e) {
    return Halide::cast(BFloat(16), e);
}

/// y = relu(x w · scale + bias) with weights of 8 bits, which become bfloat16 on their way to the tensor cores.
class UserDequantized : public Halide::Generator<UserDequantized> {
public:
    Input<Buffer<>> x{"x", BFloat(16), 2};  ///< (k, m)
    Input<Buffer<int8_t, 2>> w{"w"};        ///< (k, n)
    Input<Buffer<float, 1>> scale{"scale"}; ///< (n)
    Input<Buffer<float, 1>> bias{"bias"};   ///< (n)
    Output<Buffer<>> y{"y", BFloat(16), 2}; ///< (n, m)
    void generate() {
        Var n{"n"}, m{"m"};
        RDom k(0, x.dim(0).extent(), "k");
        Func acc{"acc"};
        acc(n, m) = 0.0f;
        acc(n, m) += f32(x(k, m)) * f32(w(k, n));
        y(n, m) = bf16(max(acc(n, m) * scale(n) + bias(n), 0.0f));
    }
};

/// float16, a factor a column, and the sum itself as a second output of another type.
class UserTwoOutputs : public Halide::Generator<UserTwoOutputs> {
public:
    Input<Buffer<>> x{"x", Float(16), 2};             ///< (k, m)
    Input<Buffer<>> w{"w", Float(16), 2};             ///< (k, n)
    Input<Buffer<>> columns{"columns", Float(16), 1}; ///< (n)
    Output<Buffer<>> y{"y", Float(16), 2};            ///< (n, m)
    Output<Buffer<float, 2>> raw{"raw"};              ///< (n, m)
    void generate() {
        Var n{"n"}, m{"m"};
        RDom k(0, x.dim(0).extent(), "k");
        Func acc{"acc"};
        acc(n, m) = 0.0f;
        acc(n, m) += f32(x(k, m)) * f32(w(k, n));
        y(n, m) = cast(Float(16), acc(n, m) * f32(columns(n)));
        raw(n, m) = acc(n, m);
    }
};

/// A product, and of each of its rows in each block of 128 columns the sum and the maximum.
class UserRowStatistics : public Halide::Generator<UserRowStatistics> {
public:
    Input<Buffer<>> x{"x", BFloat(16), 2};   ///< (k, m)
    Input<Buffer<>> w{"w", BFloat(16), 2};   ///< (k, n)
    Output<Buffer<>> y{"y", BFloat(16), 2};  ///< (n, m)
    Output<Buffer<float, 2>> total{"total"}; ///< (nb, m)
    Output<Buffer<float, 2>> top{"top"};     ///< (nb, m)
    void generate() {
        Var n{"n"}, m{"m"}, nb{"nb"};
        RDom k(0, x.dim(0).extent(), "k"), j(0, 128, "j");
        Func acc{"acc"};
        acc(n, m) = 0.0f;
        acc(n, m) += f32(x(k, m)) * f32(w(k, n));
        y(n, m) = bf16(acc(n, m));
        total(nb, m) = 0.0f;
        total(nb, m) += acc(nb * 128 + j, m);
        top(nb, m) = Float(32).min();
        top(nb, m) = max(top(nb, m), acc(nb * 128 + j, m));
    }
};

/// y = relu(x w) v in one kernel: at most 128 inner columns, which never reach memory.
class UserProductOfProduct : public Halide::Generator<UserProductOfProduct> {
public:
    Input<Buffer<>> x{"x", BFloat(16), 2};  ///< (k, m)
    Input<Buffer<>> w{"w", BFloat(16), 2};  ///< (k, j)
    Input<Buffer<>> v{"v", BFloat(16), 2};  ///< (j, n)
    Output<Buffer<>> y{"y", BFloat(16), 2}; ///< (n, m)
    void generate() {
        Var n{"n"}, m{"m"}, j{"j"};
        RDom k(0, x.dim(0).extent(), "k"), r(0, v.dim(0).extent(), "r");
        Func inner{"inner"}, outer{"outer"};
        inner(j, m) = 0.0f;
        inner(j, m) += f32(x(k, m)) * f32(w(k, j));
        outer(n, m) = 0.0f;
        outer(n, m) += f32(bf16(max(inner(r, m), 0.0f))) * f32(v(r, n));
        y(n, m) = bf16(outer(n, m));
    }
};

/// Logarithms of the softmax of the rows of a product, at most 256 columns.
class UserLogSoftmax : public Halide::Generator<UserLogSoftmax> {
public:
    Input<Buffer<>> x{"x", BFloat(16), 2}; ///< (k, m)
    Input<Buffer<>> w{"w", BFloat(16), 2}; ///< (k, n)
    Output<Buffer<float, 2>> y{"y"};       ///< (n, m)
    void generate() {
        Var n{"n"}, m{"m"};
        RDom k(0, x.dim(0).extent(), "k"), r(0, w.dim(1).extent(), "r");
        Func acc{"acc"}, top{"top"}, total{"total"};
        acc(n, m) = 0.0f;
        acc(n, m) += f32(x(k, m)) * f32(w(k, n));
        top(m) = Float(32).min();
        top(m) = max(top(m), acc(r, m));
        total(m) = 0.0f;
        total(m) += exp(acc(r, m) - top(m));
        y(n, m) = acc(n, m) - top(m) - log(total(m));
    }
};

/// A product of complex numbers whose parts lie apart.
class UserComplex : public Halide::Generator<UserComplex> {
public:
    Input<Buffer<>> xr{"xr", BFloat(16), 2}, xi{"xi", BFloat(16), 2}; ///< (k, m)
    Input<Buffer<>> wr{"wr", BFloat(16), 2}, wi{"wi", BFloat(16), 2}; ///< (k, n)
    Output<Buffer<float, 2>> y{"y"}, z{"z"};                          ///< (n, m): real and imaginary parts
    void generate() {
        Var n{"n"}, m{"m"};
        RDom k(0, xr.dim(0).extent(), "k");
        Func acc{"acc"};
        Expr a = f32(xr(k, m)), b = f32(xi(k, m)), c = f32(wr(k, n)), d = f32(wi(k, n));
        acc(n, m) = Tuple(0.0f, 0.0f);
        acc(n, m) = Tuple(acc(n, m)[0] + a * c - b * d, acc(n, m)[1] + a * d + b * c);
        y(n, m) = acc(n, m)[0];
        z(n, m) = acc(n, m)[1];
    }
};

/// Weights of 4 bits, two in a byte, less 8 and times a factor for each column.
class UserFourBits : public Halide::Generator<UserFourBits> {
public:
    Input<Buffer<>> x{"x", BFloat(16), 2};  ///< (k, m)
    Input<Buffer<uint8_t, 2>> w{"w"};       ///< (k / 2, n)
    Input<Buffer<float, 1>> scale{"scale"}; ///< (n)
    Output<Buffer<>> y{"y", BFloat(16), 2}; ///< (n, m)
    void generate() {
        Var n{"n"}, m{"m"};
        RDom k(0, x.dim(0).extent(), "k");
        Func acc{"acc"};
        Expr bits = w(k / 2, n) >> cast<uint8_t>(4 * (k % 2)) & cast<uint8_t>(15);
        acc(n, m) = 0.0f;
        acc(n, m) += f32(x(k, m)) * f32(bf16(f32(cast<int>(bits) - 8)));
        y(n, m) = bf16(acc(n, m) * scale(n));
    }
};

/// y = clamp(x w, -c, c) + u vᵀ.
class UserOuterProduct : public Halide::Generator<UserOuterProduct> {
public:
    Input<Buffer<>> x{"x", BFloat(16), 2}; ///< (k, m)
    Input<Buffer<>> w{"w", BFloat(16), 2}; ///< (k, n)
    Input<Buffer<float, 1>> u{"u"};        ///< (m)
    Input<Buffer<float, 1>> v{"v"};        ///< (n)
    Input<float> c{"c"};
    Output<Buffer<>> y{"y", BFloat(16), 2}; ///< (n, m)
    void generate() {
        Var n{"n"}, m{"m"};
        RDom k(0, x.dim(0).extent(), "k");
        Func acc{"acc"};
        acc(n, m) = 0.0f;
        acc(n, m) += f32(x(k, m)) * f32(w(k, n));
        y(n, m) = bf16(clamp(acc(n, m), -c, c) + u(m) * v(n));
    }
};

} // namespace

KILN_GENERATOR(UserDequantized, user_dequantized, {.summary = "a product with weights of 8 bits"})
KILN_GENERATOR(UserTwoOutputs, user_two_outputs, {.summary = "a product, scaled and as it is"})
KILN_GENERATOR(UserRowStatistics, user_row_statistics,
               {.summary = "a product with sums and maxima of its rows"})
KILN_GENERATOR(UserProductOfProduct, user_product_of_product, {.summary = "relu(x w) v in one kernel"})
KILN_GENERATOR(UserLogSoftmax, user_log_softmax, {.summary = "log softmax of the rows of a product"})
KILN_GENERATOR(UserComplex, user_complex, {.summary = "a complex product"})
KILN_GENERATOR(UserFourBits, user_four_bits, {.summary = "a product with weights of 4 bits"})
KILN_GENERATOR(UserOuterProduct, user_outer_product, {.summary = "a clamped product and an outer one"})
