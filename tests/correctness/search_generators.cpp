// Algorithms for the tests of tuning: build/lib/kiln_search_generators.so.
#include "dsl/generator/Generator.h"

#include <Halide.h>

namespace {

using namespace Halide;

/// y = x + 1: what a kernel that works in place would do to its own input.
class SearchIncrement : public Generator<SearchIncrement> {
public:
    GeneratorParam<float> step{"step", 1.0f};
    Input<Buffer<float, 1>> x{"x"};
    Output<Buffer<float, 1>> y{"y"};
    Var i{"i"};
    void generate() {
        y(i) = x(i) + Expr(float(step));
        x.dim(0).set_min(0);
        y.dim(0).set_min(0);
    }
};

/// Counts of values: updates at places that only the data tells.
class SearchHistogram : public Generator<SearchHistogram> {
public:
    Input<Buffer<uint8_t, 2>> x{"x"};
    Output<Buffer<int32_t, 1>> h{"h"};
    Var b{"b"};
    void generate() {
        RDom k(0, x.dim(0).extent(), 0, x.dim(1).extent(), "k");
        h(b) = 0;
        h(clamp(cast<int>(x(k.x, k.y)), 0, 7)) += 1;
        for (int d = 0; d < 2; d++) {
            x.dim(d).set_min(0);
        }
        h.dim(0).set_min(0);
        h.dim(0).set_extent(8);
    }
};

/// Rows of 64 read by their division and rest.
class SearchGather : public Generator<SearchGather> {
public:
    Input<Buffer<float, 2>> x{"x"};
    Output<Buffer<float, 1>> y{"y"};
    Var i{"i"};
    void generate() {
        y(i) = x(i % 64, i / 64) * 2.0f;
        for (int d = 0; d < 2; d++) {
            x.dim(d).set_min(0);
        }
        y.dim(0).set_min(0);
    }
};

/// Forty stages, each of which reads three neighbours of the one before.
class SearchDeep : public Generator<SearchDeep> {
public:
    Input<Buffer<float, 1>> x{"x"};
    Output<Buffer<float, 1>> y{"y"};
    Var i{"i"};
    void generate() {
        Func last("f0");
        last(i) = x(clamp(i, 0, x.dim(0).extent() - 1));
        for (int s = 1; s < 40; s++) {
            Func next("f" + std::to_string(s));
            next(i) = 0.25f * last(i - 1) + 0.5f * last(i) + 0.25f * last(i + 1);
            last = next;
        }
        y(i) = last(i);
        x.dim(0).set_min(0);
        y.dim(0).set_min(0);
    }
};

/// A generator that dies when it is built.
class SearchAborts : public Generator<SearchAborts> {
public:
    Input<Buffer<float, 1>> x{"x"};
    Output<Buffer<float, 1>> y{"y"};
    void generate() { abort(); }
};

kiln::Workload work(const char *name, std::map<std::string, std::vector<int64_t>> extents) {
    return {name, std::move(extents), {}, {}, true};
}

} // namespace

KILN_GENERATOR(SearchIncrement, search_increment,
               {.summary = "y = x + 1", .workloads = {work("n1000", {{"x", {1000}}, {"y", {1000}}})}})
KILN_GENERATOR(SearchHistogram, search_histogram,
               {.summary = "counts of values", .workloads = {work("67x33", {{"x", {67, 33}}, {"h", {8}}})}})
KILN_GENERATOR(SearchGather, search_gather,
               {.summary = "rows by division",
                .workloads = {work("one", {{"x", {64, 1}}, {"y", {1}}}),
                              work("n4096", {{"x", {64, 64}}, {"y", {4096}}})}})
KILN_GENERATOR(SearchDeep, search_deep,
               {.summary = "forty stages", .workloads = {work("n500", {{"x", {500}}, {"y", {500}}})}})
KILN_GENERATOR(SearchAborts, search_aborts,
               {.summary = "dies", .workloads = {work("n10", {{"x", {10}}, {"y", {10}}})}})
