/** \file
 * Generators for tests of tile kernels in libraries: alone, between loops, with further outputs.
 */
#include "dsl/generator/Generator.h"

#include <Halide.h>

namespace {

using Halide::BFloat;

/// y = x w in bfloat16.
class TileProduct : public Halide::Generator<TileProduct> {
public:
    Input<Buffer<>> x{"x", BFloat(16), 2}; ///< (k, m)
    Input<Buffer<>> w{"w", BFloat(16), 2}; ///< (k, n)
    Output<Buffer<>> y{"y", BFloat(16), 2};
    void generate() {
        Var n{"n"}, m{"m"};
        RDom k(0, x.dim(0).extent(), "k");
        Func acc{"acc"};
        acc(n, m) = 0.0f;
        acc(n, m) += cast<float>(x(k, m)) * cast<float>(w(k, n));
        y(n, m) = cast(BFloat(16), acc(n, m));
    }
};

/// z = scale (2 x) w + 1: a stage of loops before the product and one after it.
class TileBetween : public Halide::Generator<TileBetween> {
public:
    Input<Buffer<float, 2>> x{"x"};        ///< (k, m)
    Input<Buffer<>> w{"w", BFloat(16), 2}; ///< (k, n)
    Input<float> scale{"scale"};
    Output<Buffer<float, 2>> z{"z"};
    void generate() {
        Var n{"n"}, m{"m"}, kk{"kk"};
        RDom k(0, w.dim(0).extent(), "k");
        Func before{"before"}, acc{"acc"}, y{"y"};
        before(kk, m) = cast(BFloat(16), 2.0f * x(kk, m));
        acc(n, m) = 0.0f;
        acc(n, m) += cast<float>(before(k, m)) * cast<float>(w(k, n));
        y(n, m) = scale * acc(n, m);
        z(n, m) = y(n, m) + 1.0f;
    }
};

/// y = x w and the maximum of each of its rows in each block of 128 columns.
class TileTwoOutputs : public Halide::Generator<TileTwoOutputs> {
public:
    Input<Buffer<>> x{"x", BFloat(16), 2}; ///< (k, m)
    Input<Buffer<>> w{"w", BFloat(16), 2}; ///< (k, n)
    Output<Buffer<>> y{"y", BFloat(16), 2};
    Output<Buffer<float, 2>> top{"top"}; ///< (nb, m)
    void generate() {
        Var n{"n"}, m{"m"}, nb{"nb"};
        RDom k(0, x.dim(0).extent(), "k"), j(0, 128, "j");
        Func acc{"acc"};
        acc(n, m) = 0.0f;
        acc(n, m) += cast<float>(x(k, m)) * cast<float>(w(k, n));
        y(n, m) = cast(BFloat(16), acc(n, m));
        top(nb, m) = Float(32).min();
        top(nb, m) = max(top(nb, m), acc(nb * 128 + j, m));
    }
};

/// y = (x w) v, the inner product rounded: two kernels, one after the other.
class TileChain : public Halide::Generator<TileChain> {
public:
    Input<Buffer<>> x{"x", BFloat(16), 2}; ///< (k, m)
    Input<Buffer<>> w{"w", BFloat(16), 2}; ///< (k, j)
    Input<Buffer<>> v{"v", BFloat(16), 2}; ///< (j, n)
    Output<Buffer<>> y{"y", BFloat(16), 2};
    void generate() {
        Var n{"n"}, m{"m"}, j{"j"};
        RDom k(0, x.dim(0).extent(), "k"), r(0, v.dim(0).extent(), "r");
        Func inner{"inner"}, h{"h"}, outer{"outer"};
        inner(j, m) = 0.0f;
        inner(j, m) += cast<float>(x(k, m)) * cast<float>(w(k, j));
        h(j, m) = cast(BFloat(16), inner(j, m));
        outer(n, m) = 0.0f;
        outer(n, m) += cast<float>(h(r, m)) * cast<float>(v(r, n));
        y(n, m) = cast(BFloat(16), outer(n, m));
    }
};

} // namespace

KILN_GENERATOR(TileProduct, tile_product, {.summary = "a matrix product"})
KILN_GENERATOR(TileBetween, tile_between, {.summary = "a matrix product between loops"})
KILN_GENERATOR(TileChain, tile_chain, {.summary = "a product of a product"})
KILN_GENERATOR(TileTwoOutputs, tile_two_outputs, {.summary = "a matrix product and its rows' maxima"})
