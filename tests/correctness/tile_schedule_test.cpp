// From a schedule's text to the plan of its tile kernel and to tile IR.
#include "dsl/schedule/Canonical.h"
#include "dsl/schedule/CheckSchedule.h"
#include "dsl/schedule/Parser.h"
#include "dsl/schedule/apply/Describe.h"
#include "dsl/tile/build/Build.h"
#include "dsl/tile/build/ReadPlan.h"
#include "dsl/tile/ir/Text.h"
#include "tests/correctness/tile_programs.h"

#include <gtest/gtest.h>

namespace kiln::tile {
namespace {

/// The plans that the schedule makes for a program's Funcs.
std::vector<TilePlan> plans(const Program &p, const std::string &statements) {
    const std::string text = "schedule s {\n  target cuda sm_90a\n" + statements + "}\n";
    const ParseResult parsed = parse_schedules(text, "s.sched");
    EXPECT_TRUE(parsed.ok()) << render_all(parsed.diagnostics, text);
    const PipelineInfo info = describe_pipeline(p.outputs, "");
    const Target target = Target::parse("cuda sm_90a");
    const CanonicalResult c = canonicalize(parsed.schedules.at(0));
    EXPECT_TRUE(c.diagnostics.empty()) << render_all(c.diagnostics, text);
    const ScheduleAnalysis a = analyse_schedule(c.schedule, info, target, limits_of(target));
    EXPECT_TRUE(a.diagnostics.empty()) << render_all(a.diagnostics, text);
    std::vector<TilePlan> found;
    for (const TileGroup &g : tile_groups(a.nest)) {
        found.push_back(read_plan(g));
    }
    return found;
}

/// The text of the kernel without the spans, which tests do not look at.
std::string kernel_text(const Program &p, const TilePlan &plan) {
    return print(build_kernel(plan, p.outputs));
}

TEST(TileSchedule, product) {
    const Program p = tile_program("gemm_bias_gelu");
    const std::vector<TilePlan> found =
        plans(p, "  y.tile(n, m, no, mo, ni, mi, 64, 128).gpu_blocks(no, mo).tile_kernel();\n"
                 "  y.persistent(8).warpgroups(consumers = 2, producers = 1);\n"
                 "  acc.compute_at(y, no).store_in(Register);\n"
                 "  acc.update().split(k, ko, ki, 64).mma(wgmma);\n"
                 "  x.in(acc).compute_at(acc, ko).store_in(GPUShared).copy(tma).swizzle(128).stages(4);\n"
                 "  w.in(acc).compute_at(acc, ko).store_in(GPUShared).copy(tma).swizzle(64).stages(4);\n");
    ASSERT_EQ(found.size(), 1u);
    TilePlan want = p.plan;
    want.grid = {"no", "mo"};
    want.persistent = 8;
    want.copies["x"].stages = want.copies["w"].stages = 4;
    want.copies["w"].swizzle = 64;
    EXPECT_EQ(kernel_text(p, found[0]), kernel_text(p, want));
}

/// What the schedule leaves out: rows, warpgroups, the copies' kind, swizzle and depth.
TEST(TileSchedule, defaults) {
    const Program p = tile_program("gemm_nt");
    const std::vector<TilePlan> found =
        plans(p, "  y.tile(n, m, no, mo, ni, mi, 64, 64).gpu_blocks(no, mo).tile_kernel();\n"
                 "  acc.compute_at(y, no).store_in(Register);\n"
                 "  acc.update().split(k, ko, ki, 64).mma(wgmma);\n"
                 "  x.in(acc).compute_at(acc, ko).store_in(GPUShared);\n"
                 "  w.in(acc).compute_at(acc, ko).store_in(GPUShared);\n");
    ASSERT_EQ(found.size(), 1u);
    TilePlan want = p.plan;
    want.grid = {"no", "mo"};
    want.blocks[1].size = 64;
    want.consumers = 1;
    EXPECT_EQ(kernel_text(p, found[0]), kernel_text(p, want));
}

/// Batches are a block loop of their own; two products share an operand and a loop.
TEST(TileSchedule, batches_and_two_products) {
    const Program batched = tile_program("gemm_batched");
    std::vector<TilePlan> found =
        plans(batched,
              "  y.tile(n, m, no, mo, ni, mi, 64, 128).rename(b, bo).gpu_blocks(no, mo, bo).tile_kernel();\n"
              "  acc.compute_at(y, no).store_in(Register);\n"
              "  acc.update().split(k, ko, ki, 64).mma(wgmma);\n"
              "  x.in(acc).compute_at(acc, ko).store_in(GPUShared).copy(tma);\n"
              "  w.in(acc).compute_at(acc, ko).store_in(GPUShared).copy(tma);\n");
    ASSERT_EQ(found.size(), 1u);
    TilePlan want = batched.plan;
    want.grid = {"no", "mo", "bo"};
    EXPECT_EQ(kernel_text(batched, found[0]), kernel_text(batched, want));

    const Program swiglu = tile_program("swiglu");
    found = plans(swiglu, "  y.tile(n, m, no, mo, ni, mi, 64, 128).gpu_blocks(no, mo).tile_kernel();\n"
                          "  gate.compute_at(y, no).store_in(Register);\n"
                          "  up.compute_at(y, no).store_in(Register);\n"
                          "  gate.update().split(k, ko, ki, 64).mma(wgmma);\n"
                          "  up.update().split(k, ko, ki, 64).mma(wgmma);\n"
                          "  x.in(gate).compute_at(gate, ko).store_in(GPUShared).copy(tma);\n"
                          "  x.in(up).compute_at(up, ko).store_in(GPUShared).copy(tma);\n"
                          "  wg.in(gate).compute_at(gate, ko).store_in(GPUShared).copy(tma);\n"
                          "  wu.in(up).compute_at(up, ko).store_in(GPUShared).copy(tma);\n");
    ASSERT_EQ(found.size(), 1u);
    want = swiglu.plan;
    want.grid = {"no", "mo"};
    EXPECT_EQ(kernel_text(swiglu, found[0]), kernel_text(swiglu, want));
}

/// A second output follows the block loops of the first.
TEST(TileSchedule, second_output) {
    const Program p = tile_program("gemm_row_max");
    const std::vector<TilePlan> found =
        plans(p, "  y.tile(n, m, no, mo, ni, mi, 64, 128).gpu_blocks(no, mo).tile_kernel();\n"
                 "  row_max.split(m, mo, mi, 128).rename(nb, no).reorder(mi, no, mo).gpu_blocks(no, "
                 "mo).tile_kernel(y);\n"
                 "  s.compute_at(y, no).store_in(Register);\n"
                 "  acc.compute_at(y, no).store_in(Register);\n"
                 "  acc.update().split(k, ko, ki, 64).mma(wgmma);\n"
                 "  x.in(acc).compute_at(acc, ko).store_in(GPUShared).copy(tma);\n"
                 "  w.in(acc).compute_at(acc, ko).store_in(GPUShared).copy(tma);\n");
    ASSERT_EQ(found.size(), 1u);
    TilePlan want = p.plan;
    want.grid = {"no", "mo"};
    EXPECT_EQ(kernel_text(p, found[0]), kernel_text(p, want));
}

/// Rows that one tile spans; the sums over them, too.
TEST(TileSchedule, whole_rows) {
    const Program p = tile_program("row_softmax");
    const std::vector<TilePlan> found =
        plans(p, "  y.split(m, mo, mi, 16).whole(n, 1024).gpu_blocks(mo).tile_kernel();\n"
                 "  y.warpgroups(4);\n"
                 "  wide.compute_at(y, mo).store_in(Register);\n"
                 "  top.compute_at(y, mo).store_in(Register);\n"
                 "  top.update().whole(r, 1024);\n"
                 "  e.compute_at(y, mo).store_in(Register);\n"
                 "  total.compute_at(y, mo).store_in(Register);\n"
                 "  total.update().whole(r, 1024);\n");
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(kernel_text(p, found[0]), kernel_text(p, p.plan));
}

/// Blocks that share their copies, and an output of any strides.
TEST(TileSchedule, clusters) {
    const Program p = tile_program("gemm_nt");
    const std::vector<TilePlan> found =
        plans(p, "  y.tile(n, m, no, mo, ni, mi, 64, 128).gpu_blocks(no, mo).tile_kernel().cluster(2, "
                 "4).epilogue(direct);\n"
                 "  acc.compute_at(y, no).store_in(Register);\n"
                 "  acc.update().split(k, ko, ki, 64).mma(wgmma);\n"
                 "  x.in(acc).compute_at(acc, ko).store_in(GPUShared).copy(tma).multicast();\n"
                 "  w.in(acc).compute_at(acc, ko).store_in(GPUShared).copy(tma);\n");
    ASSERT_EQ(found.size(), 1u);
    TilePlan want = p.plan;
    want.grid = {"no", "mo"};
    want.cluster_x = 2;
    want.cluster_y = 4;
    want.direct = true;
    want.copies["x"].multicast = true;
    EXPECT_EQ(kernel_text(p, found[0]), kernel_text(p, want));
}

/// Operands that are copied into rows of their own before the kernel are staged without a word.
TEST(TileSchedule, operands_computed_before) {
    const Program p = tile_program("gemm_nt");
    const std::vector<TilePlan> found =
        plans(p, "  y.tile(n, m, no, mo, ni, mi, 64, 128).gpu_blocks(no, mo).tile_kernel();\n"
                 "  acc.compute_at(y, no).store_in(Register);\n"
                 "  acc.update().split(k, ko, ki, 64).mma(wgmma);\n"
                 "  x.in(acc).compute_root().gpu_blocks(_1).gpu_threads(_0);\n");
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].outside.size(), 1u);
    EXPECT_TRUE(found[0].copies.empty());
}

} // namespace
} // namespace kiln::tile
