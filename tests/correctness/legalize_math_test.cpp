// legalize_math: NaN, infinities, signed zeros and denormals per function and target, against the C library in double.
#include "tests/correctness/jit.h"

#include "dsl/lower/LegalizeMath.h"
#include "dsl/ops/Activations.h"

#include <gtest/gtest.h>

#include <cfloat>
#include <fstream>

namespace kiln {
namespace {

using namespace Halide;
using namespace kiln::test;

const std::vector<float> special = {
    NAN,
    -NAN,
    float_of(0x7f800001),
    float_of(0xffc12345),
    INFINITY,
    -INFINITY,
    0.0f,
    -0.0f,
    1e-40f,
    -1e-40f,
    1e-38f,
    FLT_MIN,
    FLT_MAX,
    -FLT_MAX,
    1e30f,
    -1e30f,
    88.7f,
    88.72283f,
    88.8f,
    89.0f,
    -87.3f,
    -88.5f,
    -103.5f,
    -200.0f,
    1.0f,
    -1.0f,
    0.5f,
    -0.5f,
    0.1f,
    -0.1f,
    1e-4f,
    -1e-4f,
    0.624f,
    0.626f,
    3.0f,
    -3.0f,
    4.1f,
    -4.1f,
    9.5f,
    -9.5f,
    1.0000001f,
    0.99999994f,
    2.0f,
    -2.0f,
    3.9999998f,
    16777216.0f,
    8388609.0f,
    -8388609.0f,
};

struct Function1 {
    const char *name;
    std::function<Expr(Expr)> halide;
    std::function<double(double)> exact;
    double ulps;              ///< allowed error in units of 2^-24 of the result
    double absolute = 0;      ///< and in addition
    bool sign_of_zero = true; ///< whether the sign of a zero result is looked at
};

std::vector<Function1> functions() {
    auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
    return {
        {"exp", [](Expr x) { return exp(x); }, [](double x) { return std::exp(x); }, 16},
        {"log", [](Expr x) { return log(x); }, [](double x) { return std::log(x); }, 4, 1e-7},
        {"tanh", [](Expr x) { return tanh(x); }, [](double x) { return std::tanh(x); }, 6},
        {"Halide::erf", [](Expr x) { return Halide::erf(x); }, [](double x) { return std::erf(x); }, 8},
        {"ops::erf", [](Expr x) { return ops::erf(x); }, [](double x) { return std::erf(x); }, 8},
        {"sqrt", [](Expr x) { return sqrt(x); }, [](double x) { return std::sqrt(x); }, 4},
        {"negate", [](Expr x) { return -x; }, [](double x) { return -x; }, 0},
        {"abs", [](Expr x) { return abs(x); }, [](double x) { return std::fabs(x); }, 0},
        {"max(x, 0)", [](Expr x) { return max(x, 0.0f); },
         [](double x) { return x != x ? x : std::fmax(x, 0.0); }, 0, 0, false},
        {"max(1, x)", [](Expr x) { return max(1.0f, x); },
         [](double x) { return x != x ? x : std::fmax(x, 1.0); }, 0},
        {"min(x, 1)", [](Expr x) { return min(x, 1.0f); },
         [](double x) { return x != x ? x : std::fmin(x, 1.0); }, 0},
        {"clamp", [](Expr x) { return clamp(x, -2.0f, 2.0f); },
         [](double x) { return x != x ? x : std::fmin(std::fmax(x, -2.0), 2.0); }, 0},
        {"1 / x", [](Expr x) { return 1.0f / x; }, [](double x) { return 1 / x; }, 4},
        {"pow(x, 2)", [](Expr x) { return pow(x, 2.0f); }, [](double x) { return std::pow(x, 2.0); }, 4},
        {"pow(x, -3)", [](Expr x) { return pow(x, -3.0f); }, [](double x) { return std::pow(x, -3.0); }, 8},
        {"pow(x, 2.5)", [](Expr x) { return pow(x, 2.5f); }, [](double x) { return std::pow(x, 2.5); }, 256},
        {"pow(2, x)", [](Expr x) { return pow(2.0f, x); }, [](double x) { return std::pow(2.0, x); }, 256},
        {"pow(-2, x)", [](Expr x) { return pow(-2.0f, x); }, [](double x) { return std::pow(-2.0, x); }, 256},
        {"sigmoid", [](Expr x) { return ops::sigmoid(x); }, sigmoid, 24},
        {"silu", [](Expr x) { return ops::silu(x); }, [](double x) { return x / (1 + std::exp(-x)); }, 24},
        {"gelu", [](Expr x) { return ops::gelu(x); },
         [](double x) { return 0.5 * x * (1 + std::erf(x * std::sqrt(0.5))); }, 16, 1e-6, false},
        {"softplus", [](Expr x) { return ops::softplus(x); },
         [](double x) { return std::fmax(x, 0.0) + std::log1p(std::exp(-std::fabs(x))) + (x != x ? x : 0); },
         16, 1e-7},
    };
}

bool is_denormal(double x) {
    return x != 0 && std::fabs(x) < FLT_MIN;
}

/// Denormals may be taken for zeros, in arguments and in results.
bool agrees(float got, double want, const Function1 &f) {
    if (std::isnan(want)) {
        return std::isnan(got);
    }
    if (std::fabs(want) > FLT_MAX * (1 + 0x1p-25)) {
        want = std::copysign(INFINITY, want);
    }
    if (std::isinf(want)) {
        return got == float(want);
    }
    if (std::fabs(want) > FLT_MAX / 4 && f.absolute > 0) {
        return got == float(want) || std::isinf(got); // products of a chain may be taken in another order
    }
    if (want == 0 && got == 0) {
        return !f.sign_of_zero || std::signbit(want) == std::signbit(got);
    }
    double tolerance = f.ulps * 0x1p-24 * std::fabs(want) + f.absolute;
    return std::fabs(got - want) <= tolerance || (is_denormal(want) && std::fabs(got) <= FLT_MIN) ||
           (is_denormal(want) && f.absolute == 0 && got == 0);
}

/// All functions as one Tuple, which compiles once. `slack` multiplies the error that is allowed.
/// `computed`: the arguments come from a product, about which LLVM believes that it is neither NaN nor infinite.
void check_all(const Halide::Target &target, int vector, double slack = 1, bool computed = false) {
    std::vector<float> xs = special;
    while (xs.size() % 8) {
        xs.push_back(1.5f);
    }
    Tensor x{Float(32), {int(xs.size())}, xs};
    const std::vector<Function1> all = functions();
    ImageParam in(Float(32), 1, "in");
    Var i("i"), block("block");
    Param<float> one("one");
    std::vector<Expr> values;
    for (const Function1 &f : all) {
        values.push_back(f.halide(computed ? in(i)*one : Expr(in(i))));
    }
    Func y("y");
    y(i) = Tuple(values);
    std::vector<Halide::Parameter> inputs = {in.parameter()};
    if (computed) {
        inputs.push_back(one.parameter());
    }
    LegalizedPipeline pipeline = legalize({y}, inputs, target);
    Func out = pipeline.outputs[0];
    if (target.has_gpu_feature()) {
        out.gpu_tile(i, block, i, 8, TailStrategy::GuardWithIf);
    } else if (vector > 1) {
        out.vectorize(i, vector, TailStrategy::GuardWithIf);
    }
    std::vector<Tensor> got = Kernel(pipeline, target)(
        {{"in", x}}, std::vector<std::vector<int>>(all.size(), x.extents), {{"one", 1.0f}});
    for (size_t n = 0; n < all.size(); ++n) {
        Function1 f = all[n];
        f.ulps *= slack;
        for (size_t k = 0; k < xs.size(); ++k) {
            double exact = f.exact(xs[k]);
            float value = got[n].values[k];
            bool ok = agrees(value, exact, f);
            if (is_denormal(xs[k])) {
                ok = ok || agrees(value, f.exact(std::copysign(0.0, xs[k])), f);
            }
            EXPECT_TRUE(ok) << f.name << "(" << xs[k] << ") = " << value << ", expected " << exact;
        }
    }
}

TEST(LegalizeMath, SpecialValuesOnCpuVectors) {
    check_all(jit_target(), 8);
}
TEST(LegalizeMath, SpecialValuesOnCpuScalars) {
    check_all(jit_target(), 1);
}
// Without FMA exp loses digits as its argument grows.
TEST(LegalizeMath, SpecialValuesOnPlainCpu) {
    check_all(jit_target(""), 4, 5);
}
TEST(LegalizeMath, SpecialValuesThatTheKernelComputes) {
    check_all(jit_target(), 8, 1, true);
    check_all(jit_target(), 1, 1, true);
}
TEST(LegalizeMath, SpecialValuesOnOpenCL) {
    check_all(jit_opencl(), 1);
}

TEST(LegalizeMath, ValuesComputedInTheKernelKeepTheirNaN) {
    // LLVM could conclude from "no NaNs" on the arithmetic that makes the NaN; it must not.
    ImageParam in(Float(32), 1, "in");
    Var i("i");
    Func y("y");
    Expr inf_minus_inf = in(i)*2.0f - in(i + 1);
    y(i) = exp(max(inf_minus_inf, 0.0f)) + tanh(inf_minus_inf);
    LegalizedPipeline pipeline = legalize({y}, {in.parameter()}, jit_target());
    pipeline.outputs[0].vectorize(i, 8);
    Tensor x = filled(Float(32), {17}, [](size_t) { return INFINITY; });
    Tensor got = run(pipeline, {{"in", x}}, {{16}}, jit_target())[0];
    for (float v : got.values) {
        EXPECT_TRUE(std::isnan(v)) << v;
    }
}

TEST(LegalizeMath, PowOfTwoArguments) {
    const std::vector<float> values = {NAN,   INFINITY, -INFINITY, 0.0f, -0.0f, 1.0f, -1.0f, 2.0f,
                                       -2.0f, 3.0f,     -3.0f,     0.5f, -0.5f, 2.5f, -2.5f, 16777218.0f};
    ImageParam a(Float(32), 1, "a"), b(Float(32), 1, "b");
    Var i("i"), j("j");
    Func y("y");
    y(i, j) = pow(a(i), b(j));
    int n = int(values.size());
    Tensor t{Float(32), {n}, values};
    for (int vector : {1, 8}) {
        LegalizedPipeline pipeline = legalize({y}, {a.parameter(), b.parameter()}, jit_target());
        if (vector > 1) {
            pipeline.outputs[0].vectorize(i, vector);
        }
        Tensor got = run(pipeline, {{"a", t}, {"b", t}}, {{n, n}}, jit_target())[0];
        for (int x = 0; x < n; ++x) {
            for (int z = 0; z < n; ++z) {
                double want = std::pow(double(values[size_t(x)]), double(values[size_t(z)]));
                float g = got({x, z});
                bool ok = std::isnan(want) ? std::isnan(g)
                                           : (std::isinf(float(want)) || want == 0
                                                  ? g == float(want) && std::signbit(g) == std::signbit(want)
                                                  : std::fabs(g - want) <= 1e-4 * std::fabs(want));
                EXPECT_TRUE(ok) << "pow(" << values[size_t(x)] << ", " << values[size_t(z)] << ") = " << g
                                << ", expected " << want;
            }
        }
    }
}

TEST(LegalizeMath, AccuracyOverTheRange) {
    struct Range {
        Function1 f;
        float low, high;
    };
    std::vector<Function1> all = functions();
    auto named = [&](const std::string &name) {
        return *std::find_if(all.begin(), all.end(), [&](const Function1 &f) { return f.name == name; });
    };
    const int n = 1 << 16;
    for (const Range &r : {Range{named("exp"), -87.0f, 88.7f}, Range{named("log"), 1e-30f, 1e3f},
                           Range{named("tanh"), -12.0f, 12.0f}, Range{named("ops::erf"), -5.0f, 5.0f},
                           Range{named("Halide::erf"), -5.0f, 5.0f}, Range{named("gelu"), -8.0f, 8.0f}}) {
        ImageParam in(Float(32), 1, "in");
        Var i("i");
        Func y("y");
        y(i) = r.f.halide(in(i));
        LegalizedPipeline pipeline = legalize({y}, {in.parameter()}, jit_target());
        pipeline.outputs[0].vectorize(i, 8);
        Tensor x = filled(Float(32), {n}, [&](size_t k) { return r.low + (r.high - r.low) * float(k) / n; });
        std::vector<float> got = run(pipeline, {{"in", x}}, {{n}}, jit_target())[0].values;
        double worst = 0, at = 0;
        for (int k = 0; k < n; ++k) {
            double want = r.f.exact(x.values[size_t(k)]);
            double error = std::fabs(got[size_t(k)] - want);
            double ulps = (error - r.f.absolute) / std::max(std::fabs(want), double(FLT_MIN)) * 0x1p24;
            if (ulps > worst) {
                worst = ulps;
                at = x.values[size_t(k)];
            }
        }
        EXPECT_LE(worst, r.f.ulps) << r.f.name << " at " << at;
    }
}

TEST(LegalizeMath, ReductionsStayAssociative) {
    // A maximum that folds into its own Func keeps Halide's form, or rfactor could not prove it associative.
    ImageParam in(Float(32), 1, "in");
    RDom r(0, in.dim(0).extent(), "r");
    Func m("m"), y("y");
    Var u("u");
    RVar ro("ro"), ri("ri");
    m() = -std::numeric_limits<float>::infinity();
    m() = max(m(), in(r));
    y() = m();
    LegalizedPipeline pipeline = legalize({y}, {in.parameter()}, jit_target());
    Func legal = pipeline.funcs.at("m");
    legal.compute_root();
    RVar rv(legal.function().update(0).schedule().rvars()[0].var);
    legal.update().split(rv, ro, ri, 8).rfactor(ri, u).compute_root().vectorize(u).update().vectorize(u);
    Tensor x = filled(Float(32), {64}, [](size_t k) { return float((k * 37) % 64) - 80.0f; });
    EXPECT_EQ(run(pipeline, {{"in", x}}, {{}}, jit_target())[0].values[0], -17.0f);
}

TEST(LegalizeMath, KeepsFusedMultiplyAdd) {
    ImageParam in(Float(32), 1, "in");
    Param<float> a("a"), b("b");
    Var i("i");
    Func y("y");
    y(i) = max(a * in(i) + b, 0.0f);
    LegalizedPipeline pipeline = legalize({y}, {in.parameter(), a.parameter(), b.parameter()}, jit_target());
    pipeline.outputs[0].vectorize(i, 8);
    std::string path = testing::TempDir() + "kiln_fma.s";
    Pipeline(pipeline.outputs).compile_to_assembly(path, pipeline.arguments(), "fma_test", jit_target());
    std::ifstream file(path);
    std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    EXPECT_NE(text.find("vfmadd"), std::string::npos);
    std::remove(path.c_str());
}

} // namespace
} // namespace kiln
