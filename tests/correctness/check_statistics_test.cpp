// Statistics and timing on data whose answer is known; trivial kernels against tolerances (K45).
#include "dsl/check/Compare.h"
#include "dsl/check/Evaluator.h"
#include "dsl/check/Measure.h"
#include "dsl/check/Statistics.h"
#include "dsl/check/Tolerance.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <random>
#include <thread>

namespace kiln {
namespace {

TEST(Statistics, MediansAndQuantiles) {
    EXPECT_EQ(median({3, 1, 2}), 2);
    EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
    EXPECT_EQ(median({}), 0);
    EXPECT_EQ(quantile({0, 10}, 0.25), 2.5);
    EXPECT_NEAR(geometric_mean({2, 8}), 4, 1e-12);
}

TEST(Statistics, IntervalsCoverTheTruthAsOftenAsTheySay) {
    std::mt19937 rng(1);
    std::lognormal_distribution<double> noise(0, 0.2);
    int covered = 0, ratio_covered = 0, trials = 300;
    for (int t = 0; t < trials; t++) {
        std::vector<double> a(41), b(41);
        for (int i = 0; i < 41; i++) {
            a[i] = 10 * noise(rng);
            b[i] = 15 * noise(rng);
        }
        Interval m = median_interval(a), r = paired_ratio(a, b, t, 400);
        covered += m.low <= 10 && 10 <= m.high;
        ratio_covered += r.low <= 1.5 && 1.5 <= r.high;
    }
    EXPECT_GE(covered, trials * 0.93);
    EXPECT_GE(ratio_covered, trials * 0.87);
    EXPECT_LE(ratio_covered, trials); // an interval that is always right would be too wide to be of use
}

TEST(Statistics, DriftAndNoiseAreSeen) {
    std::vector<double> steady(60, 1.0), slowing(60);
    for (int i = 0; i < 60; i++) {
        slowing[i] = 1 + 0.005 * i;
    }
    EXPECT_EQ(drift(steady), 0);
    EXPECT_GT(drift(slowing), 0.15);
    EXPECT_GT(spread(slowing), 0.1);
}

TEST(Measure, TimesWorkInTurnAndWaitsForIt) {
    using namespace std::chrono_literals;
    // Work that is only queued: its time is in the wait.
    int queued = 0;
    Work slow{[&] { queued++; },
              [&] {
                  std::this_thread::sleep_for(queued * 2ms);
                  queued = 0;
              }};
    Work fast{[] { std::this_thread::sleep_for(1ms); }};
    int flushes = 0;
    MeasureOptions options;
    options.seconds = 0.05;
    options.flush = [&] { flushes++; };
    Measurement m = measure(slow, fast, options);
    EXPECT_GE(median(m.warm), 1.9e-3);
    EXPECT_GE(median(m.baseline_warm), 0.9e-3);
    EXPECT_EQ(m.warm.size(), m.baseline_warm.size());
    EXPECT_EQ(flushes, int(m.cold.size() + m.baseline_cold.size()));
    Interval r = paired_ratio(m.warm, m.baseline_warm);
    EXPECT_LT(r.high, 0.9);
}

// --- K45: what the tolerance lets through ------------------------------------------------------------------

using namespace Halide;

struct Task {
    ImageParam x{Float(32), 2, "x"};
    Func out{"out"};
    Var i{"i"}, j{"j"};
    int columns;
    Halide::Buffer<float> buffer;

    explicit Task(int n) : columns(n), buffer(n, 2) {
        std::mt19937 rng(n);
        std::normal_distribution<float> d(0, 1);
        buffer.for_each_value([&](float &v) { v = d(rng); });
    }
    std::string passes(int elements) {
        Evaluator e({out});
        e.bind("x", buffer.raw_buffer());
        auto points = sample_points({elements, 2}, 64, 1);
        points.resize(std::min<size_t>(points.size(), 48));
        auto identity = [&](const std::vector<int> &p) { return float_value(buffer(p[0], p[1])); };
        return trivial_answer(e, 0, 0, points, {identity});
    }
};

TEST(K45, ZeroConstantAndIdentityKernelsAreRefused) {
    { // softmax over 393216 columns: values of 2.5e-6, below any fixed tolerance
        Task t(393216);
        Func m, s;
        RDom r(0, t.columns, "r");
        m(t.j) = -std::numeric_limits<float>::infinity();
        m(t.j) = max(m(t.j), t.x(r, t.j));
        s(t.j) = 0.0f;
        s(t.j) += exp(t.x(r, t.j) - m(t.j));
        t.out(t.i, t.j) = exp(t.x(t.i, t.j) - m(t.j)) / s(t.j);
        EXPECT_EQ(t.passes(t.columns), "");
    }
    { // L2 norm of 65535 columns
        Task t(65535);
        Func s;
        RDom r(0, t.columns, "r");
        s(t.j) = 0.0f;
        s(t.j) += t.x(r, t.j) * t.x(r, t.j);
        t.out(t.i, t.j) = t.x(t.i, t.j) / sqrt(s(t.j));
        EXPECT_EQ(t.passes(t.columns), "");
    }
    { // minimum over a dimension
        Task t(4095);
        RDom r(0, t.columns, "r");
        t.out(t.i, t.j) = std::numeric_limits<float>::infinity();
        t.out(t.i, t.j) = min(t.out(t.i, t.j), t.x(r, t.j) * (cast<float>(t.i) + 1.0f));
        EXPECT_EQ(t.passes(8), "");
    }
    { // something that copies its input is known as such
        Task t(64);
        t.out(t.i, t.j) = t.x(t.i, t.j) + 0.0f;
        EXPECT_EQ(t.passes(64), "identity");
    }
}

TEST(K45, MeanOfSoftmaxAndUniformValuesAreNoTasks) {
    auto two_draws_differ = [](Task &t, int elements) {
        std::vector<Value> draws[2];
        for (int d = 0; d < 2; d++) {
            std::mt19937 rng(d);
            std::normal_distribution<float> n(0, 1);
            t.buffer.for_each_value([&](float &v) { v = n(rng); });
            Evaluator e({t.out});
            e.bind("x", t.buffer.raw_buffer());
            for (int i = 0; i < elements; i++) {
                draws[d].push_back(e.at(0, 0, {i, i % 2}));
            }
        }
        return differ(draws[0], draws[1], Float(32));
    };
    Task mean(1000), uniform(64), real(64);
    for (Task *t : {&mean, &uniform, &real}) {
        Func p("p"), s("s");
        RDom r(0, t->columns, "r"), q(0, t->columns, "q");
        p(t->i, t->j) = exp(t->x(t->i, t->j));
        s(t->j) = 0.0f;
        s(t->j) += p(r, t->j);
        t->out(t->i, t->j) = 0.0f;
        Expr weight = p(q, t->j) / s(t->j);
        t->out(t->i, t->j) += t == &mean      ? weight / 1000.0f
                              : t == &uniform ? weight * 0.5f // attention over values that are all the same
                                              : weight * t->x(q, 0);
    }
    EXPECT_FALSE(two_draws_differ(mean, 2));
    EXPECT_FALSE(two_draws_differ(uniform, 4));
    EXPECT_TRUE(two_draws_differ(real, 4));
}

TEST(Compare, SamplesCoverEdgesAndEverythingWhereItIsSmall) {
    auto all = sample_points({5, 3, 2}, 1000, 1);
    std::sort(all.begin(), all.end());
    EXPECT_EQ(std::unique(all.begin(), all.end()), all.end());
    EXPECT_EQ(all.size(), 30u);
    auto some = sample_points({100000, 100000}, 4096, 1);
    EXPECT_GE(some.size(), 4096u);
    EXPECT_LT(some.size(), 4096u + 64);
    for (std::vector<int> corner : {std::vector{0, 0}, {99999, 0}, {0, 99999}, {99999, 99999}}) {
        EXPECT_NE(std::find(some.begin(), some.end(), corner), some.end());
    }
    EXPECT_TRUE(sample_points({0, 5}, 100, 1).empty());
}

TEST(Compare, JudgesNaNInfinityAndZeros) {
    const Halide::Type f32 = Float(32);
    Value zero = float_value(0.0), minus = float_value(-0.0), nan = float_value(NAN),
          inf = float_value(INFINITY);
    EXPECT_FALSE(judge(minus, zero, f32).is_right);
    EXPECT_FALSE(judge(zero, nan, f32).is_right);
    EXPECT_FALSE(judge(nan, zero, f32).is_right);
    EXPECT_TRUE(judge(nan, nan, f32).is_right);
    EXPECT_FALSE(judge(inf, float_value(3e38), f32).is_right);
    EXPECT_TRUE(judge(zero, float_value(1e-40), f32).is_right); // flushed
    Value rounded = float_value(1);
    rounded.terms_error = 1e-7;
    EXPECT_TRUE(judge(float_value(1 + 1e-7), rounded, f32).is_right);
    EXPECT_FALSE(judge(float_value(1 + 2e-7), rounded, f32).is_right);
}

TEST(Tolerance, IsTheFormulaOfTheDocumentation) {
    EXPECT_EQ(unit_roundoff(BFloat(16)), std::ldexp(1, -8));
    EXPECT_EQ(unit_roundoff(Float(16)), std::ldexp(1, -11));
    EXPECT_EQ(unit_roundoff(Float(32)), std::ldexp(1, -24));
    EXPECT_EQ(unit_roundoff(Int(32)), 0);
    EXPECT_DOUBLE_EQ(tolerance(BFloat(16), Float(32), 1000, -2.0, 50.0),
                     std::ldexp(1, -8) * 2.0 + 1002 * std::ldexp(1, -23) * 50.0);
}

} // namespace
} // namespace kiln
