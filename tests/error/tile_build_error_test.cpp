// What no tile kernel can be made of: every refusal of dsl/tile/build with its whole message.
#include "dsl/schedule/Canonical.h"
#include "dsl/schedule/CheckSchedule.h"
#include "dsl/schedule/Parser.h"
#include "dsl/schedule/apply/Describe.h"
#include "dsl/tile/build/Build.h"
#include "dsl/tile/build/ReadPlan.h"
#include "dsl/tile/passes/Runner.h"

#include <gtest/gtest.h>

namespace kiln::tile {
namespace {

using namespace Halide;

const Var n("n"), m("m");

Expr f32(const Expr &e) {
    return cast<float>(e);
}

/// y(n, m) in blocks of 64 x 128.
TilePlan plan() {
    TilePlan p;
    p.kernel = "y";
    p.blocks = {{"n", "no", 64}, {"m", "mo", 128}};
    p.grid = {"no", "mo"};
    p.rows = "m";
    return p;
}

/// The message without the span, which plans written by hand have not.
std::string refusal(const std::function<void()> &act) {
    try {
        act();
    } catch (const kiln::Error &e) {
        return render_all(e.diagnostics, "");
    }
    return "no refusal";
}

std::string built(const TilePlan &p, const std::vector<Func> &outputs) {
    return refusal([&] { build_kernel(p, outputs); });
}

struct Product {
    ImageParam x{BFloat(16), 2, "x"}, w{BFloat(16), 2, "w"};
    RDom k{0, 64, "k"};
    Func acc{"acc"}, y{"y"};
    Product() { acc(n, m) = 0.0f; }
    void finish() { y(n, m) = acc(n, m); }
};

TEST(TileBuildError, a_var_without_a_block) {
    Product p;
    p.acc(n, m) += f32(p.x(p.k, m)) * f32(p.w(p.k, n));
    p.finish();
    TilePlan lacks = plan();
    lacks.blocks.pop_back();
    EXPECT_EQ(
        built(lacks, {p.y}),
        "error[K1101]: `y` is an output of the tile kernel `y`, and no block size is given for its `m`\n"
        "   = help: split `m` of `y` by a constant and make the outer loop a gpu_block, or give its whole "
        "extent: `y.whole(m, n)`\n"
        "\n"
        "1 error, 0 warnings\n");
}

TEST(TileBuildError, a_staged_view_at_another_index) {
    Product p;
    p.acc(n, m) += f32(p.x(2 * p.k, m)) * f32(p.w(p.k, n));
    p.finish();
    TilePlan staged = plan();
    staged.copies["x"] = {};
    EXPECT_EQ(built(staged, {p.y}),

              "error[K1102]: `x` is to be staged in shared memory, and is read at an index that is not a "
              "base plus one coordinate: x[%k*2, mo*128 + %m]\n"
              "   = help: leave out the copy of `x`: then the read stays where its value is used\n"
              "\n"
              "1 error, 0 warnings\n");
}

TEST(TileBuildError, a_tile_at_another_index) {
    Func wide("wide"), y("y");
    ImageParam x(Float(32), 2, "x");
    wide(n, m) = x(n, m) + 1.0f;
    y(n, m) = wide(2 * n, m);
    TilePlan kept = plan();
    kept.tiles = {"wide"};
    EXPECT_EQ(built(kept, {y}), "error[K1103]: `wide` is a tile, and is read at an index that is not a base "
                                "plus one coordinate: `n` = (no*64 + %n)*2\n"
                                "   = help: inline `wide`\n"
                                "\n"
                                "1 error, 0 warnings\n");
    Func diagonal("y");
    diagonal(n, m) = wide(m, m);
    EXPECT_EQ(built(kept, {diagonal}),
              "error[K1103]: `wide` is a tile, and two of its dimensions run along one axis\n"
              "\n"
              "1 error, 0 warnings\n");
}

TEST(TileBuildError, no_product) {
    Product p;
    p.acc(n, m) = max(p.acc(n, m), f32(p.x(p.k, m)) * f32(p.w(p.k, n)));
    p.finish();
    TilePlan wanted = plan();
    wanted.products["acc"] = {};
    EXPECT_EQ(built(wanted, {p.y}),
              "error[K1104]: `acc` is to be a product (wgmma), but its update is none: it is a max\n"
              "   = help: leave out `mma` of `acc`, or write it as a sum of a(k, m) * b(k, n)\n"
              "\n"
              "1 error, 0 warnings\n");
    Product three;
    three.acc(n, m) += f32(three.x(three.k, m)) * f32(three.w(three.k, n)) * f32(three.x(three.k, n));
    three.finish();
    EXPECT_EQ(
        built(wanted, {three.y}),
        "error[K1104]: `acc` is to be a product (wgmma), but its update is none: 3 of its factors vary "
        "along `k`, and a product has two\n"
        "   = help: join factors into one operand and round it: `f32(bf16(a(k, m) * s(k))) * f32(b(k, n))`\n"
        "\n"
        "1 error, 0 warnings\n");
    Product split;
    split.acc(n, m) += f32(split.x(split.k, m)) * f32(split.w(split.k, n));
    split.finish();
    wanted.split["acc"]["k"] = 1;
    EXPECT_EQ(built(wanted, {split.y}),
              "error[K1104]: `acc` is to be a product (wgmma), but its update is none: its RVar is split by "
              "1, so that no sum is left inside a tile\n"
              "   = help: leave out `mma` of `acc`, or write it as a sum of a(k, m) * b(k, n)\n"
              "\n"
              "1 error, 0 warnings\n");
}

TEST(TileBuildError, operands_of_other_types) {
    Product p;
    p.acc(n, m) += f32(p.x(p.k, m)) * (f32(p.w(p.k, n)) + 1.0f);
    p.finish();
    TilePlan wanted = plan();
    wanted.products["acc"] = {};
    EXPECT_EQ(built(wanted, {p.y}),
              "error[K1105]: `acc` is to be a product by wgmma, which multiplies 16-bit floats of one type "
              "or 8-bit integers; its operands are bf16 and f32\n"
              "   = help: round both operands: `f32(cast<bfloat16_t>(e))`, or to TF32: `mma(wgmma, tf32)`\n"
              "   = help: multiply in float32: `acc.mma(fma)`\n"
              "\n"
              "1 error, 0 warnings\n");
}

TEST(TileBuildError, an_update_of_another_form) {
    Product p;
    p.acc(n, m) = p.acc(n, m) * 0.5f + f32(p.x(p.k, m));
    p.finish();
    EXPECT_EQ(built(plan(), {p.y}),

              "error[K1106]: `k` of `acc` runs inside a tile, and the update is no sum, product, maximum or "
              "minimum over it\n"
              "   = help: split `k` by 1: then `acc` is carried from iteration to iteration\n"
              "\n"
              "1 error, 0 warnings\n");
    Product elsewhere;
    elsewhere.acc(elsewhere.k, m) += f32(elsewhere.x(elsewhere.k, m));
    elsewhere.finish();
    EXPECT_EQ(built(plan(), {elsewhere.y}), "error[K1106]: update 0 of `acc` writes at other coordinates "
                                            "than its Vars, which a tile kernel cannot do\n"
                                            "   = help: compute it before the kernel: `acc.compute_root()`\n"
                                            "\n"
                                            "1 error, 0 warnings\n");
}

TEST(TileBuildError, an_extern_stage_inside) {
    Func outside("outside"), y("y");
    outside.define_extern("some_function", {}, Float(32), 2);
    y(n, m) = outside(n, m);
    EXPECT_EQ(built(plan(), {y}),
              "error[K1107]: `outside` is an extern stage and cannot be computed inside the tile kernel `y`\n"
              "   = help: compute it before: `outside.compute_root()`\n"
              "\n"
              "1 error, 0 warnings\n");
}

TEST(TileBuildError, extents_that_do_not_fit) {
    Product p;
    p.acc(n, m) += f32(p.x(p.k, m)) * f32(p.w(p.k, n));
    p.finish();
    TilePlan small = plan();
    small.whole["acc"]["k"] = 32;
    EXPECT_EQ(built(small, {p.y}),
              "error[K1108]: `k` of `acc` has 64 iterations, and its tile is to span all of them with 32\n"
              "\n"
              "1 error, 0 warnings\n");
    TilePlan rows = plan();
    rows.rows = "z";
    EXPECT_EQ(built(rows, {p.y}), "error[K1108]: the rows of the tile kernel `y` are to be dealt along `z`, "
                                  "which is no Var of an output and no RVar inside a tile\n"
                                  "\n"
                                  "1 error, 0 warnings\n");
}

/// What only a schedule can say.
std::string read(const std::string &statements, const std::vector<Func> &outputs) {
    const std::string text = "schedule s {\n" + statements + "}\n";
    const ParseResult parsed = parse_schedules(text, "s.sched");
    const PipelineInfo info = describe_pipeline(outputs, "");
    const kiln::Target target = kiln::Target::parse("cuda sm_90a");
    const ScheduleAnalysis a =
        analyse_schedule(canonical(parsed.schedules.at(0)), info, target, limits_of(target));
    EXPECT_TRUE(a.diagnostics.empty()) << render_all(a.diagnostics, text);
    return refusal([&] {
        for (const TileGroup &g : tile_groups(a.nest)) {
            read_plan(g);
        }
    });
}

TEST(TileBuildError, a_sum_split_twice) {
    Product p;
    p.acc(n, m) += f32(p.x(p.k, m)) * f32(p.w(p.k, n));
    p.finish();
    EXPECT_EQ(read("  y.tile(n, m, no, mo, ni, mi, 64, 128).gpu_blocks(no, mo).tile_kernel();\n"
                   "  acc.compute_at(y, no).store_in(Register);\n"
                   "  acc.update().split(k, ko, ki, 32).split(ki, kj, kl, 16).mma(wgmma);\n",
                   {p.y}),

              "error[K1130]: `k` of `acc.update()` is split twice or fused\n"
              " --> <schedule>:4:16\n"
              "  = help: split it once: the inner loop is the tile, the outer one runs around it\n"
              "\n"
              "1 error, 0 warnings\n");
}

TEST(TileBuildError, one_input_staged_in_two_ways) {
    ImageParam x(BFloat(16), 2, "x"), w(BFloat(16), 2, "w");
    RDom k(0, 64, "k");
    Func gate("gate"), up("up"), y("y");
    gate(n, m) = 0.0f;
    gate(n, m) += f32(x(k, m)) * f32(w(k, n));
    up(n, m) = 0.0f;
    up(n, m) += f32(x(k, m)) * f32(w(n, k));
    y(n, m) = gate(n, m) * up(n, m);
    EXPECT_EQ(read("  y.tile(n, m, no, mo, ni, mi, 64, 128).gpu_blocks(no, mo).tile_kernel();\n"
                   "  gate.compute_at(y, no).store_in(Register);\n"
                   "  up.compute_at(y, no).store_in(Register);\n"
                   "  x.in(gate).compute_at(gate, n).store_in(GPUShared).copy(tma).swizzle(64);\n"
                   "  x.in(up).compute_at(up, n).store_in(GPUShared).copy(tma);\n",
                   {y}),

              "error[K1131]: `x` is staged in two ways in the tile kernel `y`\n"
              " --> <schedule>:5:54\n"
              "  = help: give one wrapper for all its readers: `x.in({a, b})`\n"
              "\n"
              "1 error, 0 warnings\n");
}

TEST(TileBuildError, outputs_of_unlike_blocks) {
    ImageParam x(Float(32), 2, "x");
    Func y("y"), z("z");
    y(n, m) = x(n, m) + 1.0f;
    z(n, m) = x(n, m) + 2.0f;
    EXPECT_EQ(read("  y.tile(n, m, no, mo, ni, mi, 64, 128).gpu_blocks(no, mo).tile_kernel();\n"
                   "  z.tile(n, m, no, mo, ni, mi, 64, 64).gpu_blocks(no, mo).tile_kernel(y);\n",
                   {y, z}),

              "error[K1101]: `m` of `z` runs over blocks of 64 by `mo`, and that of another output by blocks "
              "of 128 by `mo`\n"
              " --> <schedule>:3:5\n"
              "  = help: split both alike, and give the loops the same names\n"
              "\n"
              "1 error, 0 warnings\n");
}

/// The same after all passes, in clusters, with multicast copies of x and w.
std::string in_clusters(TilePlan p, int x, int y, const std::vector<Func> &outputs) {
    p.cluster_x = x;
    p.cluster_y = y;
    for (const char *view : {"x", "w"}) {
        p.copies[view].multicast = true;
        p.copies[view].stages = 2;
    }
    return refusal([&] { run_passes(build_kernel(p, outputs), limits_of(Target::parse("cuda sm_90a"))); });
}

TEST(TileBuildError, a_copy_that_no_two_blocks_share) {
    Product p;
    p.acc(n, m) += f32(p.x(p.k, m)) * f32(p.w(p.k, n));
    p.finish();
    EXPECT_EQ(
        in_clusters(plan(), 2, 1, {p.y}),
        "error[K1125]: each block of cluster(2, 1) reads another part of `w`: nothing comes for several\n"
        "   = help: leave out the multicast of `w`, or let the cluster run along a block loop that it does "
        "not "
        "depend on\n"
        "\n"
        "1 error, 0 warnings\n");
}

TEST(TileBuildError, rows_that_a_cluster_does_not_divide) {
    Product p;
    p.acc(n, m) += f32(p.x(p.k, m)) * f32(p.w(p.k, n));
    p.finish();
    TilePlan odd = plan();
    odd.blocks[0].size = 40;
    EXPECT_EQ(in_clusters(odd, 2, 3, {p.y}),
              "error[K1126]: 3 blocks of cluster(2, 3) read the same 40 rows of `w`, and each is to load an "
              "equal part "
              "of them\n"
              "   = help: take a tile with a multiple of 3 rows, or a smaller cluster\n"
              "\n"
              "1 error, 0 warnings\n");
}

TEST(TileBuildError, blocks_of_a_cluster_with_unequal_sums) {
    Product p;
    p.acc(n, m) += f32(p.x(p.k, m)) * f32(p.w(p.k, n));
    p.finish();
    TilePlan uneven = plan();
    uneven.split["acc"]["k"] = 32;
    uneven.cluster_y = 2;
    uneven.copies["w"].multicast = true;
    Kernel k = build_kernel(uneven, {p.y});
    walk(k.body, [](Stmt &s) {
        if (For *f = s.as<For>()) {
            f->hi = Internal::Variable::make(Int(32), "mo"); // more of the sum for later rows
        }
    });
    EXPECT_EQ(refusal([&] { plan_cluster(k); }),
              "error[K1127]: `w` cannot come for several blocks of cluster(1, 2) at once: how often `ko` "
              "runs depends on "
              "`mo`\n"
              "   = help: leave out the multicast: each block loads for itself\n"
              "\n"
              "1 error, 0 warnings\n");
}

TEST(TileBuildError, a_cluster_along_a_loop_that_is_not) {
    Product p;
    p.acc(n, m) += f32(p.x(p.k, m)) * f32(p.w(p.k, n));
    p.finish();
    TilePlan one = plan();
    one.blocks[0] = {"n", "", 64};
    one.grid = {"mo"};
    EXPECT_EQ(in_clusters(one, 1, 2, {p.y}),
              "error[K1128]: cluster(1, 2) runs along two block loops, and `y` has 1\n"
              "   = help: write `cluster(2)`\n"
              "\n"
              "1 error, 0 warnings\n");
}

TEST(TileBuildError, a_tf32_operand_that_lies_across_the_sum) {
    ImageParam x{Float(32), 2, "x"}, w{Float(32), 2, "w"};
    RDom k{0, 64, "k"};
    Func acc{"acc"}, y{"y"};
    acc(n, m) = 0.0f;
    acc(n, m) += x(k, m) * w(n, k);
    y(n, m) = acc(n, m);
    TilePlan p = plan();
    p.products["acc"].tf32 = true;
    p.copies["x"].stages = p.copies["w"].stages = 2;
    EXPECT_EQ(
        refusal([&] { run_passes(build_kernel(p, {y}), limits_of(Target::parse("cuda sm_90a"))); }),
        "error[K1140]: the product in `acc` reads `w`, whose neighbours in memory run along `n`: wgmma reads "
        "TF32 operands with neighbours along the sum `k` only\n"
        "   = help: transpose it before the kernel: a Func `t(k, n) = w(n, k)` with `t.compute_root()`\n"
        "   = help: or take `mma(fma)`, which reads either\n"
        "\n"
        "1 error, 0 warnings\n");
}

} // namespace
} // namespace kiln::tile
