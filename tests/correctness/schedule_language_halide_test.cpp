// The printed Halide calls compile in a generator, and a schedule printed so computes what the algorithm says.
#include "Halide.h"

#include <gtest/gtest.h>

namespace {

using namespace Halide;

/// Compiled, not run: every form of every directive is a call that Halide has.
class Every : public Generator<Every> {
public:
    Input<Buffer<float, 2>> src{"src"};
    Input<int> n{"n"};
    Input<float> alpha{"alpha"};
    Output<Buffer<float, 2>> y{"y"};

    Func f{"f"}, g{"g"}, h{"h"}, p{"p"}, q{"q"}, acc{"acc"};
    RDom k, r;

    void generate() {
        Var x("x"), v("y"), z("z"), u("u");
        k = RDom(0, 64, "k");
        r = RDom(0, 8, 0, 8, "r");
        f(x, v, z) = src(x, v) + z;
        g(x, v) = src(x, v);
        h(x, v, z) = f(x, v, z);
        p(x, v, u) = src(x, v) + u;
        q(x, v) = src(x, v);
        acc(x, v) = f(x, v, 0) + p(x, v, 0) + q(x, v);
        acc(x, v) += g(x, v) * k;
        acc(x, v) += h(x, v, r.x) * r.y;
        y(x, v) = acc(x, v);
    }

    void schedule() {
#include "tests/golden/schedule/every.halide.inc"
    }
};

TEST(ScheduleHalide, printed_calls_compile_in_a_generator) {
    EXPECT_TRUE((std::is_base_of_v<Generator<Every>, Every>));
}

// Small integers: the result is exact whatever the order of summation. Extents that no factor divides.
TEST(ScheduleHalide, printed_schedule_computes_the_algorithm) {
    const int size_n = 45, size_m = 13, depth = 30;
    Buffer<float> a(depth, size_m), b(size_n, depth);
    a.for_each_element([&](int i, int j) { a(i, j) = static_cast<float>((i * 7 + j * 3) % 11 - 5); });
    b.for_each_element([&](int i, int j) { b(i, j) = static_cast<float>((i * 5 + j * 2) % 13 - 6); });

    ImageParam x(Float(32), 2, "x"), w(Float(32), 2, "w");
    Func acc("acc"), y("y");
    RDom k(0, depth, "k");
    Var n("n"), m("m");
    acc(n, m) = 0.f;
    acc(n, m) += x(k, m) * w(n, k);
    y(n, m) = max(acc(n, m), 0.f);
#include "tests/golden/schedule/gemm.halide.inc"
    x.set(a);
    w.set(b);
    Target target("x86-64-linux-sse41-avx-f16c-fma-avx2");
    Buffer<float> out = y.realize({size_n, size_m}, target);
    for (int j = 0; j < size_m; j++) {
        for (int i = 0; i < size_n; i++) {
            float sum = 0;
            for (int l = 0; l < depth; l++) {
                sum += a(l, j) * b(i, l);
            }
            ASSERT_EQ(out(i, j), std::max(sum, 0.f)) << i << ", " << j;
        }
    }
}

} // namespace
