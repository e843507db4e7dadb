// What the space gives: ordinary schedules that parse, are legal and compute what the algorithm says, for any pipeline.
#include "tests/correctness/search_pipelines.h"
#include "tests/support/in_child.h"

#include "dsl/schedule/Canonical.h"
#include "dsl/schedule/Parser.h"
#include "dsl/schedule/Print.h"
#include "dsl/search/search/Search.h"
#include "dsl/search/space/Accept.h"
#include "dsl/search/space/Context.h"
#include "dsl/search/space/Render.h"
#include "dsl/search/space/Space.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <ctime>

namespace kiln::test {
namespace {

using search::Candidate;
using search::Problem;
using search::Rng;
using search::Space;

const Target cpu = Target::parse("cpu avx2");

/// KILN_SEED reruns one seed, KILN_PIPELINE one pipeline.
uint64_t seed_of(uint64_t otherwise) {
    const char *value = std::getenv("KILN_SEED");
    return value ? std::strtoull(value, nullptr, 10) : otherwise;
}

/// Seconds of processor time that this process has used: what else runs on the machine does not count.
double processor_s() {
    timespec t = {};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

std::vector<TestPipeline> all_pipelines() {
    std::vector<TestPipeline> all = small_pipelines();
    for (TestPipeline &p : hard_pipelines()) {
        all.push_back(std::move(p));
    }
    if (const char *only = std::getenv("KILN_PIPELINE")) {
        std::erase_if(all, [&](const TestPipeline &p) { return p.name != only; });
    }
    return all;
}

std::vector<int32_t> values_of(const TestPipeline &pipeline, const Schedule *schedule) {
    std::vector<Halide::Func> outputs = pipeline.build();
    FuncMap funcs = funcs_of(outputs);
    if (schedule) {
        apply_schedule(canonical(*schedule), funcs, cpu);
    } else {
        for (auto &[name, f] : funcs) {
            f.compute_root();
        }
    }
    std::vector<int> sizes(pipeline.sizes.begin(), pipeline.sizes.end());
    return run(outputs, sizes);
}

std::string reasons(const Space &space) {
    std::string text;
    for (const auto &[reason, count] : space.rejected()) {
        text += std::to_string(count) + " " + reason + "\n";
    }
    return text;
}

int aborted = 0;

void expect_right(const TestPipeline &pipeline, const std::vector<int32_t> &expected, const Candidate &c) {
    std::string said = in_child([&]() -> std::string {
        try {
            return values_of(pipeline, &c.schedule) == expected ? "ok" : "other values";
        } catch (const Halide::Error &e) {
            return e.what();
        } catch (const Error &e) {
            return render(e.diagnostics.at(0), c.text());
        } catch (const std::exception &e) {
            return e.what();
        }
    });
    // An assertion of LLVM's own costs a search one trial; it must be seldom.
    if (said == "died of signal " + std::to_string(SIGABRT)) {
        aborted++;
        return;
    }
    EXPECT_EQ(said, "ok") << pipeline.name << " " << c.origin << "\n" << c.text();
}

/// Prints, parses and prints the same, and the checker has nothing against it.
void expect_ordinary(const Problem &problem, const Candidate &c) {
    ParseResult parsed = parse_schedules(c.text(), "candidate");
    ASSERT_TRUE(parsed.ok()) << c.text();
    ASSERT_EQ(parsed.schedules.size(), 1u);
    EXPECT_TRUE(parsed.schedules[0] == c.schedule) << c.text();
    EXPECT_EQ(print_text(parsed.schedules[0]), c.text());
    EXPECT_EQ(search::reject_reason(problem, c.schedule), "") << c.text();
}

TEST(SearchSpace, CandidatesOfAnyPipelineAreLegalAndRight) {
    const int drawn = 24, compiled = 2;
    for (const TestPipeline &pipeline : all_pipelines()) {
        SCOPED_TRACE(pipeline.name);
        Problem problem = problem_of_test(pipeline, cpu);
        std::unique_ptr<Space> space = search::pipeline_space(problem);
        Rng rng(seed_of(11));
        std::vector<Candidate> all = space->seeds();
        EXPECT_TRUE(!all.empty() || problem.info.funcs.size() > 30) << reasons(*space);
        for (int i = 0; i < drawn; i++) {
            if (auto c = space->random(rng)) {
                all.push_back(std::move(*c));
            }
        }
        for (int i = 0; i < drawn && !all.empty(); i++) {
            if (auto c = space->mutate(all[rng() % all.size()], rng)) {
                all.push_back(std::move(*c));
            }
            if (auto c = space->cross(all[rng() % all.size()], all[rng() % all.size()], rng)) {
                all.push_back(std::move(*c));
            }
        }
        for (const Candidate &c : all) {
            expect_ordinary(problem, c);
        }
        const std::vector<int32_t> expected = values_of(pipeline, nullptr);
        expect_right(pipeline, expected, space->plain());
        // A chain of 40 takes LLVM seconds.
        const int some = problem.info.funcs.size() > 30 ? 0 : compiled;
        for (int i = 0; i < some && !all.empty(); i++) {
            expect_right(pipeline, expected, all[rng() % all.size()]);
        }
    }
    EXPECT_LE(aborted, 3);
}

/// Each row less its mean, over its sum of squared deviations: a second sum over what the first one gave.
std::vector<Halide::Func> rows_in_two_sums() {
    Halide::Var x("x"), y("y");
    Halide::RDom r(0, 256, "r");
    Halide::Func in("in"), sum("sum"), mean("mean"), squares("squares"), scale("scale"), out("out");
    in(x, y) = (x * 7 + y * 13) % 64;
    sum(y) = 0;
    sum(y) += in(r, y);
    mean(y) = sum(y) / 256;
    squares(y) = 0;
    squares(y) += (in(r, y) - mean(y)) * (in(r, y) - mean(y));
    scale(y) = squares(y) / 256 + 1;
    out(x, y) = (in(x, y) - mean(y)) * 1000 / scale(y);
    return {out};
}

TEST(SearchSpace, RowsAreSummedWhileTheyAreNear) {
    const TestPipeline pipeline = {"rows_in_two_sums", rows_in_two_sums, {256, 64}};
    Problem problem = problem_of_test(pipeline, cpu);
    search::PlanContext context(problem);
    EXPECT_TRUE(context.reduces_contiguous("sum"));
    EXPECT_TRUE(context.reduces_contiguous("squares")) << "the mean does not move with the reduction";
    // Some seed has both sums, and what lies between them, row by row in the loops of `out`.
    int found = 0;
    for (const Candidate &c : search::pipeline_space(problem)->seeds()) {
        std::optional<search::Plan> plan = search::plan_of(context, c.schedule);
        ASSERT_TRUE(plan) << c.text();
        bool near = true;
        for (const char *func : {"sum", "squares", "mean", "scale"}) {
            const search::FuncPlan &f = plan->funcs.at(func);
            near = near && (f.place.where == search::Where::Inline ||
                            (f.place.where == search::Where::At &&
                             context.region(*plan, func, f.place) == std::vector<int64_t>{1}));
        }
        if (near && found++ == 0) {
            EXPECT_GT(plan->funcs.at("squares").rfactor, 0) << c.text();
            expect_right(pipeline, values_of(pipeline, nullptr), c);
        }
    }
    EXPECT_GT(found, 0);
}

TEST(SearchSpace, StepsOfABeamAreLegalAndSaidOnce) {
    for (const char *name : {"stencils", "matmul", "softmax_like"}) {
        const TestPipeline &pipeline = small_pipeline(name);
        Problem problem = problem_of_test(pipeline, cpu);
        std::unique_ptr<Space> space = search::pipeline_space(problem);
        for (const Candidate &from : {space->seeds().at(0), space->plain()}) {
            std::vector<Candidate> next = space->expand(from, 200);
            EXPECT_GT(next.size(), 20u) << name << " " << from.origin;
            EXPECT_LE(next.size(), 200u);
            std::set<std::string> texts;
            for (const Candidate &c : next) {
                expect_ordinary(problem, c);
                texts.insert(c.text());
            }
            EXPECT_GT(texts.size() + 10, next.size());
            // The same again.
            std::vector<Candidate> again = search::pipeline_space(problem)->expand(from, 200);
            ASSERT_EQ(again.size(), next.size());
            for (size_t i = 0; i < next.size(); i++) {
                EXPECT_EQ(again[i].text(), next[i].text());
            }
        }
    }
}

// K34: whatever the pipeline, a legal schedule comes back in time.
TEST(SearchSpace, AnyPipelineHasAScheduleInTime) {
    for (const TestPipeline &pipeline : hard_pipelines()) {
        SCOPED_TRACE(pipeline.name);
        double start = processor_s();
        Problem problem = problem_of_test(pipeline, cpu);
        std::unique_ptr<Space> space = search::pipeline_space(problem);
        const double budget = 0.5;
        Candidate best =
            search::predict_best(problem, *space, search::Model::shipped(), search::SearchOptions{}, budget);
        EXPECT_LT(processor_s() - start, budget + 8);
        EXPECT_EQ(search::reject_reason(problem, best.schedule), "");
        EXPECT_EQ(search::reject_reason(problem, space->plain().schedule), "");
    }
}

Schedule parse(const std::string &text) {
    ParseResult parsed = parse_schedules(text, "test.sched");
    EXPECT_TRUE(parsed.ok()) << render_all(parsed.diagnostics, text);
    return parsed.schedules.at(0);
}

TEST(SearchSpace, OfAFamilyOnlyTheKnobsVary) {
    const TestPipeline &pipeline = small_pipeline("stencils");
    Problem problem = problem_of_test(pipeline, cpu);
    Schedule family =
        parse("schedule tiles {\n"
              "  target cpu\n"
              "  knob width in {8, 16, 4}, height in {2, 4}, tail in {GuardWithIf, ShiftInwards}\n"
              "  require width * height <= 32\n"
              "  out.split(x, xo, xi, width, tail).split(y, yo, yi, height).reorder(xi, yi, xo, yo);\n"
              "  by.compute_at(out, xo);\n"
              "}\n");
    std::unique_ptr<Space> space = search::family_space(problem, family);
    EXPECT_EQ(space->seeds().size(), 10u); // 12, less 16 x 4 with either tail
    EXPECT_FALSE(space->rejected().empty());
    Rng rng(seed_of(3));
    std::set<std::string> seen;
    std::vector<int32_t> expected = values_of(pipeline, nullptr);
    Candidate at = space->seeds().at(0);
    for (int i = 0; i < 200; i++) {
        auto c = i % 3 == 0   ? space->random(rng)
                 : i % 3 == 1 ? space->mutate(at, rng)
                              : space->cross(at, space->seeds().back(), rng);
        if (!c) {
            continue;
        }
        at = *c;
        expect_ordinary(problem, *c);
        seen.insert(c->text());
        // It is a member: the family's own text with some values.
        bool member = false;
        for (const char *w : {"8", "16", "4"}) {
            for (const char *h : {"2", "4"}) {
                for (const char *t : {"GuardWithIf", "ShiftInwards"}) {
                    Schedule m = canonicalize(family, {{"width", w}, {"height", h}, {"tail", t}}).schedule;
                    member = member || m.statements == c->schedule.statements;
                }
            }
        }
        EXPECT_TRUE(member) << c->text();
    }
    EXPECT_EQ(seen.size(), 10u);
    expect_right(pipeline, expected, at);
    EXPECT_EQ(space->expand(space->seeds().at(0), 64).size(), 4u);
    // What a space of the whole pipeline takes over keeps its knobs.
    std::unique_ptr<Space> whole = search::pipeline_space(problem);
    std::optional<Candidate> adopted = whole->adopt(family, "hand");
    ASSERT_TRUE(adopted);
    int by_knob = 0;
    for (int i = 0; i < 20; i++) {
        auto c = whole->mutate(*adopted, rng);
        by_knob += c && c->origin == "mutate:knob";
    }
    EXPECT_GT(by_knob, 5);
}

TEST(SearchSpace, RejectionsHaveReasons) {
    Problem problem = problem_of_test(small_pipeline("stencils"), cpu);
    auto reason = [&](const std::string &body, const Problem &of) {
        return search::reject_reason(
            of, parse("schedule s {\n  target " + of.target.str() + "\n" + body + "}\n"));
    };
    EXPECT_EQ(reason("  bx.compute_at(out, z);\n", problem).substr(0, 5), "K0107");
    EXPECT_EQ(reason("  out.split(x, xo, xi, 32).split(y, yo, yi, 32).unroll(xi).unroll(yi);\n", problem),
              "limit more than 512 copies of a loop body");
    // The same fault of two schedules is one reason.
    EXPECT_EQ(reason("  bx.compute_at(out, z);\n", problem), reason("  by.compute_at(out, q);\n", problem));

    TestPipeline wide = small_pipeline("stencils");
    wide.sizes = {4096, 4096};
    Problem gpu = problem_of_test(wide, Target::parse("opencl"));
    EXPECT_EQ(
        reason("  out.gpu_tile(x, y, xo, yo, xi, yi, 16, 16);\n  bx.compute_at(out, xo).store_in(GPUShared)"
               ".gpu_threads(x, y);\n  by.compute_at(out, xi);\n",
               gpu),
        "");
    EXPECT_NE(reason("  out.split(y, yo, yi, 16).split(x, xo, xi, 16).reorder(xi, yi, xo, yo).gpu_blocks(yo)"
                     ".gpu_threads(yi);\n  bx.compute_at(out, yo).store_in(GPUShared).gpu_threads(y);\n",
                     gpu),
              "");
}

} // namespace
} // namespace kiln::test
