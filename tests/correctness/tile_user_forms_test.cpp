// Programs that a user may bring, each for the first time: interpreted against Halide at every mode, or refused with a
// message that says what to do. No pass knows any of them.
#include "dsl/tile/build/Build.h"
#include "dsl/tile/emit/Emit.h"
#include "dsl/tile/interpret/Interpret.h"
#include "dsl/tile/ir/Text.h"
#include "dsl/tile/passes/Runner.h"
#include "dsl/tile/passes/Verify.h"
#include "tests/correctness/tile_reference.h"

#include <gtest/gtest.h>

namespace kiln::tile {
namespace {

using namespace Halide;

const Var n("n"), m("m"), b("b"), nb("nb"), mb("mb");
const Type half = BFloat(16);

Expr f32(const Expr &e) {
    return cast<float>(e);
}
Expr bf16(const Expr &e) {
    return cast(BFloat(16), e);
}

TilePlan blocks(int bn, int bm, const std::vector<std::string> &products = {"acc"}) {
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

/// "" or what came out wrong; a refusal as it is printed.
std::string outcome(Program p, double ulps = 0) {
    try {
        Reference reference(p);
        const DeviceLimits limits = limits_of(kiln::Target::parse("cuda sm_90a"));
        Kernel k = run_passes(build_kernel(p.plan, p.outputs), limits);
        for (const Extents &size : p.sizes) {
            const Memory inputs = reference.data(size);
            const Memory wanted = reference.outputs(inputs, size);
            for (const When when : {When::Early, When::Late}) {
                Memory memory = inputs;
                const Outcome out = interpret(k, memory, {when, when, when, 1, 2});
                const std::string wrong = out.fault.empty() ? compare(memory, wanted, ulps) : out.fault;
                if (!wrong.empty()) {
                    return wrong + "\n" + print(k);
                }
            }
        }
        const EmittedKernel e = emit_cuda(k);
        compile_cubin(e.text, e.name, "sm_90a");
        return "";
    } catch (const kiln::Error &e) {
        return render_all(e.diagnostics, "");
    }
}

struct Product {
    ImageParam x{half, 2, "x"}, w{half, 2, "w"};
    RDom k{0, x.dim(0).extent(), "k"};
    Func acc{"acc"}, y{"y"};
    void plain() {
        acc(n, m) = 0.0f;
        acc(n, m) += f32(x(k, m)) * f32(w(k, n));
    }
};

Extents sizes(int rows, int columns, int depth, Extents more = {}) {
    more["x"] = {depth, rows};
    more["w"] = {depth, columns};
    more["y"] = {columns, rows};
    return more;
}

TEST(TileUserForms, clamped_product_plus_outer_product) {
    Product p;
    ImageParam u(Float(32), 1, "u"), v(half, 1, "v");
    p.plain();
    p.y(n, m) = bf16(clamp(p.acc(n, m), -3.0f, 3.0f) + u(m) * f32(v(n)));
    EXPECT_EQ(outcome({"clamp",
                       {p.y},
                       blocks(64, 128),
                       {p.x, p.w, u, v},
                       {sizes(131, 72, 72, {{"u", {131}}, {"v", {72}}})}}),
              "");
}

TEST(TileUserForms, both_operands_scaled_by_what_the_sum_does_not_run_over) {
    Product p;
    ImageParam u(Float(32), 1, "u"), v(Float(32), 1, "v");
    p.acc(n, m) = 0.0f;
    p.acc(n, m) += (f32(p.x(p.k, m)) * u(m)) * (f32(p.w(p.k, n)) * v(n));
    p.y(n, m) = p.acc(n, m);
    EXPECT_EQ(outcome({"scaled",
                       {p.y},
                       blocks(64, 64),
                       {p.x, p.w, u, v},
                       {sizes(70, 72, 72, {{"u", {70}}, {"v", {72}}})}}),
              "");
}

TEST(TileUserForms, both_operands_computed) {
    Product p;
    ImageParam u(Float(32), 1, "u"), v(Float(32), 1, "v");
    p.acc(n, m) = 0.0f;
    p.acc(n, m) += f32(bf16(f32(p.x(p.k, m)) * u(m))) * f32(bf16(f32(p.w(p.k, n)) * v(n)));
    p.y(n, m) = p.acc(n, m);
    EXPECT_EQ(outcome({"computed",
                       {p.y},
                       blocks(64, 64),
                       {p.x, p.w, u, v},
                       {sizes(70, 72, 72, {{"u", {70}}, {"v", {72}}})}}),
              "error[K1120]: the product in `acc` computes its second operand `acc` on the way: wgmma reads "
              "that one from shared "
              "memory\n"
              "   = help: let the rows be those of the computed operand: `rows` in warpgroups(…)\n"
              "   = help: where both are computed, compute one before the kernel: a Func of its own with "
              "`compute_root()`\n\n"
              "1 error, 0 warnings\n");
}

TEST(TileUserForms, scale_along_the_sum) {
    Product p;
    ImageParam s(Float(32), 1, "s");
    p.acc(n, m) = 0.0f;
    p.acc(n, m) += f32(p.x(p.k, m)) * s(p.k) * f32(p.w(p.k, n));
    p.y(n, m) = p.acc(n, m);
    EXPECT_EQ(outcome({"scale_k", {p.y}, blocks(64, 64), {p.x, p.w, s}, {sizes(70, 72, 72, {{"s", {72}}})}}),
              "error[K1104]: `acc` is to be a product (wgmma), but its update is none: 3 of its factors vary "
              "along `k`, and a "
              "product has two\n"
              "   = help: join factors into one operand and round it: `f32(bf16(a(k, m) * s(k))) * f32(b(k, "
              "n))`\n\n"
              "1 error, 0 warnings\n");
}

TEST(TileUserForms, shared_operand_with_sums_of_two_lengths) {
    Product p;
    ImageParam u(half, 2, "u");
    RDom r(0, u.dim(0).extent(), "k");
    Func more("more");
    p.plain();
    more(n, m) = 0.0f;
    more(n, m) += f32(p.x(r, m)) * f32(u(r, n));
    p.y(n, m) = p.acc(n, m) - more(n, m);
    EXPECT_EQ(outcome({"two_lengths",
                       {p.y},
                       blocks(64, 64, {"acc", "more"}),
                       {p.x, p.w, u},
                       {sizes(70, 72, 200, {{"u", {72, 72}}})}}),
              "");
}

TEST(TileUserForms, residual_of_a_transposed_tensor) {
    Product p;
    ImageParam r(half, 2, "r");
    p.plain();
    p.y(n, m) = bf16(p.acc(n, m) + f32(r(m, n)));
    EXPECT_EQ(
        outcome({"transposed", {p.y}, blocks(64, 64), {p.x, p.w, r}, {sizes(70, 72, 72, {{"r", {70, 72}}})}}),
        "");
}

TEST(TileUserForms, column_sums_of_a_product) {
    Product p;
    Func sums("sums");
    RDom r(0, 128, "r");
    p.plain();
    p.y(n, m) = bf16(p.acc(n, m));
    sums(n, mb) = 0.0f;
    sums(n, mb) += p.acc(n, mb * 128 + r);
    TilePlan plan = blocks(64, 128);
    plan.blocks.push_back({"mb", "mo", 1});
    EXPECT_EQ(outcome({"columns", {p.y, sums}, plan, {p.x, p.w}, {sizes(256, 72, 72, {{"sums", {72, 2}}})}}),
              "");
}

TEST(TileUserForms, log_softmax_of_the_rows_of_a_product) {
    Product p;
    RDom r(0, p.w.dim(1).extent(), "r");
    Func top("top"), total("total");
    p.plain();
    top(m) = Float(32).min();
    top(m) = max(top(m), p.acc(r, m));
    total(m) = 0.0f;
    total(m) += exp(p.acc(r, m) - top(m));
    p.y(n, m) = p.acc(n, m) - top(m) - log(total(m));
    TilePlan plan = blocks(128, 64);
    plan.blocks[0].loop = "";
    plan.grid = {"mo"};
    plan.whole = {{"top", {{"r", 128}}}, {"total", {{"r", 128}}}};
    EXPECT_EQ(outcome({"log_softmax", {p.y}, plan, {p.x, p.w}, {sizes(70, 100, 72)}}, 64), "");
}

TEST(TileUserForms, weights_of_four_bits_two_in_a_byte) {
    ImageParam x(half, 2, "x"), w(UInt(8), 2, "w"), scale(Float(32), 1, "scale");
    RDom k(0, x.dim(0).extent(), "k");
    Func acc("acc"), y("y");
    Expr nibble = cast<int>(w(k / 2, n) >> cast<uint8_t>(4 * (k % 2)) & cast<uint8_t>(15)) - 8;
    acc(n, m) = 0.0f;
    acc(n, m) += f32(x(k, m)) * f32(bf16(cast<float>(nibble)));
    y(n, m) = acc(n, m) * scale(n);
    TilePlan plan = blocks(64, 64);
    plan.rows = "n";
    EXPECT_EQ(outcome({"int4",
                       {y},
                       plan,
                       {x, w, scale},
                       {{{"x", {128, 70}}, {"w", {64, 72}}, {"scale", {72}}, {"y", {72, 70}}}}}),
              "");
}

TEST(TileUserForms, complex_product_as_a_tuple) {
    ImageParam xr(half, 2, "xr"), xi(half, 2, "xi"), wr(half, 2, "wr"), wi(half, 2, "wi");
    RDom k(0, xr.dim(0).extent(), "k");
    Func acc("acc"), y("y"), z("z");
    acc(n, m) = Tuple(0.0f, 0.0f);
    acc(n, m) = Tuple(acc(n, m)[0] + f32(xr(k, m)) * f32(wr(k, n)) - f32(xi(k, m)) * f32(wi(k, n)),
                      acc(n, m)[1] + f32(xr(k, m)) * f32(wi(k, n)) + f32(xi(k, m)) * f32(wr(k, n)));
    y(n, m) = acc(n, m)[0];
    z(n, m) = acc(n, m)[1];
    EXPECT_EQ(outcome({"complex",
                       {y, z},
                       blocks(64, 64),
                       {xr, xi, wr, wi},
                       {{{"xr", {72, 70}},
                         {"xi", {72, 70}},
                         {"wr", {72, 72}},
                         {"wi", {72, 72}},
                         {"y", {72, 70}},
                         {"z", {72, 70}}}}}),
              "");
}

TEST(TileUserForms, max_plus_product) {
    ImageParam x(Float(32), 2, "x"), w(Float(32), 2, "w");
    RDom k(0, x.dim(0).extent(), "k");
    Func acc("acc"), y("y");
    acc(n, m) = Float(32).min();
    acc(n, m) = max(acc(n, m), x(k, m) + w(k, n));
    y(n, m) = acc(n, m);
    TilePlan plan = blocks(64, 64, {});
    plan.split["acc"]["k"] = 32;
    plan.producers = 0;
    EXPECT_EQ(
        outcome({"max_plus", {y}, plan, {x, w}, {sizes(70, 72, 40)}}),
        "error[K1141]: `acc` takes the max over `k` of values that vary along `m` and `n` too: inside a tile "
        "only a sum of "
        "products of two operands does so\n"
        "   = help: split its RVar by 1: then `acc` is carried from iteration to iteration\n"
        "   = help: or give all but one of these dimensions a block size of 1\n\n1 error, 0 warnings\n");
    plan.split["acc"]["k"] = 1;
    EXPECT_EQ(outcome({"max_plus", {y}, plan, {x, w}, {sizes(70, 72, 40)}}), "");
}

TEST(TileUserForms, triangular_operand) {
    Product p;
    p.acc(n, m) = 0.0f;
    p.acc(n, m) += f32(select(p.k <= m, p.x(p.k, m), cast(half, 0.0f))) * f32(p.w(p.k, n));
    p.y(n, m) = p.acc(n, m);
    TilePlan plan = blocks(64, 64);
    plan.copies["x"] = {};
    EXPECT_EQ(outcome({"triangle", {p.y}, plan, {p.x, p.w}, {sizes(130, 72, 130)}}), "");
}

TEST(TileUserForms, condition_on_the_sum_inside_a_tile) {
    Product p;
    RDom r(0, p.x.dim(0).extent(), "k");
    r.where(r <= m);
    p.acc(n, m) = 0.0f;
    p.acc(n, m) += f32(p.x(r, m)) * f32(p.w(r, n));
    p.y(n, m) = p.acc(n, m);
    EXPECT_EQ(outcome({"where", {p.y}, blocks(64, 64), {p.x, p.w}, {sizes(130, 72, 130)}}),
              "error[K1104]: `acc` is to be a product (wgmma), but its update is none: its RDom has a "
              "condition on `k`\n"
              "   = help: choose in an operand instead: `select(condition, a(k, m), 0) * b(k, n)`\n\n1 "
              "error, 0 warnings\n");
}

TEST(TileUserForms, sum_of_two_tensors_as_an_operand) {
    Product p;
    ImageParam u(half, 2, "u");
    p.acc(n, m) = 0.0f;
    p.acc(n, m) += f32(bf16(f32(p.x(p.k, m)) + f32(u(p.k, m)))) * f32(p.w(p.k, n));
    p.y(n, m) = p.acc(n, m);
    TilePlan plan = blocks(64, 64);
    plan.copies["x"] = plan.copies["u"] = {};
    EXPECT_EQ(outcome({"sum_operand", {p.y}, plan, {p.x, p.w, u}, {sizes(70, 72, 72, {{"u", {72, 70}}})}}),
              "");
}

TEST(TileUserForms, product_plus_its_own_transpose) {
    Product p;
    p.plain();
    p.y(n, m) = p.acc(n, m) + p.acc(m, n);
    EXPECT_EQ(outcome({"symmetric", {p.y}, blocks(64, 64), {p.x, p.w}, {sizes(72, 72, 72)}}), "");
}

TEST(TileUserForms, product_of_bytes) {
    ImageParam x(Int(8), 2, "x"), w(Int(8), 2, "w");
    RDom k(0, x.dim(0).extent(), "k");
    Func acc("acc"), y("y");
    acc(n, m) = 0;
    acc(n, m) += cast<int>(x(k, m)) * cast<int>(w(k, n));
    y(n, m) = acc(n, m);
    EXPECT_EQ(
        outcome({"bytes", {y}, blocks(64, 64), {x, w}, {sizes(70, 72, 80)}}),
        "error[K1117]: the product in `acc` reads `x` of type i8: wgmma here takes bfloat16 and float16\n"
        "   = help: mma(fma) multiplies it, in int32\n\n1 error, 0 warnings\n");
    TilePlan plan = blocks(64, 64);
    plan.products["acc"].kind = MmaKind::Fma;
    EXPECT_EQ(outcome({"bytes", {y}, plan, {x, w}, {sizes(70, 72, 80)}}), "");
}

TEST(TileUserForms, convolution_of_an_image) {
    ImageParam x(half, 3, "x"), w(half, 3, "w");
    RDom r(0, 64, 0, 3, 0, 3, "r");
    Func acc("acc"), y("y");
    acc(n, m, b) = 0.0f;
    acc(n, m, b) += f32(x(r.x, m + r.y, b + r.z)) * f32(w(r.x, n, r.y + 3 * r.z));
    y(n, m, b) = bf16(max(acc(n, m, b), 0.0f));
    TilePlan plan = blocks(64, 64, {});
    plan.products["acc"] = {};
    plan.blocks.push_back({"b", "bo", 1});
    plan.grid = {"no", "mo", "bo"};
    plan.split["acc"] = {{"r.y", 1}, {"r.z", 1}};
    EXPECT_EQ(
        outcome(
            {"conv2d", {y}, plan, {x, w}, {{{"x", {64, 42, 5}}, {"w", {64, 72, 9}}, {"y", {72, 40, 3}}}}}),
        "");
}

TEST(TileUserForms, bias_by_distance) {
    Product p;
    ImageParam bias(Float(32), 1, "bias");
    p.plain();
    p.y(n, m) = p.acc(n, m) + bias(clamp(n - m + 70, 0, bias.dim(0).extent() - 1));
    EXPECT_EQ(
        outcome(
            {"distance", {p.y}, blocks(64, 64), {p.x, p.w, bias}, {sizes(70, 72, 72, {{"bias", {150}}})}}),
        "");
}

TEST(TileUserForms, largest_of_the_rows_of_a_product_and_where) {
    Product p;
    RDom r(0, p.w.dim(1).extent(), "r");
    Func best("best");
    Var i("m");
    p.plain();
    best(m) = Tuple(Float(32).min(), 0);
    best(m) = Tuple(max(best(m)[0], p.acc(r, m)), select(p.acc(r, m) > best(m)[0], r, best(m)[1]));
    Func y("y");
    y(m) = best(m)[1];
    TilePlan plan = blocks(128, 64);
    plan.blocks = {{"m", "mo", 64}};
    plan.grid = {"mo"};
    plan.whole = {{"best", {{"r", 128}}}};
    EXPECT_EQ(outcome({"argmax", {y}, plan, {p.x, p.w}, {{{"x", {72, 70}}, {"w", {72, 100}}, {"y", {70}}}}}),
              "error[K1106]: `r` of `best` runs inside a tile, and the update is no sum, product, maximum or "
              "minimum over it\n"
              "   = help: split `r` by 1: then `best` is carried from iteration to iteration\n\n1 error, 0 "
              "warnings\n");
}

TEST(TileUserForms, weights_chosen_for_each_block) {
    ImageParam x(half, 3, "x"), w(half, 3, "w"), expert(Int(32), 1, "expert");
    RDom k(0, x.dim(0).extent(), "k");
    Func acc("acc"), y("y");
    acc(n, m, b) = 0.0f;
    acc(n, m, b) += f32(x(k, m, b)) * f32(w(k, n, clamp(expert(b), 0, w.dim(2).extent() - 1)));
    y(n, m, b) = bf16(acc(n, m, b));
    TilePlan plan = blocks(64, 64);
    plan.blocks.push_back({"b", "bo", 1});
    plan.grid = {"no", "mo", "bo"};
    EXPECT_EQ(outcome({"experts",
                       {y},
                       plan,
                       {x, w, expert},
                       {{{"x", {72, 30, 3}}, {"w", {72, 40, 2}}, {"expert", {3}}, {"y", {40, 30, 3}}}}}),
              "");
}

TEST(TileUserForms, rows_of_a_product_normalized) {
    Product p;
    RDom r(0, p.w.dim(1).extent(), "r");
    ImageParam gamma(half, 1, "gamma");
    Func square("square");
    p.plain();
    square(m) = 0.0f;
    square(m) += p.acc(r, m) * p.acc(r, m);
    p.y(n, m) = bf16(p.acc(n, m) / sqrt(square(m) / f32(p.w.dim(1).extent()) + 1e-5f) * f32(gamma(n)));
    TilePlan plan = blocks(128, 64);
    plan.blocks[0].loop = "";
    plan.grid = {"mo"};
    plan.whole = {{"square", {{"r", 128}}}};
    EXPECT_EQ(
        outcome({"normalized", {p.y}, plan, {p.x, p.w, gamma}, {sizes(70, 104, 72, {{"gamma", {104}}})}}, 2),
        "");
}

} // namespace
} // namespace kiln::tile
