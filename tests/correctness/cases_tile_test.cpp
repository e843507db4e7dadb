/** \file
 * Cases from the field for tile kernels, each for its whole kind: rings of every depth in every order of events, sizes that
 * users expect a product to take, the rules of TMA, shared memory that does not suffice, tiles that no instruction has. What
 * needs a GPU of these is in bench/proof.py.
 */
#include "dsl/schedule/Canonical.h"
#include "dsl/schedule/CheckSchedule.h"
#include "dsl/schedule/Parser.h"
#include "dsl/schedule/apply/Describe.h"
#include "dsl/tile/build/Build.h"
#include "dsl/tile/build/ReadPlan.h"
#include "dsl/tile/emit/Emit.h"
#include "dsl/tile/interpret/Interpret.h"
#include "dsl/tile/ir/Text.h"
#include "dsl/tile/passes/Runner.h"
#include "tests/correctness/tile_reference.h"

#include <gtest/gtest.h>

namespace kiln::tile {
namespace {

DeviceLimits hopper() {
    return limits_of(Target::parse("cuda sm_90a"));
}

/// What the checker or a pass says to the schedule of y = x w, or "".
std::string refusal(const Program &p, const std::string &statements, const char *on = "cuda sm_90a") {
    const std::string text = std::string("schedule s {\n  target ") + on + "\n" + statements + "}\n";
    const ParseResult parsed = parse_schedules(text, "s.sched");
    EXPECT_TRUE(parsed.ok()) << render_all(parsed.diagnostics, text);
    const Target target = Target::parse(on);
    const PipelineInfo info = describe_pipeline(p.outputs, "");
    const ScheduleAnalysis a =
        analyse_schedule(canonicalize(parsed.schedules.at(0)).schedule, info, target, limits_of(target));
    if (has_errors(a.diagnostics)) {
        return render_all(a.diagnostics, text);
    }
    try {
        const TilePlan plan = read_plan(tile_groups(a.nest).at(0));
        run_passes(build_kernel(plan, p.outputs), limits_of(target));
    } catch (const kiln::Error &e) {
        return render_all(e.diagnostics, text);
    }
    return "";
}

std::string product(int bm, int bn, int bk, int stages, const std::string &mma = "wgmma",
                    const std::string &copy = "tma") {
    const std::string at = ".compute_at(acc, ko).store_in(GPUShared).copy(" + copy + ").stages(" +
                           std::to_string(stages) + ");\n";
    return "  y.tile(n, m, no, mo, ni, mi, " + std::to_string(bn) + ", " + std::to_string(bm) +
           ").gpu_blocks(no, mo).tile_kernel();\n  acc.compute_at(y, no).store_in(Register);\n"
           "  acc.update().split(k, ko, ki, " +
           std::to_string(bk) + ").mma(" + mma + ");\n  x.in(acc)" + at + "  w.in(acc)" + at;
}

void expect_parts(const std::string &message, const std::vector<std::string> &parts) {
    for (const std::string &part : parts) {
        EXPECT_NE(message.find(part), std::string::npos) << "lacks " << part << "\n" << message;
    }
    EXPECT_NE(message.find("help:"), std::string::npos) << message;
}

// ---- K14: a ring index that only one depth hides, a fence that only a slow warp needs

TEST(CasesTile, RingsOfEveryDepthInEveryOrder) {
    for (const char *name : {"gemm_bias_gelu", "gemm_residual"}) {
        Program p = tile_program(name);
        Reference reference(p);
        const Extents size = {
            {"x", {200, 131}}, {"w", {200, 72}}, {"y", {72, 131}}, {"bias", {72}}, {"res", {72, 131}}};
        const Memory inputs = reference.data(size), wanted = reference.outputs(inputs, size);
        std::vector<uint8_t> first;
        for (int stages = 1; stages <= 5; stages++) {
            p.plan.copies["x"].stages = p.plan.copies["w"].stages = stages;
            const Kernel k = run_passes(build_kernel(p.plan, p.outputs), hopper());
            for (unsigned seed = 1; seed <= 3; seed++) {
                const When when = seed == 1 ? When::Late : seed == 2 ? When::Early : When::Random;
                Memory memory = inputs;
                const Outcome out = interpret(k, memory, {when, when, when, seed, 2});
                ASSERT_EQ(out.fault.empty() ? compare(memory, wanted, 4) : out.fault, "")
                    << stages << " stages";
                first = first.empty() ? memory.at("y").bytes : first;
                EXPECT_EQ(memory.at("y").bytes, first) << stages << " stages, seed " << seed;
            }
        }
    }
}

/// The build of which one warp is slow is the same kernel with sleeps in it, and nothing else.
TEST(CasesTile, TheSlowedBuildDiffersBySleepsAlone) {
    Program p = tile_program("gemm_bias_gelu");
    const std::string normal = emit_cuda(run_passes(build_kernel(p.plan, p.outputs), hopper())).text;
    p.plan.slow_warp = 5;
    const EmittedKernel slowed = emit_cuda(run_passes(build_kernel(p.plan, p.outputs), hopper()));
    std::string without;
    int sleeps = 0;
    std::istringstream lines(slowed.text);
    for (std::string line; std::getline(lines, line);) {
        const bool sleeps_here =
            line.find("if (threadIdx.x / 32 == 5) __nanosleep(1000);") != std::string::npos;
        sleeps += sleeps_here;
        without += sleeps_here ? "" : line + "\n";
    }
    EXPECT_GE(sleeps, 8);
    EXPECT_EQ(without, normal);
    EXPECT_NO_THROW(compile_cubin(slowed.text, slowed.name, "sm_90a"));
}

// ---- K16: sizes that no tile divides, in all transposes

TEST(CasesTile, ProductsOfAnySize) {
    struct Size {
        int m, n, k;
    };
    for (const char *name : {"gemm_nt", "gemm_nn", "gemm_tn", "gemm_tt", "gemm_f32"}) {
        const std::string layout = name;
        const bool tx = layout == "gemm_tn" || layout == "gemm_tt",
                   tw = layout != "gemm_nn" && layout != "gemm_tn";
        Program p = tile_program(name);
        Reference reference(p);
        const Kernel k = run_passes(build_kernel(p.plan, p.outputs), hopper());
        for (const Size &s : {Size{1, 105, 107}, {2, 4, 3}, {33, 77, 55}, {100, 99, 101}, {205, 21, 49}}) {
            const Extents e = {{"x", tx ? std::vector<int>{s.m, s.k} : std::vector<int>{s.k, s.m}},
                               {"w", tw ? std::vector<int>{s.k, s.n} : std::vector<int>{s.n, s.k}},
                               {"y", {s.n, s.m}}};
            const Memory inputs = reference.data(e), wanted = reference.outputs(inputs, e);
            Memory memory = inputs;
            const Outcome out = interpret(k, memory, {When::Random, When::Random, When::Random, 5, 3});
            ASSERT_EQ(out.fault.empty() ? compare(memory, wanted) : out.fault, "")
                << name << " " << s.m << "x" << s.n << "x" << s.k;
        }
    }
}

// ---- K22: what no tensor map can say is refused when the schedule is read, with the rule and the number

TEST(CasesTile, RulesOfTensorMaps) {
    const Program p = tile_program("gemm_nt");
    expect_parts(refusal(p, product(512, 64, 64, 2)), {"K1178", "at most 256", "512"});
    expect_parts(refusal(p, product(128, 64, 4, 2)), {"16 bytes", "8"});
    expect_parts(refusal(p, product(128, 64, 64, 4), "cuda sm_80"), {"K1172", "sm_90a"});
}

// ---- K31: an instruction on a tile that it does not have

TEST(CasesTile, TilesThatNoInstructionHas) {
    const Program p = tile_program("gemm_nt");
    expect_parts(refusal(p, product(3, 5, 64, 2)), {"K1176", "`acc`", "3 rows", "64"});
    expect_parts(refusal(p, product(128, 260, 64, 2)), {"K1176", "`acc`", "260 columns", "256"});
}

// ---- K32: more shared memory than there is, with both numbers

TEST(CasesTile, SharedMemoryThatDoesNotSuffice) {
    const Program p = tile_program("gemm_nt");
    expect_parts(refusal(p, product(256, 256, 128, 4)), {"524288", "232448", "bytes of shared memory"});
    EXPECT_EQ(refusal(p, product(128, 128, 64, 4)), "");
}

} // namespace
} // namespace kiln::tile
