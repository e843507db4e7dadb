// The evaluator against loops written by hand and against Halide itself: values, bounds, exactness, faults.
#include "dsl/check/Evaluator.h"
#include "dsl/check/Tolerance.h"
#include "dsl/support/Diagnostic.h"

#include <Halide.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace kiln {
namespace {

using namespace Halide;

const Target test_target("x86-64-linux-sse41-avx-f16c-fma-avx2");

Buffer<float> random_floats(const std::vector<int> &extents, unsigned seed, float low = -1, float high = 1) {
    Buffer<float> out(extents);
    std::mt19937 rng(seed);
    std::uniform_real_distribution<float> d(low, high);
    out.for_each_value([&](float &v) { v = d(rng); });
    return out;
}

Buffer<float> random_integers(const std::vector<int> &extents, unsigned seed, int low = -3, int high = 3) {
    Buffer<float> out(extents);
    std::mt19937 rng(seed);
    std::uniform_int_distribution<int> d(low, high);
    out.for_each_value([&](float &v) { v = float(d(rng)); });
    return out;
}

/// Realizes with Halide's default schedule and compares every element with the evaluator's value and bound.
/// Returns the largest bound relative to the largest value.
template<typename T>
double agree_with_halide(Func f, const std::vector<int> &extents, Evaluator &evaluator) {
    Buffer<T> got = f.realize(extents, test_target);
    const Type type = evaluator.output_types(0)[0];
    double worst = 0, largest = 1e-30;
    int failures = 0;
    got.for_each_element([&](const int *at) {
        std::vector<int> point(at, at + extents.size());
        Value v = evaluator.at(0, 0, point);
        if (type.is_float()) {
            double g = double(got(at)), bound = full_error(v, type);
            bool same = (std::isnan(g) && std::isnan(v.v)) || g == v.v;
            worst = std::max(worst, bound);
            largest = std::max(largest, std::isfinite(v.v) ? std::abs(v.v) : 0);
            if (!same && !(std::abs(g - v.v) <= bound) && failures++ < 3) {
                ADD_FAILURE() << "at " << at[0] << ": Halide " << g << ", evaluator " << v.v << " ± "
                              << bound;
            }
        } else if (int64_t(got(at)) != v.i && failures++ < 3) {
            ADD_FAILURE() << "at " << at[0] << ": Halide " << int64_t(got(at)) << ", evaluator " << v.i;
        }
    });
    EXPECT_EQ(failures, 0);
    return worst / largest;
}

struct Matmul {
    ImageParam a{Float(32), 2, "a"}, b{Float(32), 2, "b"};
    Func c{"c"};
    Var n{"n"}, m{"m"};
    explicit Matmul(int k_extent) {
        RDom k(0, k_extent, "k");
        c(n, m) = 0.0f;
        c(n, m) += a(k, m) * b(n, k);
    }
};

TEST(Evaluator, MatmulIsTheSumAndTheBoundIsTheFormula) {
    constexpr int M = 7, N = 5, K = 33;
    Matmul mm(K);
    Buffer<float> a = random_floats({K, M}, 1), b = random_floats({N, K}, 2);
    Evaluator e({mm.c});
    e.bind("a", a.raw_buffer());
    e.bind("b", b.raw_buffer());
    for (int m = 0; m < M; m++) {
        for (int n = 0; n < N; n++) {
            double sum = 0, size = 0;
            for (int k = 0; k < K; k++) {
                sum += double(a(k, m)) * b(n, k);
                size += std::abs(double(a(k, m)) * b(n, k));
            }
            Value v = e.at(0, 0, {n, m});
            EXPECT_NEAR(v.v, sum, 1e-12);
            double formula = tolerance(Float(32), Float(32), K, sum, size);
            EXPECT_LE(full_error(v, Float(32)), formula * 1.0001);
            EXPECT_GE(full_error(v, Float(32)), formula * 0.8);
        }
    }
}

TEST(Evaluator, IntegerProbesAllowNoError) {
    Matmul mm(64);
    Buffer<float> a = random_integers({64, 4}, 3), b = random_integers({4, 64}, 4);
    Evaluator e({mm.c});
    e.bind("a", a.raw_buffer());
    e.bind("b", b.raw_buffer());
    for (int i = 0; i < 16; i++) {
        EXPECT_EQ(full_error(e.at(0, 0, {i % 4, i / 4}), Float(32)), 0);
    }
    // Above 2^24 a sum of float32 integers depends on its order.
    Buffer<float> large(64, 4);
    large.fill(300001.0f);
    Buffer<float> ones(4, 64);
    ones.fill(3.0f);
    e.bind("a", large.raw_buffer());
    e.bind("b", ones.raw_buffer());
    EXPECT_GT(full_error(e.at(0, 0, {0, 0}), Float(32)), 0);
}

TEST(Evaluator, ADeepChainHasABoundThatIsNeitherNothingNorEverything) {
    ImageParam x(Float(32), 1, "x");
    Var i("i");
    Func last("stage0");
    last(i) = x(clamp(i, 0, 99));
    for (int s = 1; s <= 60; s++) {
        Func next("stage" + std::to_string(s));
        next(i) = 0.25f * last(i - 1) + 0.5f * last(i) + 0.25f * last(i + 1);
        last = next;
    }
    Evaluator e({last});
    Buffer<float> in = random_integers({100}, 5);
    e.bind("x", in.raw_buffer());
    for (int at : {0, 50, 99}) {
        Value v = e.at(0, 0, {at});
        EXPECT_GT(full_error(v, Float(32)), 1e-7) << "sixty stages do not fit into 24 bits";
        EXPECT_LT(full_error(v, Float(32)), 1e-2);
    }
}

TEST(Evaluator, SamplesOfALargeMatmulCostOnlyThemselves) {
    constexpr int S = 256;
    Matmul mm(S);
    Buffer<float> a = random_floats({S, S}, 5), b = random_floats({S, S}, 6);
    Evaluator e({mm.c});
    e.bind("a", a.raw_buffer());
    e.bind("b", b.raw_buffer());
    for (int i = 0; i < 500; i++) {
        e.at(0, 0, {(i * 37) % S, (i * 101) % S});
    }
    EXPECT_LT(e.steps(), 500 * S * 12);
}

TEST(Evaluator, ChainsWithMathAgreeWithHalide) {
    ImageParam x(Float(32), 1, "x");
    Param<float> scale("scale");
    Func f("f");
    Var i("i");
    Expr v = x(i) * scale + 0.5f;
    f(i) = v * 0.5f * (1.0f + erf(v * 0.70710678f)) + log(abs(v) + 1.0f) / (exp(-v) + 2.0f) +
           select(v > 0.25f, sqrt(max(v, 0.0f)), tanh(v)) + pow(abs(v) + 0.5f, 1.7f);
    Buffer<float> data = random_floats({500}, 7, -4, 4);
    x.set(data);
    scale.set(1.25f);
    Evaluator e({f});
    e.bind("x", data.raw_buffer());
    e.bind_scalar("scale", 1.25);
    EXPECT_LT(agree_with_halide<float>(f, {500}, e), 2e-5);
    EXPECT_EQ(e.buffers(), std::vector<std::string>{"x"});
    EXPECT_EQ(e.scalars(), std::vector<std::string>{"scale"});
}

TEST(Evaluator, ScansHistogramsAndPredicatesFollowHalidesOrder) {
    ImageParam x(Int(32), 1, "x");
    Buffer<int> data(40);
    for (int i = 0; i < 40; i++) {
        data(i) = (i * i * 7 + 3) % 11;
    }
    x.set(data);
    Var i("i"), j("j");
    Func scan("scan"), histogram("histogram"), triangle("triangle");
    RDom r(1, 39, "r"), all(0, 40, "all");
    scan(i) = x(i);
    scan(r) = scan(r - 1) * 2 + x(r) - scan(r) / 3;
    histogram(i) = 0;
    histogram(clamp(x(all), 0, 10)) += 1;
    RDom t(0, 10, 0, 10, "t");
    t.where(t.x > t.y);
    t.where(x(t.x) != x(t.y));
    triangle(i, j) = i - j;
    triangle(t.x, t.y) += triangle(t.y, t.x) + x(t.x);
    triangle(i, 3) += i;
    triangle(2, j) -= j;
    for (auto [f, extents] :
         {std::pair{scan, std::vector{40}}, {histogram, std::vector{11}}, {triangle, std::vector{10, 10}}}) {
        Evaluator e({f});
        e.bind("x", data.raw_buffer());
        agree_with_halide<int>(f, extents, e);
    }
}

TEST(Evaluator, IntegersWrapAndDivideAsHalideDefines) {
    ImageParam x(Int(32), 1, "x");
    Buffer<int> data(64);
    std::mt19937 rng(8);
    for (int i = 0; i < 64; i++) {
        data(i) = int(rng());
    }
    x.set(data);
    Var i("i");
    Expr a = x(i), b = x(63 - i) % 17 - 8;
    auto check = [&](const Expr &value) {
        Func f;
        f(i) = cast<int64_t>(value);
        Evaluator e({f});
        e.bind("x", data.raw_buffer());
        agree_with_halide<int64_t>(f, {64}, e);
    };
    check(a / b);
    check(a % b);
    check(cast<int8_t>(a));
    check(cast<uint8_t>(a) * cast<uint8_t>(b));
    check(cast<uint16_t>(a) + cast<uint16_t>(Expr(50000)));
    check(cast<uint32_t>(a) / 7);
    check(cast<uint32_t>(a) >> 5);
    check(a >> 5);
    check(cast<int16_t>(a) << 3);
    check(cast<uint32_t>(a) & 0xff00ff);
    check(saturating_cast<uint8_t>(a / 100000));
    check(count_leading_zeros(cast<uint32_t>(a)));
    check(cast<int>(select(cast<uint32_t>(a) > cast<uint32_t>(x(63 - i)), 1, 2)));
    check(cast<uint64_t>(absd(cast<int16_t>(a), cast<int16_t>(x(63 - i)))));
    check(cast<int>(cast<float>(a) / 1024.0f));
}

TEST(Evaluator, SixteenBitFloatsRoundToEven) {
    Var i("i");
    ImageParam x(Float(32), 1, "x");
    Buffer<float> data = random_floats({200}, 9, -100, 100);
    data(0) = 1.00390625f; // half way between two bfloat16
    data(1) = 1.01171875f;
    data(2) = 65519.0f;
    data(3) = 65520.0f; // float16 overflows here
    data(4) = 3.0e-8f;  // half the smallest float16 subnormal is 2.98e-8
    x.set(data);
    for (const Type &t : {Float(16), BFloat(16)}) {
        Func f;
        f(i) = cast<float>(cast(t, x(i)));
        Evaluator e({f});
        e.bind("x", data.raw_buffer());
        EXPECT_EQ(agree_with_halide<float>(f, {200}, e), 0) << t;
    }
}

TEST(Evaluator, BufferShiftsAndExtentsAreSeen) {
    ImageParam x(Float(32), 1, "x");
    Func f("f");
    Var i("i");
    f(i) = x(clamp(i, x.dim(0).min(), x.dim(0).max())) + cast<float>(x.dim(0).extent());
    Buffer<float> data = random_floats({10}, 10);
    data.set_min(5);
    x.set(data);
    Evaluator e({f});
    e.bind("x", data.raw_buffer());
    EXPECT_LT(agree_with_halide<float>(f, {30}, e), 1e-6);
}

/// Softmax attention in the blocked associative form.
Func blocked_attention(ImageParam q, ImageParam k, ImageParam v, int depth, int keys, int block) {
    Var d("d"), i("i"), j("j"), t("t");
    Func s("s"), b("b"), p("p"), sums("sums"), pv("pv"), acc("acc"), out("out");
    RDom rd(0, depth, "rd"), rj(0, block, "rj"), rt(0, keys / block, "rt");
    s(j, i) = 0.0f;
    s(j, i) += q(rd, i) * k(rd, j);
    b(t, i) = -std::numeric_limits<float>::infinity();
    b(t, i) = max(b(t, i), s(t * block + rj, i));
    p(j, i) = exp(s(j, i) - b(j / block, i));
    sums(t, i) = 0.0f;
    sums(t, i) += p(t * block + rj, i);
    pv(d, t, i) = 0.0f;
    pv(d, t, i) += p(t * block + rj, i) * v(d, t * block + rj);
    Expr inf = std::numeric_limits<float>::infinity();
    acc(d, i) = Tuple(-inf, 0.0f, 0.0f);
    Expr m = acc(d, i)[0], u = max(m, b(rt, i));
    Expr safe = select(u == -inf, 0.0f, u);
    acc(d, i) = Tuple(u, acc(d, i)[1] * exp(m - safe) + sums(rt, i) * exp(b(rt, i) - safe),
                      acc(d, i)[2] * exp(m - safe) + pv(d, rt, i) * exp(b(rt, i) - safe));
    out(d, i) = acc(d, i)[2] / acc(d, i)[1];
    return out;
}

TEST(Evaluator, BlockedAttentionKeepsATightBound) {
    constexpr int D = 16, Q = 6, K = 128;
    ImageParam q(Float(32), 2, "q"), k(Float(32), 2, "k"), v(Float(32), 2, "v");
    Func out = blocked_attention(q, k, v, D, K, 16);
    Buffer<float> bq = random_floats({D, Q}, 11), bk = random_floats({D, K}, 12),
                  bv = random_floats({D, K}, 13);
    q.set(bq);
    k.set(bk);
    v.set(bv);
    Evaluator e({out});
    e.bind("q", bq.raw_buffer());
    e.bind("k", bk.raw_buffer());
    e.bind("v", bv.raw_buffer());
    for (int i = 0; i < Q; i++) {
        std::vector<double> p(K);
        double sum = 0;
        for (int j = 0; j < K; j++) {
            double s = 0;
            for (int d = 0; d < D; d++) {
                s += double(bq(d, i)) * bk(d, j);
            }
            sum += p[j] = std::exp(s);
        }
        for (int d = 0; d < D; d++) {
            double o = 0, size = 0;
            for (int j = 0; j < K; j++) {
                o += p[j] / sum * bv(d, j);
                size += p[j] / sum * std::abs(bv(d, j));
            }
            Value got = e.at(0, 0, {d, i});
            EXPECT_NEAR(got.v, o, 1e-12);
            EXPECT_LT(full_error(got, Float(32)),
                      3e-4 * size); // the shifts' errors cancel: no growth with blocks
        }
    }
    agree_with_halide<float>(out, {D, Q}, e);
}

TEST(Evaluator, RowsWithoutKeysAndSpecialValues) {
    ImageParam x(Float(32), 1, "x");
    float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    Buffer<float> data(6);
    float values[] = {nan, inf, -inf, -0.0f, 1e-41f, 3e38f};
    std::copy(values, values + 6, data.begin());
    Var i("i");
    auto value = [&](const Expr &formula, int at) {
        Func f;
        f(i) = formula;
        Evaluator e({f});
        e.bind("x", data.raw_buffer());
        return e.at(0, 0, {at});
    };
    EXPECT_TRUE(std::isnan(value(x(i) * 2.0f + 1.0f, 0).v));
    EXPECT_TRUE(std::isnan(value(max(x(i), 0.0f), 0).v));
    EXPECT_TRUE(std::isnan(value(x(i) - x(i), 1).v));
    EXPECT_EQ(value(exp(x(i)), 2).v, 0);
    EXPECT_EQ(full_error(value(exp(x(i)), 2), Float(32)), 0);
    EXPECT_EQ(value(exp(x(i)), 1).v, inf);
    EXPECT_TRUE(std::signbit(value(x(i) * 3.0f, 3).v));
    EXPECT_GE(full_error(value(x(i) * 1e10f, 4), Float(32)), 9e-32); // may be flushed to 0
    EXPECT_EQ(value(x(i) * 2.0f, 5).v, inf);                         // overflows in float32
    EXPECT_EQ(value(select(x(i) < 0, 1.0f, 2.0f), 0).v, 2);
    EXPECT_EQ(value(select(is_nan(x(i)), 1.0f, 2.0f), 0).v, 1);
    // A 0 that the formula writes may swallow what it multiplies; one that was read may not.
    auto is_open = [&](const Expr &e, int at) { return std::isinf(full_error(value(e, at), Float(32))); };
    Expr padded = select(i < 3, 0.0f, x(i));
    EXPECT_TRUE(is_open(padded * x(1 - i + i), 0));
    EXPECT_TRUE(is_open(padded * x(i) + 1.0f, 0));
    EXPECT_TRUE(is_open(max(padded * x(i), 0.0f), 0));
    EXPECT_TRUE(is_open(padded * 2.0f * x(i), 0));
    EXPECT_TRUE(is_open(padded / x(i), 0));
    EXPECT_FALSE(is_open(padded + x(i), 0));
    EXPECT_FALSE(is_open(padded * x(5 - i + i), 0));
    EXPECT_FALSE(is_open(max(padded, x(3 - i + i)) * x(1 - i + i), 0));
    EXPECT_TRUE(std::isnan(value(x(3 - i + i) * x(1 - i + i), 0).v)); // -0 as read
    EXPECT_FALSE(is_open(x(3 - i + i) * x(1 - i + i), 0));
    EXPECT_FALSE(is_open((padded + x(3 - i + i)) * x(1 - i + i), 0));
    // Whether a rounded sum reaches a threshold is open: the bound must cover both answers.
    Value open = value(select(x(4 - 4 + 5) / 3.0f * 3.0f > 3e38f, 10.0f, 20.0f), 0);
    EXPECT_GE(full_error(open, Float(32)), 10);
}

std::string message_of(const std::function<void()> &body) {
    try {
        body();
    } catch (const Error &e) {
        return e.what();
    }
    return "no error";
}

TEST(Evaluator, K0801WhatHasNoValueOnPaper) {
    Func f("f");
    Var i("i");
    f(i) = undef<float>();
    EXPECT_EQ(message_of([&] { Evaluator e({f}); }),
              "error[K0801]: the reference evaluator cannot evaluate the intrinsic `undef`\n"
              "   = note: its value does not follow from the formula alone\n"
              "   = help: give `kiln check` a reference of your own, or write the algorithm without it\n");
}

TEST(Evaluator, K0802K0803K0804) {
    ImageParam x(Float(32), 1, "x");
    Param<int> shift("shift");
    Func f("f"), g("g");
    Var i("i");
    f(i) = x(i + shift);
    Evaluator e({f});
    EXPECT_EQ(message_of([&] { e.at(0, 0, {0}); }), "error[K0803]: the scalar input `shift` has no value\n"
                                                    "   = help: bind it before evaluating\n");
    e.bind_scalar("shift", 3);
    EXPECT_EQ(message_of([&] { e.at(0, 0, {0}); }), "error[K0803]: the input `x` is not bound\n"
                                                    "   = help: bind it before evaluating\n");
    Buffer<float> data = random_floats({4}, 14);
    e.bind("x", data.raw_buffer());
    EXPECT_EQ(message_of([&] { e.at(0, 0, {1}); }),
              "error[K0802]: the formula reads `x` at 4 in dimension 0, which spans 0 to 3\n"
              "   = help: give the input the extents that the outputs need\n");
    g(i) = 0.0f;
    RDom r(0, 100000, "r");
    g(r) = g(r - 1) + 1.0f;
    Evaluator scan({g});
    scan.memory_limit = 1 << 20;
    EXPECT_EQ(message_of([&] { scan.at(0, 0, {5}); }),
              "error[K0804]: the reference needs more than 1 MiB\n"
              "   = help: check fewer outputs at a time, or a smaller workload\n");
}

} // namespace
} // namespace kiln
