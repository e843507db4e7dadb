// build and the passes before layouts: what they make of each program, and properties that hold for all.
#include "dsl/tile/build/Build.h"
#include "dsl/tile/ir/Text.h"
#include "dsl/tile/passes/Passes.h"
#include "tests/correctness/tile_programs.h"
#include "tests/support/golden.h"

#include <gtest/gtest.h>

namespace kiln::tile {
namespace {

/// Conditions, body and remarks: the rest of the text is the plan and the views.
std::string statements(const Kernel &k) {
    const std::string text = print(k);
    std::string out;
    for (size_t at = 0; (at = text.find("  condition ", at)) != std::string::npos;) {
        const size_t end = text.find('\n', at);
        out += text.substr(at + 2, end - at - 1);
        at = end;
    }
    return out + text.substr(text.find("  body {") + 2);
}

void rewrite(Kernel &k) {
    hoist_invariant(k);
    fuse_loops(k);
    clean_up(k);
    fold_starts(k);
    clean_up(k);
    guard_edges(k);
}

class TileBuild : public testing::TestWithParam<Program> {};

TEST_P(TileBuild, says_what_the_definitions_say) {
    const Program &p = GetParam();
    Kernel k = build_kernel(p.plan, p.outputs);
    std::string text = "after build\n" + statements(k);
    EXPECT_EQ(print(parse_kernel(print(k))), print(k));
    rewrite(k);
    EXPECT_EQ(print(parse_kernel(print(k))), print(k));
    text += "before plan_layouts\n" + statements(k);
    test::expect_golden(
        std::filesystem::path(KILN_SOURCE_DIR) / "tests/golden/tile_build" / (p.name + ".txt"), text);
}

/// Each tile is defined once and before it is read; its axes are known; regions have the rank of their view.
TEST_P(TileBuild, is_well_formed) {
    const Program &p = GetParam();
    Kernel k = build_kernel(p.plan, p.outputs);
    for (const bool rewritten : {false, true}) {
        if (rewritten) {
            rewrite(k);
        }
        std::set<std::string> defined;
        const std::function<void(const Body &)> look = [&](const Body &body) {
            for (const Stmt &s : body) {
                const For *f = s.as<For>();
                if (f) {
                    for (const Carry &c : f->carry) {
                        EXPECT_TRUE(defined.insert(c.name).second) << c.name;
                    }
                    look(f->body);
                    continue;
                }
                for (const std::string &t : reads(k, s)) {
                    EXPECT_TRUE(defined.count(t)) << t << " is read before it is defined";
                }
                if (const std::string d = defines(s); !d.empty()) {
                    EXPECT_TRUE(defined.insert(d).second) << d;
                    for (const std::string &a : k.tile(d).axes) {
                        EXPECT_TRUE(k.axes.count(a)) << a;
                    }
                }
                for (const Region *r : {s.as<Copy>() ? &s.as<Copy>()->from : nullptr,
                                        s.as<Store>() ? &s.as<Store>()->to : nullptr}) {
                    if (r) {
                        ASSERT_NE(k.view(r->view), nullptr) << r->view;
                        EXPECT_EQ(int(r->dims.size()), k.view(r->view)->rank);
                    }
                }
            }
        };
        look(k.body);
        EXPECT_EQ(defined.size(), k.tiles.size());
    }
}

INSTANTIATE_TEST_SUITE_P(Programs, TileBuild, testing::ValuesIn(tile_programs()),
                         [](const auto &info) { return info.param.name; });

// ---- what no program above has

using namespace Halide;

Expr f32(const Expr &e) {
    return cast<float>(e);
}

TilePlan blocks(std::vector<BlockDim> dims, std::vector<std::string> grid) {
    TilePlan plan;
    plan.kernel = "y";
    plan.blocks = std::move(dims);
    plan.grid = std::move(grid);
    plan.rows = "m";
    return plan;
}

std::string built(const TilePlan &plan, const std::vector<Func> &outputs) {
    Kernel k = build_kernel(plan, outputs);
    rewrite(k);
    return statements(k);
}

/// x·xᵀ: rows and columns are the same views and Vars of the same range, and stay two axes.
TEST(TileBuildForms, gram_matrix) {
    ImageParam x(BFloat(16), 2, "x");
    Var n("n"), m("m");
    RDom k(0, 64, "k");
    Func acc("acc"), y("y");
    acc(n, m) = 0.0f;
    acc(n, m) += f32(x(k, n)) * f32(x(k, m));
    y(n, m) = acc(n, m);
    EXPECT_EQ(built(blocks({{"n", "", 64}, {"m", "", 64}}, {}), {y}),
              "condition y.extent.0 <= 64\n"
              "condition y.extent.1 <= 64\n"
              "body {\n"
              "    xs: bf16[m:64, k:64] of x = copy x[0 + %k, 0 + %m]\n"
              "    xs1: bf16[n:64, k:64] of x = copy x[0 + %k, 0 + %n]\n"
              "    acc: f32[n:64, m:64] = mma(0, xs, xs1; k)\n"
              "    store y[0 + %n, 0 + %m] = acc  // y\n"
              "  }\n"
              "}\n");
}

/// Two RVars: the inner one inside the tile, the outer one a loop around it (a convolution of one dimension).
TEST(TileBuildForms, two_rvars) {
    ImageParam x(BFloat(16), 2, "x"), w(BFloat(16), 3, "w");
    Var n("n"), m("m");
    RDom k(0, 64, 0, 3, "k");
    Func acc("acc"), y("y");
    acc(n, m) = 0.0f;
    acc(n, m) += f32(x(k.x, m + k.y)) * f32(w(k.x, n, k.y));
    y(n, m) = acc(n, m);
    TilePlan plan = blocks({{"n", "no", 64}, {"m", "mo", 128}}, {"no", "mo"});
    plan.split["acc"]["k.y"] = 1;
    EXPECT_EQ(built(plan, {y}),
              "body {\n"
              "    for k_yo in 0 .. 3 carry acc: f32[n:64, m:128] = 0.0 then acc_next {  // acc\n"
              "      xs: bf16[m:128, k_x:64] of x = copy x[0 + %k_x, mo*128 + k_yo + %m]\n"
              "      ws: bf16[n:64, k_x:64] of w = copy w[0 + %k_x, no*64 + %n, k_yo]\n"
              "      acc_next: f32[n:64, m:128] of acc = mma(acc, xs, ws; k_x)\n"
              "    }\n"
              "    store y[no*64 + %n, mo*128 + %m] = acc  // y\n"
              "  }\n"
              "}\n");
}

/// Two products in one sum, a start that is no zero, and a factor that leaves the sum.
TEST(TileBuildForms, sum_of_two_products) {
    ImageParam x(BFloat(16), 2, "x"), w(BFloat(16), 2, "w"), u(BFloat(16), 2, "u"), s(Float(32), 1, "s"),
        c(Float(32), 2, "c");
    Var n("n"), m("m");
    RDom k(0, 64, "k");
    Func acc("acc"), y("y");
    acc(n, m) = c(n, m);
    acc(n, m) += f32(x(k, m)) * f32(w(k, n)) + s(n) * f32(x(k, m)) * f32(u(k, n));
    y(n, m) = acc(n, m);
    EXPECT_EQ(
        built(blocks({{"n", "no", 64}, {"m", "mo", 128}}, {"no", "mo"}), {y}),
        "body {\n"
        "    xs: bf16[m:128, k:64] of x = copy x[0 + %k, mo*128 + %m]\n"
        "    ws: bf16[n:64, k:64] of w = copy w[0 + %k, no*64 + %n]\n"
        "    us: bf16[n:64, k:64] of u = copy u[0 + %k, no*64 + %n]\n"
        "    acc1: f32[n:64, m:128] of acc = mma(0, xs, us; k)\n"
        "    acc2_start: f32[n:64, m:128] of acc = map c[no*64 + %n, mo*128 + %m] + s[no*64 + %n]*acc1\n"
        "    acc2: f32[n:64, m:128] of acc = mma(acc2_start, xs, ws; k)\n"
        "    store y[no*64 + %n, mo*128 + %m] = acc2  // y\n"
        "  }\n"
        "}\n");
}

/// A sum over part of the rows: the condition of the RDom is uniform in the block.
TEST(TileBuildForms, condition_on_the_loop) {
    ImageParam x(BFloat(16), 2, "x"), w(BFloat(16), 2, "w");
    Var n("n"), m("m");
    RDom k(0, 64, 0, 8, "k");
    k.where(k.y <= m / 128);
    Func acc("acc"), y("y");
    acc(n, m) = 0.0f;
    acc(n, m) += f32(x(k.x + k.y * 64, m)) * f32(w(k.x + k.y * 64, n));
    y(n, m) = acc(n, m);
    TilePlan plan = blocks({{"n", "no", 64}, {"m", "mo", 128}}, {"no", "mo"});
    plan.split["acc"]["k.y"] = 1;
    EXPECT_EQ(built(plan, {y}),
              "body {\n"
              "    for k_yo in 0 .. 8 carry acc: f32[n:64, m:128] = 0.0 then acc_next {  // acc\n"
              "      xs: bf16[m:128, k_x:64] of x = copy x[k_yo*64 + %k_x, mo*128 + %m]\n"
              "      ws: bf16[n:64, k_x:64] of w = copy w[k_yo*64 + %k_x, no*64 + %n]\n"
              "      acc1: f32[n:64, m:128] of acc = mma(0, xs, ws; k_x)\n"
              "      acc_next: f32[n:64, m:128] of acc = map acc + select(k_yo <= mo, acc1, 0.0)\n"
              "    }\n"
              "    store y[no*64 + %n, mo*128 + %m] = acc  // y\n"
              "  }\n"
              "}\n");
}

/// A Func computed before the kernel is a view; one that is read at a block's index is a point.
TEST(TileBuildForms, func_computed_before) {
    ImageParam x(Float(32), 2, "x");
    Var n("n"), m("m");
    Func before("before"), y("y");
    before(n, m) = x(n, m) + 1.0f;
    y(n, m) = before(n, m) * before(0, m);
    TilePlan plan = blocks({{"n", "no", 64}, {"m", "mo", 16}}, {"no", "mo"});
    plan.outside = {"before"};
    EXPECT_EQ(built(plan, {y}),
              "body {\n"
              "    y: f32[n:64, m:16] = map before[no*64 + %n, mo*16 + %m]*before[0, mo*16 + %m]\n"
              "    store y[no*64 + %n, mo*16 + %m] = y  // y\n"
              "  }\n"
              "}\n");
}

/// A dimension in blocks that one kernel block goes through: its sums are made once, before the loop.
TEST(TileBuildForms, loop_over_an_output) {
    ImageParam x(Float(32), 2, "x");
    Var n("n"), m("m");
    RDom r(0, x.dim(0).extent(), "r");
    Func sum("sum"), y("y");
    sum(m) = 0.0f;
    sum(m) += x(r, m);
    y(n, m) = x(n, m) / sum(m);
    TilePlan plan = blocks({{"n", "no", 256}, {"m", "mo", 16}}, {"mo"});
    plan.split["sum"]["r"] = 256;
    EXPECT_EQ(built(plan, {y}),
              "body {\n"
              "    for ro in 0 .. (x.extent.0 + 255)/256 carry sum: f32[m:16] = 0.0 then sum_next {  "
              "// sum\n"
              "      sum1: f32[m:16] of sum = reduce sum over r of x[ro*256 + %r, mo*16 + %m]\n"
              "      sum_next: f32[m:16] of sum = map sum + sum1\n"
              "    }\n"
              "    for no in 0 .. (y.extent.0 + 255)/256 {  // y\n"
              "      y: f32[n:256, m:16] = map x[no*256 + %n, mo*16 + %m]/sum\n"
              "      store y[no*256 + %n, mo*16 + %m] = y  // y\n"
              "    }\n"
              "  }\n"
              "}\n");
}

/// A Tuple of two sums over one tile, each component as it is.
TEST(TileBuildForms, tuple_of_sums) {
    ImageParam x(Float(32), 2, "x");
    Var n("n"), m("m");
    RDom r(0, 256, "r");
    Func sums("sums"), y("y");
    sums(m) = Tuple(0.0f, 0.0f);
    sums(m) = Tuple(sums(m)[0] + x(r, m), sums(m)[1] + x(r, m) * x(r, m));
    y(m) = sums(m)[1] - sums(m)[0] * sums(m)[0];
    EXPECT_EQ(built(blocks({{"m", "mo", 16}}, {"mo"}), {y}),
              "body {\n"
              "    sums: f32[m:16] = reduce sum over r of x[%r, mo*16 + %m]\n"
              "    sums1: f32[m:16] of sums = reduce sum over r of x[%r, mo*16 + %m]*x[%r, mo*16 + %m]\n"
              "    y: f32[m:16] = map sums1 - sums*sums\n"
              "    store y[mo*16 + %m] = y  // y\n"
              "  }\n"
              "}\n");
}

} // namespace
} // namespace kiln::tile
