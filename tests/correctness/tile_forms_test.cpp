// Algorithms of other forms than the shared programs, from their definitions to final IR, interpreted against Halide:
// the compiler must know none of them.
#include "dsl/tile/build/Build.h"
#include "dsl/tile/interpret/Interpret.h"
#include "dsl/tile/ir/Text.h"
#include "dsl/tile/passes/Verify.h"
#include "tests/correctness/tile_reference.h"

#include <gtest/gtest.h>

namespace kiln::tile {
namespace {

using namespace Halide;

const Var n("n"), m("m"), b("b");
const Type half = BFloat(16);

Expr f32(const Expr &e) {
    return cast<float>(e);
}
Expr bf16(const Expr &e) {
    return cast(BFloat(16), e);
}

TilePlan blocks(int bn, int bm, std::vector<std::string> products = {"acc"}) {
    TilePlan plan;
    plan.kernel = "y";
    plan.blocks = {{"n", "no", bn}, {"m", "mo", bm}};
    plan.grid = {"no", "mo"};
    plan.rows = "m";
    plan.consumers = std::max(1, bm / 64);
    for (const std::string &p : products) {
        plan.products[p] = {};
        plan.split[p]["k"] = 64;
    }
    return plan;
}

/// In every mode of the interpreter; sums of functions of the C library may differ by `ulps`.
void expect_right(Program p, double ulps = 0) {
    Reference reference(p);
    Kernel k = build_kernel(p.plan, p.outputs);
    const DeviceLimits limits = limits_of(kiln::Target::parse("cuda sm_90a"));
    for (const Pass &pass : passes()) {
        pass.run(k, limits);
    }
    for (const Diagnostic &d : verify(k, limits)) {
        ADD_FAILURE() << render(d, "");
    }
    for (const Extents &size : p.sizes) {
        const Memory inputs = reference.data(size);
        const Memory wanted = reference.outputs(inputs, size);
        for (const When when : {When::Early, When::Late}) {
            Memory memory = inputs;
            const Outcome out = interpret(k, memory, {when, when, when, 1, 2});
            ASSERT_EQ(out.fault.empty() ? compare(memory, wanted, ulps) : out.fault, "") << print(k);
        }
    }
}

/// Rows and columns are the same view.
TEST(TileForms, gram_matrix) {
    ImageParam x(half, 2, "x");
    RDom k(0, x.dim(0).extent(), "k");
    Func acc("acc"), y("y");
    acc(n, m) = 0.0f;
    acc(n, m) += f32(x(k, n)) * f32(x(k, m));
    y(n, m) = acc(n, m);
    expect_right({"gram",
                  {y},
                  blocks(64, 64),
                  {x},
                  {{{"x", {72, 131}}, {"y", {131, 131}}}, {{"x", {64, 1}}, {"y", {1, 1}}}}});
}

/// A convolution along m: the outer RVar is a loop around the product.
TEST(TileForms, convolution) {
    ImageParam x(half, 2, "x"), w(half, 3, "w");
    RDom k(0, 64, 0, 3, "k");
    Func acc("acc"), y("y");
    acc(n, m) = 0.0f;
    acc(n, m) += f32(x(k.x, m + k.y)) * f32(w(k.x, n, k.y));
    y(n, m) = acc(n, m);
    TilePlan plan = blocks(64, 64);
    plan.split["acc"] = {{"k.y", 1}};
    expect_right(
        {"convolution", {y}, plan, {x, w}, {{{"x", {64, 102}}, {"w", {64, 70, 3}}, {"y", {70, 100}}}}});
}

/// An activation of the operand, which then lies in registers.
TEST(TileForms, relu_of_an_operand) {
    ImageParam x(half, 2, "x"), w(half, 2, "w");
    RDom k(0, x.dim(0).extent(), "k");
    Func acc("acc"), y("y");
    acc(n, m) = 0.0f;
    acc(n, m) += f32(bf16(max(f32(x(k, m)), 0.0f) + 1.0f)) * f32(w(k, n));
    y(n, m) = acc(n, m);
    TilePlan plan = blocks(64, 128);
    plan.copies["x"] = {};
    expect_right(
        {"relu_operand", {y}, plan, {x, w}, {{{"x", {72, 131}}, {"w", {72, 70}}, {"y", {70, 131}}}}});
}

/// Weights of 8 bits with a zero point and a scale for each 32 of k: two of a tile's rows of scales at once.
TEST(TileForms, zero_points_and_scales_of_groups) {
    ImageParam x(half, 2, "x"), w(Int(8), 2, "w"), scale(Float(32), 2, "scale"), zero(Int(8), 2, "zero");
    RDom k(0, x.dim(0).extent(), "k");
    Func acc("acc"), y("y");
    acc(n, m) = 0.0f;
    acc(n, m) += f32(x(k, m)) * f32(bf16((f32(w(k, n)) - f32(zero(k / 32, n))) * scale(k / 32, n)));
    y(n, m) = acc(n, m);
    TilePlan plan = blocks(128, 64);
    plan.rows = "n";
    plan.consumers = 2;
    plan.copies["w"] = {};
    expect_right(
        {"groups",
         {y},
         plan,
         {x, w, scale, zero},
         {{{"x", {96, 70}}, {"w", {96, 144}}, {"scale", {3, 144}}, {"zero", {3, 144}}, {"y", {144, 70}}}}});
}

/// Scales of rows and columns, a clamp, and the sum before them as a second output of another type.
TEST(TileForms, scales_clamp_and_two_outputs) {
    ImageParam x(half, 2, "x"), w(half, 2, "w"), rows(Float(32), 1, "rows"), columns(half, 1, "columns");
    RDom k(0, x.dim(0).extent(), "k");
    Func acc("acc"), y("y"), raw("raw");
    acc(n, m) = 0.0f;
    acc(n, m) += f32(x(k, m)) * f32(w(n, k));
    y(n, m) = bf16(clamp(acc(n, m) * rows(m) * f32(columns(n)), -6.0f, 6.0f));
    raw(n, m) = acc(n, m);
    expect_right(
        {"scales",
         {y, raw},
         blocks(64, 128),
         {x, w, rows, columns},
         {{{"x", {72, 131}},
           {"w", {72, 72}},
           {"rows", {131}},
           {"columns", {72}},
           {"y", {72, 131}},
           {"raw", {72, 131}}},
          {{"x", {0, 3}}, {"w", {8, 0}}, {"rows", {3}}, {"columns", {8}}, {"y", {8, 3}}, {"raw", {8, 3}}}}});
}

/// Two products in one sum, one of them scaled by columns, started at a third matrix.
TEST(TileForms, sum_of_two_products) {
    ImageParam x(half, 2, "x"), w(half, 2, "w"), u(half, 2, "u"), s(Float(32), 1, "s"),
        start(Float(32), 2, "start");
    RDom k(0, x.dim(0).extent(), "k");
    Func acc("acc"), y("y");
    acc(n, m) = start(n, m);
    acc(n, m) += f32(x(k, m)) * f32(w(k, n)) + s(n) * f32(x(k, m)) * f32(u(k, n));
    y(n, m) = acc(n, m);
    expect_right({"two_products",
                  {y},
                  blocks(64, 128),
                  {x, w, u, s, start},
                  {{{"x", {72, 131}},
                    {"w", {72, 70}},
                    {"u", {72, 70}},
                    {"s", {70}},
                    {"start", {70, 131}},
                    {"y", {70, 131}}}}});
}

/// A batch of rows for one matrix of weights.
TEST(TileForms, batches_share_weights) {
    ImageParam x(half, 3, "x"), w(half, 2, "w");
    RDom k(0, x.dim(0).extent(), "k");
    Func acc("acc"), y("y");
    acc(n, m, b) = 0.0f;
    acc(n, m, b) += f32(x(k, m, b)) * f32(w(k, n));
    y(n, m, b) = bf16(acc(n, m, b));
    TilePlan plan = blocks(64, 64);
    plan.blocks.push_back({"b", "bo", 1});
    plan.grid = {"no", "mo", "bo"};
    expect_right({"batches", {y}, plan, {x, w}, {{{"x", {72, 30, 2}}, {"w", {72, 40}}, {"y", {40, 30, 2}}}}});
}

/// Rows of any length in blocks of 256: three loops over them.
TEST(TileForms, softmax_of_long_rows) {
    ImageParam x(half, 2, "x");
    RDom r(0, x.dim(0).extent(), "r");
    Func top("top"), total("total"), y("y");
    top(m) = Float(32).min();
    top(m) = max(top(m), f32(x(r, m)));
    total(m) = 0.0f;
    total(m) += exp(f32(x(r, m)) - top(m));
    y(n, m) = bf16(exp(f32(x(n, m)) - top(m)) / total(m));
    TilePlan plan = blocks(256, 16, {});
    plan.grid = {"mo"};
    plan.producers = 0;
    plan.consumers = 4;
    plan.split = {{"top", {{"r", 256}}}, {"total", {{"r", 256}}}};
    expect_right({"long_rows", {y}, plan, {x}, {{{"x", {700, 19}}, {"y", {700, 19}}}}}, 4);
}

/// A sum that ends where the block says.
TEST(TileForms, condition_of_the_sum) {
    ImageParam x(half, 2, "x"), w(half, 2, "w");
    RDom k(0, 64, 0, 3, "k");
    k.where(k.y <= m / 64);
    Func acc("acc"), y("y");
    acc(n, m) = 0.0f;
    acc(n, m) += f32(x(k.x + k.y * 64, m)) * f32(w(k.x + k.y * 64, n));
    y(n, m) = acc(n, m);
    TilePlan plan = blocks(64, 64);
    plan.split["acc"] = {{"k.y", 1}};
    expect_right({"triangle", {y}, plan, {x, w}, {{{"x", {192, 190}}, {"w", {192, 64}}, {"y", {64, 190}}}}});
}

/// Two sums in one Tuple over rows that one tile holds.
TEST(TileForms, tuple_of_sums) {
    ImageParam x(Float(32), 2, "x");
    RDom r(0, x.dim(0).extent(), "r");
    Func sums("sums"), y("y");
    sums(m) = Tuple(0.0f, 0.0f);
    sums(m) = Tuple(sums(m)[0] + x(r, m), sums(m)[1] + x(r, m) * x(r, m));
    y(n, m) = x(n, m) * sums(m)[0] - sums(m)[1];
    TilePlan plan = blocks(256, 16, {});
    plan.blocks[0].loop = "";
    plan.grid = {"mo"};
    plan.producers = 0;
    plan.whole["sums"]["r"] = 256;
    expect_right({"tuple",
                  {y},
                  plan,
                  {x},
                  {{{"x", {256, 32}}, {"y", {256, 32}}}, {{"x", {201, 19}}, {"y", {201, 19}}}}});
}

/// A difference of two products by subtraction, minimum over columns after it.
TEST(TileForms, difference_and_minimum) {
    ImageParam x(half, 2, "x"), w(half, 2, "w"), u(half, 2, "u");
    RDom k(0, x.dim(0).extent(), "k"), r(0, w.dim(1).extent(), "r");
    Func acc("acc"), y("y"), low("low");
    acc(n, m) = 0.0f;
    acc(n, m) += f32(x(k, m)) * f32(w(k, n)) - f32(x(k, m)) * f32(u(k, n));
    low(m) = Float(32).max();
    low(m) = min(low(m), acc(r, m));
    y(n, m) = acc(n, m) - low(m);
    TilePlan plan = blocks(64, 64);
    plan.blocks[0].loop = "";
    plan.grid = {"mo"};
    plan.whole["low"]["r"] = 64;
    expect_right({"difference",
                  {y},
                  plan,
                  {x, w, u},
                  {{{"x", {72, 70}}, {"w", {72, 60}}, {"u", {72, 60}}, {"y", {60, 70}}}}});
}

} // namespace
} // namespace kiln::tile
