// Any schedule that the checker accepts gives exactly what compute_root gives, and survives printing and parsing.
#include "tests/correctness/schedule_apply_pipelines.h"
#include "tests/correctness/schedule_apply_random.h"
#include "tests/support/in_child.h"

#include "dsl/schedule/Canonical.h"
#include "dsl/schedule/CheckSchedule.h"
#include "dsl/schedule/Parser.h"
#include "dsl/schedule/Print.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

namespace kiln::test {
namespace {

/// KILN_SEED reruns one case; KILN_CASES sets how many a pipeline gets, KILN_FIRST the seed of the first: another one
/// tries schedules that no run tried before.
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

    counts.cases++;
    std::string faults = in_child([&] {
        std::string text;
        for (const Diagnostic &d : halide_faults(pipeline.build, plain, target)) {
            text += d.severity == Severity::Error ? d.code + " " + d.message + "\n" : "";
        }
        return text;
    });
    // Halide refuses some of what the checker cannot judge; that must come at a directive, and seldom.
    if (!faults.empty()) {
        counts.refused++;
        EXPECT_TRUE(faults.starts_with("K0501") || faults.starts_with("K0503") || faults.starts_with("died"))
            << faults;
        return;
    }
    auto text_of = [&](const Schedule &s) {
        return in_child([&] {
            std::vector<Halide::Func> outputs = pipeline.build();
            FuncMap funcs = funcs_of(outputs);
            apply_schedule(s, funcs, target);
            return lowered_text(outputs, target);
        });
    };
    std::string text = text_of(plain);
    EXPECT_FALSE(text.starts_with("died")) << text;
    EXPECT_NE(text, "took too long");
    EXPECT_TRUE(text == text_of(canonical(parse(print_text(plain)))));

    auto values_of = [&](bool scheduled) {
        return in_child([&] {
            std::vector<Halide::Func> outputs = pipeline.build();
            FuncMap funcs = funcs_of(outputs);
            if (scheduled) {
                apply_schedule(plain, funcs, target);
            } else {
                for (auto &[name, f] : funcs) {
                    f.compute_root();
                }
            }
            std::string text;
            for (int32_t v : run(outputs, pipeline.sizes, scheduled && target.backend == Backend::OpenCL)) {
                text += std::to_string(v) + " ";
            }
            return text;
        });
    };
    std::string values = values_of(true);
    if (values.starts_with("died")) {
        counts.refused++; // in LLVM: the child that builds libraries reports it
        return;
    }
    EXPECT_EQ(values_of(false), values);
}

void check_pipeline(const std::string &name, const Target &target, unsigned cases) {
    const TestPipeline &pipeline = small_pipeline(name);
    Counts counts;
    if (std::getenv("KILN_SEED")) {
        check_one(pipeline, target, number("KILN_SEED", 0), counts);
        return;
    }
    unsigned first = number("KILN_FIRST", 1);
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
    check_pipeline(GetParam(), Target::parse("cpu avx2"), 5);
}

TEST_P(RandomScheduleTest, GivesWhatComputeRootGivesOnOpenCl) {
    check_pipeline(GetParam(), Target::parse("opencl"), 2);
}

INSTANTIATE_TEST_SUITE_P(Pipelines, RandomScheduleTest,
                         testing::Values("pointwise", "stencils", "matmul", "softmax_like", "tuple_reduction",
                                         "two_outputs"),
                         [](const auto &info) { return std::string(info.param); });

} // namespace
} // namespace kiln::test
