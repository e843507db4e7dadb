/** \file
 * Small generators for the tests of builds and of the runtime, and some that misbehave.
 */
#include "dsl/generator/Generator.h"

#include <Halide.h>

#include <cstdlib>
#include <vector>

namespace {

/// y = max(a x + b, 0).
class TestChain : public Halide::Generator<TestChain> {
public:
    Input<Buffer<float, 2>> x{"x"};
    Input<float> a{"a"};
    Input<float> b{"b", 0.0f, -100.0f, 100.0f};
    Output<Buffer<float, 2>> y{"y"};
    void generate() { y(i, j) = max(a * x(i, j) + b, 0.0f); }

private:
    Var i{"i"}, j{"j"};
};

/// c = a b, with sums over a dimension that may be empty.
class TestProduct : public Halide::Generator<TestProduct> {
public:
    GeneratorParam<Halide::Type> type{"type", Float(32)};
    Input<Buffer<void, 2>> a{"a"}; ///< (k, m)
    Input<Buffer<void, 2>> b{"b"}; ///< (n, k)
    Output<Buffer<float, 2>> c{"c"};
    void configure() {
        a.set_type(type);
        b.set_type(type);
    }
    void generate() {
        Halide::RDom k(0, a.dim(0).extent(), "k");
        c(n, m) = 0.0f;
        c(n, m) += cast<float>(a(k, m)) * cast<float>(b(n, k));
        b.dim(1).set_extent(a.dim(0).extent());
        b.dim(0).set_stride(Halide::Expr());
    }

private:
    Var n{"n"}, m{"m"};
};

/// Sums over an intermediate value, which is empty where the sums are.
class TestScaledSum : public Halide::Generator<TestScaledSum> {
public:
    Input<Buffer<float, 2>> x{"x"}; ///< (k, n)
    Output<Buffer<float, 1>> y{"y"};
    void generate() {
        Func twice{"twice"}, sum{"sum"};
        Halide::RDom k(0, x.dim(0).extent(), "k");
        twice(i, n) = 2.0f * x(i, n);
        sum(n) = 1.0f;
        sum(n) += twice(k, n);
        y(n) = sum(n);
    }

private:
    Var i{"i"}, n{"n"};
};

/// y(i) = x(i - 1) + x(i) + x(i + 1): its input must be larger than its output.
class TestStencil : public Halide::Generator<TestStencil> {
public:
    Input<Buffer<float, 1>> x{"x"};
    Output<Buffer<float, 1>> y{"y"};
    void generate() { y(i) = x(i - 1) + x(i) + x(i + 1); }

private:
    Var i{"i"};
};

/// Sum and maximum of rows: two outputs of one rank, from a Tuple.
class TestPair : public Halide::Generator<TestPair> {
public:
    Input<Buffer<int32_t, 2>> x{"x"};
    Output<Buffer<>> y{"y", {Int(32), Int(32)}, 1};
    void generate() {
        Halide::RDom r(x.dim(0).min(), x.dim(0).extent(), "r");
        y(j) = {0, Int(32).min()};
        y(j) = {y(j)[0] + x(r, j), max(y(j)[1], x(r, j))};
    }

private:
    Var j{"j"};
};

/// An intermediate value at root, so that a call takes memory.
class TestScratch : public Halide::Generator<TestScratch> {
public:
    Input<Buffer<float, 2>> x{"x"};
    Output<Buffer<float, 2>> y{"y"};
    void generate() {
        Func twice{"twice"};
        twice(i, j) = 2.0f * x(i, j);
        y(i, j) = twice(i, j) + 1.0f;
        twice.compute_root();
    }

private:
    Var i{"i"}, j{"j"};
};

/// Sums that cannot be inlined: an intermediate value on any target.
class TestScratchRoot : public Halide::Generator<TestScratchRoot> {
public:
    Input<Buffer<float, 2>> x{"x"};
    Output<Buffer<float, 2>> y{"y"};
    void generate() {
        Func rows{"rows"};
        Halide::RDom r(x.dim(0).min(), x.dim(0).extent(), "r");
        rows(j) = 0.0f;
        rows(j) += x(r, j);
        y(i, j) = x(i, j) - rows(j);
    }

private:
    Var i{"i"}, j{"j"};
};

class TestBadNews : public Halide::Generator<TestBadNews> {
public:
    GeneratorParam<std::string> what{"what", "abort"};
    Input<Buffer<float, 1>> x{"x"};
    Output<Buffer<float, 1>> y{"y"};
    void generate() {
        Var i{"i"};
        y(i) = x(i);
        std::string w = what.value();
        if (w == "abort") {
            fputs("the end is near\n", stderr);
            abort();
        } else if (w == "crash") {
            volatile int *nowhere = nullptr;
            *nowhere = 1;
        } else if (w == "hang") {
            for (volatile bool forever = true; forever;) {
            }
        } else if (w == "memory") {
            std::vector<std::vector<char>> hoard;
            for (;;) {
                hoard.emplace_back(size_t(1) << 28, 'x');
            }
        } else if (w == "exit") {
            exit(3);
        }
    }
};

/// Its arguments depend on the target.
class TestMoody : public Halide::Generator<TestMoody> {
public:
    Input<Buffer<>> x{"x", 1};
    Output<Buffer<float, 1>> y{"y"};
    void configure() { x.set_type(get_target().has_feature(Halide::Target::AVX2) ? Float(32) : Int(32)); }
    void generate() {
        Var i{"i"};
        y(i) = cast<float>(x(i));
    }
};

class TestRefused : public Halide::Generator<TestRefused> {
public:
    Input<Buffer<float, 1>> x{"x"};
    Output<Buffer<float, 1>> y{"y"};
    void generate() { throw Halide::CompileError("Error: this generator is never satisfied\n"); }
};

/// More arguments than a kernel may have.
class TestWide : public Halide::Generator<TestWide> {
public:
    Input<Buffer<float, 1>[33]> x { "x" };
    Output<Buffer<float, 1>> y{"y"};
    void generate() {
        Var i{"i"};
        y(i) = 0.0f;
        for (int n = 0; n < 33; n++) {
            y(i) += x[n](i);
        }
    }
};

} // namespace

KILN_GENERATOR(TestChain, test_chain, {.summary = "max(a x + b, 0)"})
KILN_GENERATOR(TestProduct, test_product, {.summary = "a matrix product"})
KILN_GENERATOR(TestScaledSum, test_scaled_sum, {.summary = "sums of an intermediate value"})
KILN_GENERATOR(TestStencil, test_stencil, {.summary = "three neighbours"})
KILN_GENERATOR(TestPair, test_pair, {.summary = "sum and maximum of rows"})
KILN_GENERATOR(TestScratch, test_scratch, {.summary = "an intermediate value"})
KILN_GENERATOR(TestBadNews, test_bad_news, {.summary = "a generator that misbehaves"})
KILN_GENERATOR(TestMoody, test_moody, {.summary = "arguments that depend on the target"})
KILN_GENERATOR(TestRefused, test_refused, {.summary = "a generator that throws"})
KILN_GENERATOR(TestWide, test_wide, {.summary = "too many arguments"})
KILN_GENERATOR(TestScratchRoot, test_scratch_root, {.summary = "rows without their sum"})
