// Any schedule that the checker accepts gives exactly what compute_root gives, and survives printing and parsing.
#include "tests/correctness/schedule_apply_pipelines.h"
#include "tests/correctness/schedule_apply_random.h"

#include "dsl/schedule/Canonical.h"
#include "dsl/schedule/CheckSchedule.h"
#include "dsl/schedule/Parser.h"
#include "dsl/schedule/Print.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

namespace kiln::test {
namespace {

/// KILN_SEED reruns one case; KILN_CASES sets how many a pipeline gets.
unsigned number(const char *variable, unsigned otherwise) {
    const char *value = std::getenv(variable);
    return value ? static_cast<unsigned>(std::strtoul(value, nullptr, 10)) : otherwise;
}

Schedule parse(const std::string &text) {
    ParseResult parsed = parse_schedules(text, "random.sched");
    EXPECT_TRUE(parsed.ok()) << render_all(parsed.diagnostics, text);
    return parsed.schedules.at(0);
}

struct Counts {
    std::map<std::string, int> tried, kept;
    int cases = 0, refused = 0;
};

void check_one(const TestPipeline &pipeline, const Target &target, unsigned seed, Counts &counts) {
    SCOPED_TRACE(pipeline.name + ": rerun with KILN_SEED=" + std::to_string(seed));
    PipelineInfo info = describe_pipeline(pipeline.build(), pipeline.name);
    RandomSchedule random = random_schedule(info, target, seed, 40);
    for (const auto &[name, n] : random.tried) {
        counts.tried[name] += n;
    }
    for (const auto &[name, n] : random.kept) {
        counts.kept[name] += n;
    }
    SCOPED_TRACE(random.text);
    Schedule schedule = parse(random.text);
    Schedule plain = canonical(schedule);
    // Text, canonical text and what was parsed back are the same schedule.
    EXPECT_EQ(print_text(parse(print_text(schedule))), print_text(schedule));
    EXPECT_TRUE(parse(print_text(schedule)) == schedule);
    EXPECT_EQ(print_text(canonical(parse(print_text(plain)))), print_text(plain));

    std::vector<Diagnostic> faults = halide_faults(pipeline.build, plain, target);
    counts.cases++;
    if (has_errors(faults)) {
        // Halide refuses some of what the checker cannot judge; that must come at a directive, and seldom.
        counts.refused++;
        for (const Diagnostic &d : faults) {
            EXPECT_TRUE(d.code == "K0501" || d.code == "K0503") << render_all(faults, random.text);
            EXPECT_EQ(d.message.find("Internal"), std::string::npos) << render_all(faults, random.text);
        }
        return;
    }
    auto text_of = [&](const Schedule &s) {
        std::vector<Halide::Func> outputs = pipeline.build();
        FuncMap funcs = funcs_of(outputs);
        apply_schedule(s, funcs, target);
        return lowered_text(outputs, target);
    };
    EXPECT_EQ(text_of(plain), text_of(canonical(parse(print_text(plain)))));

    std::vector<Halide::Func> reference = pipeline.build(), outputs = pipeline.build();
    FuncMap all = funcs_of(reference), funcs = funcs_of(outputs);
    for (auto &[name, f] : all) {
        f.compute_root();
    }
    apply_schedule(plain, funcs, target);
    bool opencl = target.backend == Backend::OpenCL;
    EXPECT_EQ(run(reference, pipeline.sizes), run(outputs, pipeline.sizes, opencl));
}

void check_pipeline(const std::string &name, const Target &target, unsigned cases) {
    const TestPipeline &pipeline = small_pipeline(name);
    Counts counts;
    if (std::getenv("KILN_SEED")) {
        check_one(pipeline, target, number("KILN_SEED", 0), counts);
        return;
    }
    unsigned first = std::random_device{}() % 1000000;
    cases = number("KILN_CASES", cases);
    std::cout << "seeds " << first << " to " << first + cases - 1 << std::endl;
    for (unsigned i = 0; i < cases; i++) {
        check_one(pipeline, target, first + i, counts);
    }
    EXPECT_LE(counts.refused, 1 + counts.cases / 4) << "Halide refuses too much of what the checker accepts";
    if (std::getenv("KILN_VERBOSE")) {
        std::cout << "refused by Halide " << counts.refused << " of " << counts.cases << "\n";
        for (const auto &[directive, n] : counts.tried) {
            std::cout << directive << " kept " << counts.kept[directive] << " of " << n << "\n";
        }
    }
}

class RandomScheduleTest : public testing::TestWithParam<const char *> {};

TEST_P(RandomScheduleTest, GivesWhatComputeRootGives) {
    check_pipeline(GetParam(), Target::parse("cpu avx2"), 12);
}

TEST_P(RandomScheduleTest, GivesWhatComputeRootGivesOnOpenCl) {
    check_pipeline(GetParam(), Target::parse("opencl"), 4);
}

INSTANTIATE_TEST_SUITE_P(Pipelines, RandomScheduleTest,
                         testing::Values("pointwise", "stencils", "matmul", "softmax_like", "tuple_reduction",
                                         "two_outputs"),
                         [](const auto &info) { return std::string(info.param); });

} // namespace
} // namespace kiln::test
