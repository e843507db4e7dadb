// The default schedule on every kind of pipeline, Kiln's loop nest against Halide's own, and what only Halide finds.
#include "tests/correctness/schedule_apply_pipelines.h"

#include "dsl/schedule/Canonical.h"
#include "dsl/schedule/CheckSchedule.h"
#include "dsl/schedule/DefaultSchedule.h"
#include "dsl/schedule/Parser.h"

#include <gtest/gtest.h>

#include <iostream>
#include <regex>
#include <sstream>

namespace kiln::test {
namespace {

using Halide::Expr;
using Halide::Func;
using Halide::RDom;
using Halide::Var;

Schedule canonical_of(const std::string &body) {
    ParseResult parsed = parse_schedules("schedule s {\n" + body + "}\n", "test.sched");
    EXPECT_TRUE(parsed.ok()) << render_all(parsed.diagnostics, *parsed.source);
    return canonical(parsed.schedules.at(0));
}

// ---- the default schedule

void check_default(const std::string &name, const BuildPipeline &build, const std::vector<int> &sizes,
                   const std::string &target_text) {
    SCOPED_TRACE(name + " on " + target_text);
    Target target = Target::parse(target_text);
    std::vector<Func> outputs = build();
    PipelineInfo info = describe_pipeline(outputs, name);
    Schedule schedule = default_schedule(info, target);
    SCOPED_TRACE(*schedule.source);
    Schedule plain = canonical(schedule);
    std::vector<Diagnostic> faults = check_schedule(plain, info, target, limits_of(target));
    EXPECT_TRUE(faults.empty()) << render_all(faults, *schedule.source);
    if (target.backend == Backend::Cuda) {
        faults = halide_faults(build, plain, target);
        EXPECT_TRUE(faults.empty()) << render_all(faults, *schedule.source);
        return;
    }
    FuncMap funcs = funcs_of(outputs);
    apply_schedule(plain, funcs, target);
    std::vector<Func> reference = build();
    FuncMap all = funcs_of(reference);
    for (auto &[func_name, f] : all) {
        f.compute_root();
    }
    EXPECT_EQ(run(reference, sizes), run(outputs, sizes, target.backend == Backend::OpenCL));
}

class DefaultScheduleTest : public testing::TestWithParam<const char *> {};

TEST_P(DefaultScheduleTest, SmallPipelinesAtTheirSizesAndAtOne) {
    for (const TestPipeline &p : small_pipelines()) {
        check_default(p.name, p.build, p.sizes, GetParam());
        check_default(p.name, p.build, std::vector<int>(p.sizes.size(), 1), GetParam());
    }
}

TEST_P(DefaultScheduleTest, ScalarWithAnUpdateOverRVarsOnly) {
    auto build = [] {
        Var x("x");
        Func in("in"), total("total"), out("out");
        RDom r(0, 1000, "r");
        in(x) = x % 17;
        total() = 0;
        total() += in(r);
        out() = total() + 1;
        return std::vector<Func>{out};
    };
    check_default("scalar", build, {}, GetParam());
}

TEST_P(DefaultScheduleTest, TwentyStencilsInARow) {
    auto build = [] {
        Var x("x"), y("y");
        std::vector<Func> stages;
        for (int i = 0; i < 20; i++) {
            Func f("f" + std::to_string(i));
            f(x, y) = i == 0 ? Expr(x * 3 + y) : (stages.back()(x - 1, y) + stages.back()(x, y + 1)) % 1000;
            stages.push_back(f);
        }
        return std::vector<Func>{stages.back()};
    };
    check_default("deep", build, {17, 5}, GetParam());
}

TEST_P(DefaultScheduleTest, PointwiseTuplesInARow) {
    auto build = [] {
        Var x("x");
        Func f("f0");
        f(x) = Halide::Tuple(x, x + 1);
        for (int i = 1; i < 10; i++) {
            Func g("f" + std::to_string(i));
            g(x) = Halide::Tuple(f(x)[0] + f(x)[1], f(x)[0] - i);
            f = g;
        }
        Func out("out");
        out(x) = f(x)[0] * 3 + f(x)[1];
        return std::vector<Func>{out};
    };
    check_default("tuples", build, {19}, GetParam());
}

TEST_P(DefaultScheduleTest, GatherHistogramAndFourDimensions) {
    auto build = [] {
        Var x("x"), y("y"), z("z"), w("w");
        Func index("index"), table("table"), histogram("histogram"), out("out");
        RDom r(0, 64, "r");
        index(x) = (x * 13) % 8;
        table(x) = x * x;
        histogram(x) = 0;
        histogram(Halide::clamp(index(r), 0, 7)) += 1;
        out(x, y, z, w) = table(index(x)) + histogram(Halide::clamp(y, 0, 7)) + z * w;
        return std::vector<Func>{out};
    };
    check_default("mixed", build, {9, 3, 4, 2}, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Targets, DefaultScheduleTest,
                         testing::Values("cpu avx2", "cpu", "opencl", "cuda sm_80"), [](const auto &info) {
                             return std::regex_replace(std::string(info.param), std::regex(" "), "_");
                         });

// ---- the loop nest

/// Kind, name and extent (where it is a number) of each loop, one a line, in order: from either text.
std::vector<std::string> loops_of_halide(const std::vector<Func> &outputs) {
    std::stringstream text;
    std::streambuf *old = std::cerr.rdbuf(text.rdbuf());
    Halide::Pipeline(outputs).print_loop_nest();
    std::cerr.rdbuf(old);
    std::vector<std::string> loops;
    std::regex loop(
        R"(^\s*(for|parallel|vectorized|unrolled|gpu_block|gpu_thread|gpu_lane)\S* (\S+?)(?: in \[0, (\d+)\])?(?:<.*>)?:$)");
    for (std::string line; std::getline(text, line);) {
        std::smatch found;
        if (std::regex_search(line, found, loop)) {
            std::string name = found[2].str();
            loops.push_back(found[1].str() + " " + name.substr(name.rfind('.') + 1));
        }
    }
    return loops;
}

std::vector<std::string> loops_of_kiln(const std::string &text) {
    std::vector<std::string> loops;
    std::regex loop(R"(^\s*(for|parallel|vectorized|unrolled|gpu_block|gpu_thread|gpu_lane) (\S+) in )");
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) {
        std::smatch found;
        if (std::regex_search(line, found, loop)) {
            std::string name = found[2].str();
            if (line.ends_with(" in 1:")) {
                continue; // Halide prints no loop of one iteration
            }
            // Halide prints the loop `r.x` of an RDom as `r`.
            loops.push_back(found[1].str() + " " + (name.starts_with("r.") ? "r" : name));
        }
    }
    return loops;
}

struct NestCase {
    const char *pipeline, *body;
};

class LoopNestTest : public testing::TestWithParam<NestCase> {};

TEST_P(LoopNestTest, HasTheLoopsThatHalideMakes) {
    const TestPipeline &pipeline = small_pipeline(GetParam().pipeline);
    Target target = Target::parse("cpu avx2");
    std::vector<Func> outputs = pipeline.build();
    PipelineInfo info = describe_pipeline(outputs, pipeline.name);
    Schedule schedule = canonical_of(GetParam().body);
    ScheduleAnalysis analysis = analyse_schedule(schedule, info, target, limits_of(target));
    EXPECT_FALSE(has_errors(analysis.diagnostics)) << render_all(analysis.diagnostics, *schedule.source);
    FuncMap funcs = funcs_of(outputs);
    apply_schedule(schedule, funcs, target);
    EXPECT_EQ(loops_of_halide(outputs), loops_of_kiln(analysis.nest.str())) << analysis.nest.str();
}

INSTANTIATE_TEST_SUITE_P(
    Cases, LoopNestTest,
    testing::Values(
        NestCase{"pointwise", "out.tile(x, y, xo, yo, xi, yi, 8, 4).vectorize(xi).parallel(yo);"},
        NestCase{"pointwise", "out.fuse(x, y, f).split(f, fo, fi, 64).unroll(fi, 4).parallel(fo);"},
        NestCase{"pointwise", "out.reorder(y, x).rename(y, yy).split(yy, yy, yi, 5).unroll(yi);"},
        NestCase{"stencils", "out.split(y, yo, yi, 8).parallel(yo).vectorize(x, 8);\n"
                             "by.compute_at(out, yo).vectorize(x, 8);\n"
                             "bx.compute_at(by, y).vectorize(x, 4);"},
        NestCase{"stencils", "by.compute_root().split(x, x, xi, 3, RoundUp);\n"
                             "bx.compute_at(by, y);"},
        NestCase{"matmul", "y.tile(n, m, no, mo, ni, mi, 8, 4).vectorize(ni);\n"
                           "acc.compute_at(y, no).vectorize(n, 8);\n"
                           "acc.update().split(k, ko, ki, 4).reorder(n, ki, m, ko).vectorize(n, 8);"},
        NestCase{"matmul", "acc.compute_root();\nacc.update().split(k, ko, ki, 4);\n"
                           "part = acc.update().rfactor(ko, u);\npart.compute_root().vectorize(n, 8);"},
        NestCase{"softmax_like", "sum.compute_at(out, y);\nmx.compute_at(out, y);\n"
                                 "e.compute_at(out, y);\nout.parallel(y);"},
        NestCase{"two_outputs", "shared.compute_root().parallel(y);\nhigh.update().reorder(x, r.x, r.y);"}));

TEST(LoopNest, InfersWhatATileNeeds) {
    PipelineInfo info = describe_pipeline(small_pipeline("stencils").build(), "stencils");
    Target target = Target::parse("cpu avx2");
    Schedule s = canonical_of(
        "out.tile(x, y, xo, yo, xi, yi, 8, 4);\nby.compute_at(out, xo);\nbx.compute_at(out, xo);");
    ScheduleAnalysis analysis = analyse_schedule(s, info, target, limits_of(target));
    EXPECT_EQ(analysis.nest.find("by")->stored_bytes(), 8 * 4 * 4);
    EXPECT_EQ(analysis.nest.find("bx")->stored_bytes(), 8 * 6 * 4); // a row above and one below
}

// ---- what Halide says

std::string faults_text(const BuildPipeline &build, const std::string &body,
                        const char *target = "cpu avx2") {
    Schedule s = canonical_of(body);
    return render_all(halide_faults(build, s, Target::parse(target)), *s.source);
}

TEST(HalideFaults, AreShownAtTheirDirective) {
    // The checker would refuse all of these; here they go straight to Halide.
    BuildPipeline matmul = small_pipeline("matmul").build;
    std::string refused = faults_text(matmul, "y.parallel(m);\nacc.update().vectorize(k);\n");
    EXPECT_NE(refused.find("error[K0501]: Halide does not accept `vectorize` here\n --> test.sched:3:14"),
              std::string::npos)
        << refused;
    std::string lowering = faults_text(matmul, "y.parallel(m);\ny.vectorize(n);\nacc.compute_root();\n");
    EXPECT_NE(
        lowering.find("error[K0503]: Halide cannot lower the pipeline with `vectorize`\n --> test.sched:3:3"),
        std::string::npos)
        << lowering;
    EXPECT_NE(lowering.find(
                  "^^^^^^^^^^^^ without it the rest is accepted\n  = note: Halide says: Can only vectorize"),
              std::string::npos)
        << lowering;
    std::string warned = faults_text(matmul, "acc.compute_root().vectorize(n, 8);\n");
    EXPECT_NE(warned.find("warning[K0504]: Halide warns about"), std::string::npos) << warned;
    std::string unknown = faults_text(matmul, "nobody.compute_root();\n");
    EXPECT_NE(unknown.find("error[K0502]: the pipeline has no Func `nobody`\n --> test.sched:2:1"),
              std::string::npos)
        << unknown;
    EXPECT_EQ(faults_text(matmul, "acc.compute_root();\n"), "");
}

TEST(Describe, RefusesEqualNames) {
    auto message = [](const std::vector<Func> &outputs) -> std::string {
        try {
            describe_pipeline(outputs, "g");
        } catch (const Error &e) {
            return e.what();
        }
        return "";
    };
    Var x("x"), r("r");
    Func a("a"), b("a"), out("out"), clash("clash");
    a(x) = x;
    b(x) = a(x) + 1;
    out(x) = b(x);
    EXPECT_EQ(message({out}),
              "error[K0113]: two Funcs of the pipeline are named `a`\n"
              "   = note: a schedule refers to Funcs by name, so every Func of a pipeline needs its own\n"
              "   = help: give one of them another name where the generator makes it: `Func a2{\"a2\"}`\n");
    RDom rd(0, 4, "r");
    clash(r) = 0;
    clash(r) += rd;
    EXPECT_EQ(message({clash}),
              "error[K0114]: an update of `clash` has a Var and an RVar that are both named `r`\n"
              "   = note: a schedule refers to loops by name, so a stage's loops need different ones\n"
              "   = help: give the RDom another name in the generator: `RDom r(…, \"r\")`\n");
}

} // namespace
} // namespace kiln::test
