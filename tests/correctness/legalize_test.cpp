// The rebuild and legalize_storage: the same values as the pipeline it came from, every 16-bit pattern, names and
// constraints kept, faults.
#include "tests/correctness/jit.h"

#include "dsl/lower/LegalizeStorage.h"
#include "dsl/support/Diagnostic.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

using namespace Halide;
using namespace kiln::test;

const Type types16[] = {Float(16), BFloat(16)};

std::string error_text(const std::function<void()> &f) {
    try {
        f();
    } catch (const kiln::Error &e) {
        return e.what();
    }
    return "no error";
}

Func schedule_1d(Func f, Var i, const Halide::Target &target) {
    Var block("block");
    if (target.has_gpu_feature()) {
        f.gpu_tile(i, block, i, 64, TailStrategy::GuardWithIf);
    } else {
        f.vectorize(i, 8, TailStrategy::GuardWithIf);
    }
    return f;
}

TEST(LegalizeStorage, EveryPatternWidensExactly) {
    for (const Halide::Target &target : {jit_target(), jit_target(""), jit_opencl()}) {
        for (const Type &type : types16) {
            ImageParam in(type, 1, "in");
            Var i("i");
            Func y("y");
            y(i) = cast<float>(in(i));
            LegalizedPipeline pipeline = legalize({y}, {in.parameter()}, target);
            schedule_1d(pipeline.outputs[0], i, target);
            EXPECT_EQ(pipeline.inputs[0].contract_type, type);
            Buffer<> x(pipeline.inputs[0].argument.type, {65536});
            for (int k = 0; k < 65536; ++k) {
                reinterpret_cast<uint16_t *>(x.data())[k] = uint16_t(k);
            }
            x.set_host_dirty();
            pipeline.inputs[0].parameter.set_buffer(x);
            Buffer<float> out = Pipeline(pipeline.outputs).realize({65536}, target);
            out.copy_to_host();
            for (int k = 0; k < 65536; ++k) {
                double want = value_of_16(uint16_t(k), type);
                bool denormal_may_flush = want != 0 && std::fabs(want) < 0x1p-126;
                bool ok = std::isnan(want) ? std::isnan(out(k))
                                           : bits_of(out(k)) == bits_of(float(want)) ||
                                                 (denormal_may_flush && out(k) == 0);
                ASSERT_TRUE(ok) << name_of(type) << " " << k << ": " << out(k) << ", expected " << want;
            }
        }
    }
}

/// Patterns, the midpoints between them and their neighbours, which is where rounding can go wrong, and NaNs.
std::vector<float> values_to_round(const Type &type) {
    std::vector<float> values;
    for (int k = 0; k < 65536; ++k) {
        uint16_t b = uint16_t(k);
        double v = value_of_16(b, type);
        if (std::isnan(v)) {
            continue;
        }
        values.push_back(float(v));
        double next = value_of_16(uint16_t(b + 1), type);
        if (!std::isinf(v) && !std::isnan(next)) {
            double middle =
                std::isinf(next) ? v + (v - value_of_16(uint16_t(b - 1), type)) / 2 : (v + next) / 2;
            uint32_t m = bits_of(float(middle));
            if (double(float_of(m)) == middle) {
                for (uint32_t near : {m - 1, m, m + 1}) {
                    values.push_back(float_of(near));
                }
            }
        }
    }
    for (uint32_t nan :
         {0x7fc00000u, 0xffc00000u, 0x7f800001u, 0xff800001u, 0x7fffffffu, 0xffffffffu, 0x7f80ffffu}) {
        values.push_back(float_of(nan));
    }
    return values;
}

TEST(LegalizeStorage, NarrowingRoundsToNearestEven) {
    for (const Halide::Target &target : {jit_target(), jit_target(""), jit_opencl()}) {
        for (const Type &type : types16) {
            std::vector<float> values = values_to_round(type);
            int n = int(values.size());
            ImageParam in(Float(32), 1, "in");
            Var i("i");
            Func y("y");
            y(i) = cast(type, in(i));
            LegalizedPipeline pipeline = legalize({y}, {in.parameter()}, target);
            schedule_1d(pipeline.outputs[0], i, target);
            Buffer<float> x(values.data(), n);
            x.set_host_dirty();
            pipeline.inputs[0].parameter.set_buffer(x);
            Buffer<> out = Pipeline(pipeline.outputs).realize({n}, target)[0];
            out.copy_to_host();
            EXPECT_EQ(pipeline.output_args[0].contract_type, type);
            for (int k = 0; k < n; ++k) {
                uint16_t got = reinterpret_cast<const uint16_t *>(out.data())[k];
                uint16_t want = nearest_16(values[size_t(k)], type);
                bool denormal_may_flush = std::fabs(values[size_t(k)]) <= 0x1p-126f;
                bool ok = std::isnan(values[size_t(k)])
                              ? std::isnan(value_of_16(got, type))
                              : got == want || (denormal_may_flush && (got & 0x7fff) == 0);
                ASSERT_TRUE(ok) << name_of(type) << " of bits " << bits_of(values[size_t(k)]) << ": " << got
                                << ", expected " << want << " on " << target.to_string();
            }
        }
    }
}

TEST(LegalizeStorage, CopiesKeepEveryBit) {
    // A value that is only moved is not converted, so that the payload of a NaN survives too.
    for (const Type &type : types16) {
        ImageParam in(type, 1, "in");
        Var i("i");
        Func y("y");
        y(i) = in(65535 - i);
        LegalizedPipeline pipeline = legalize({y}, {in.parameter()}, jit_opencl());
        schedule_1d(pipeline.outputs[0], i, jit_opencl());
        Buffer<uint16_t> x(65536);
        for (int k = 0; k < 65536; ++k) {
            x(k) = uint16_t(k);
        }
        x.set_host_dirty();
        pipeline.inputs[0].parameter.set_buffer(x);
        Buffer<uint16_t> out = Pipeline(pipeline.outputs).realize({65536}, jit_opencl());
        out.copy_to_host();
        for (int k = 0; k < 65536; ++k) {
            ASSERT_EQ(out(k), 65535 - k);
        }
    }
}

TEST(LegalizeStorage, ArithmeticOn16BitsIsRoundedEachTime) {
    // (a b) + c on float16 operands: two roundings, as a machine with float16 makes them.
    for (const Type &type : types16) {
        ImageParam a(type, 1, "a"), b(type, 1, "b");
        Var i("i");
        Func y("y");
        Expr product = a(i) * b(i);
        y(i) = select(product > cast(type, 0), product + a(i), -abs(product) / cast(type, 3));
        const int n = 512;
        Tensor ta = random_tensor(type, {n}, 1), tb = random_tensor(type, {n}, 2);
        LegalizedPipeline pipeline = legalize({y}, {a.parameter(), b.parameter()}, jit_opencl());
        schedule_1d(pipeline.outputs[0], i, jit_opencl());
        std::vector<float> got = run(pipeline, {{"a", ta}, {"b", tb}}, {{n}}, jit_opencl())[0].values;
        for (size_t k = 0; k < n; ++k) {
            float p = round_to(ta.values[k] * tb.values[k], type);
            float want = p > 0 ? round_to(p + ta.values[k], type) : round_to(-std::fabs(p) / 3, type);
            ASSERT_EQ(got[k], want) << k;
        }
    }
}

/// A pipeline with everything that a rebuild must carry: Tuples, updates, a predicated two-dimensional RDom, a constant
/// image, an input read at shifted places, scalar parameters, integers.
struct Wide {
    ImageParam x{Float(32), 2, "x"};
    Param<float> scale{"scale"};
    Param<int> shift{"shift"};
    Func pair{"pair"}, hist{"hist"}, y{"y"};
    Var i{"i"}, j{"j"};
    Buffer<float> table{16, "table"};

    Wide() {
        table.for_each_element([&](int k) { table(k) = float(k) * 0.5f; });
        pair(i, j) = Tuple(x(i, j) * scale, cast<int>(i + j));
        RDom r(0, 5, 0, 4, "r");
        r.where(r.x + r.y < 6 && r.x <= i);
        pair(i, j) = Tuple(pair(i, j)[0] + x(i + r.x, j + r.y), pair(i, j)[1] + r.x * shift);
        pair(i, 2) = Tuple(pair(i, 2)[0] * 2.0f, pair(i, 2)[1] - 1);
        hist(i) = 0;
        RDom q(0, 8, "q");
        hist(q % 3) += q + shift;
        y(i, j) = pair(i, j)[0] + cast<float>(pair(i, j)[1] + hist(i % 3)) + table((i + j) % 16) +
                  select(x(i, j) > 0.0f, exp(-x(i, j)), 1.0f);
    }
};

TEST(Rebuild, GivesTheValuesOfTheOriginal) {
    Wide w;
    w.scale.set(1.25f);
    w.shift.set(3);
    Buffer<float> in(20, 20);
    std::mt19937 engine(7);
    in.for_each_value([&](float &v) { v = std::normal_distribution<float>()(engine); });
    w.x.set(in);
    Buffer<float> want = w.y.realize({12, 10}, jit_target());
    LegalizedPipeline pipeline = legalize({w.y}, input_parameters({w.y}), jit_target());
    Buffer<float> got = Pipeline(pipeline.outputs).realize({12, 10}, jit_target());
    for (int j = 0; j < 10; ++j) {
        for (int i = 0; i < 12; ++i) {
            ASSERT_NEAR(got(i, j), want(i, j), 1e-5 * std::fabs(want(i, j))) << i << " " << j;
        }
    }
}

TEST(Rebuild, KeepsNamesOfFuncsLoopsAndArguments) {
    for (int round = 0; round < 2; ++round) { // the second time Halide calls them pair$1 and so on
        Wide w;
        LegalizedPipeline pipeline = legalize({w.y}, input_parameters({w.y}), jit_target());
        std::vector<std::string> names;
        for (const auto &[name, func] : pipeline.funcs) {
            names.push_back(name);
        }
        EXPECT_EQ(names, (std::vector<std::string>{"hist", "pair", "x", "y"}));
        EXPECT_EQ(pipeline.outputs[0].name(), "y");
        std::vector<std::string> arguments;
        for (const Argument &a : pipeline.arguments()) {
            arguments.push_back(a.name);
        }
        EXPECT_EQ(arguments.size(), 3u);
        EXPECT_NE(std::find(arguments.begin(), arguments.end(), "scale"), arguments.end());
        const Internal::Function &pair = pipeline.funcs.at("pair").function();
        EXPECT_EQ(pair.updates().size(), 2u);
        EXPECT_EQ(pair.update(0).schedule().rvars().size(), 2u);
        EXPECT_EQ(pair.args(), (std::vector<std::string>{"i", "j"}));
    }
}

TEST(Rebuild, KeepsConstraintsAndEstimates) {
    ImageParam x(BFloat(16), 2, "x"), w(BFloat(16), 2, "w");
    Var i("i"), j("j");
    Func y("y");
    y(i, j) = x(i, j) + w(i, j);
    x.dim(0).set_min(0).set_stride(2).set_estimate(0, 640);
    x.dim(1).set_stride(Expr());
    w.dim(0).set_extent(x.dim(0).extent());
    w.dim(1).set_extent(y.output_buffer().dim(1).extent());
    w.set_host_alignment(64);
    y.output_buffer().dim(0).set_extent(w.dim(0).extent() * 1);
    LegalizedPipeline pipeline = legalize({y}, {x.parameter(), w.parameter()}, jit_opencl());
    Halide::Parameter px = pipeline.inputs[0].parameter, pw = pipeline.inputs[1].parameter;
    EXPECT_EQ(px.type(), UInt(16));
    EXPECT_TRUE(Internal::is_const(px.stride_constraint(0), 2));
    EXPECT_TRUE(Internal::is_const_zero(px.min_constraint(0)));
    EXPECT_FALSE(px.stride_constraint(1).defined());
    EXPECT_TRUE(
        Internal::is_const(pipeline.inputs[0].argument.argument_estimates.buffer_estimates[0].extent, 640));
    EXPECT_EQ(pw.host_alignment(), 64);
    const auto *of_x = pw.extent_constraint(0).as<Internal::Variable>();
    ASSERT_TRUE(of_x);
    EXPECT_EQ(of_x->name, "x.extent.0");
    EXPECT_TRUE(of_x->param.same_as(px));
    const auto *of_y = pw.extent_constraint(1).as<Internal::Variable>();
    ASSERT_TRUE(of_y);
    EXPECT_TRUE(of_y->param.same_as(pipeline.outputs[0].function().output_buffers()[0]));
    EXPECT_TRUE(pipeline.outputs[0].function().output_buffers()[0].extent_constraint(0).defined());
}

TEST(Rebuild, CarriesSchedulesOfTheOriginal) {
    ImageParam x(Float(32), 1, "x");
    Var i("i"), io("io"), ii("ii");
    Func f("f"), y("y");
    f(i) = x(i) * 2.0f;
    y(i) = f(i) + f(i + 1);
    f.compute_at(y, io).vectorize(i, 4);
    y.split(i, io, ii, 16).set_estimate(i, 0, 128);
    LegalizedPipeline pipeline = legalize({y}, {x.parameter()}, jit_target());
    const Internal::Function &g = pipeline.funcs.at("f").function();
    LoopLevel level = g.schedule().compute_level();
    level.lock();
    EXPECT_EQ(level.func() + "/" + level.var().name(), "y/io");
    EXPECT_EQ(pipeline.outputs[0].function().definition().schedule().splits().size(), 1u);
    EXPECT_EQ(pipeline.outputs[0].function().schedule().estimates().size(), 1u);
    Tensor in = random_tensor(Float(32), {33}, 3);
    std::vector<float> got = run(pipeline, {{"x", in}}, {{32}}, jit_target())[0].values;
    for (size_t k = 0; k < 32; ++k) {
        EXPECT_EQ(got[k], 2 * in.values[k] + 2 * in.values[k + 1]);
    }
}

TEST(Rebuild, ScalarsOf16BitsAndConstantImages) {
    for (const Type &type : types16) {
        Halide::Parameter factor(type, false, 0, "factor");
        Buffer<> table(type, {4}, "table");
        for (int k = 0; k < 4; ++k) {
            reinterpret_cast<uint16_t *>(table.data())[k] = nearest_16(k + 0.5, type);
        }
        Var i("i");
        Func y("y");
        Func t("t");
        t(i) = Internal::Call::make(table, {i % 4});
        y(i) = cast<float>(t(i)) * cast<float>(Internal::Variable::make(type, "factor", factor));
        LegalizedPipeline pipeline = legalize({y}, {factor}, jit_opencl());
        EXPECT_EQ(pipeline.inputs[0].contract_type, type);
        EXPECT_EQ(pipeline.inputs[0].argument.type, UInt(16));
        pipeline.inputs[0].parameter.set_scalar<uint16_t>(nearest_16(-1.5, type));
        schedule_1d(pipeline.outputs[0], i, jit_opencl());
        Buffer<float> out = Pipeline(pipeline.outputs).realize({8}, jit_opencl());
        out.copy_to_host();
        for (int k = 0; k < 8; ++k) {
            EXPECT_EQ(out(k), -1.5f * (float(k % 4) + 0.5f));
        }
    }
}

TEST(Rebuild, CompilesForCuda) {
    // No GPU is needed to see that Halide's code generator takes the pipeline, and without any 16-bit float type.
    for (const Type &type : types16) {
        ImageParam x(type, 1, "x");
        Var i("i"), block("block");
        Func y("y");
        y(i) = cast(type, exp(cast<float>(x(i))));
        Halide::Target target("x86-64-linux-cuda-cuda_capability_80-no_runtime-user_context");
        LegalizedPipeline pipeline = legalize({y}, {x.parameter()}, target);
        pipeline.outputs[0].gpu_tile(i, block, i, 256, TailStrategy::GuardWithIf);
        std::string path = testing::TempDir() + "kiln_cuda.s";
        EXPECT_NO_THROW(
            Pipeline(pipeline.outputs).compile_to_assembly(path, pipeline.arguments(), "cuda_test", target));
        std::remove(path.c_str());
    }
}

TEST(LegalizeErrors, K1020TwoFuncsOfOneName) {
    ImageParam x(Float(32), 1, "x");
    Var i("i");
    Func first("acc"), second("acc"), y("y");
    first(i) = x(i) + 1.0f;
    second(i) = first(i) * 2.0f;
    y(i) = second(i);
    EXPECT_EQ(error_text([&] { legalize({y}, {x.parameter()}, jit_target()); }),
              "error[K1020]: two Funcs of this pipeline have the name `acc`\n"
              "   = help: give each Func a name of its own: a schedule refers to Funcs by name\n");
}

TEST(LegalizeErrors, K1021ExternStageOf16Bits) {
    ImageParam x(BFloat(16), 1, "x");
    Var i("i");
    Func e("e"), y("y");
    e.define_extern("user_stage", {x}, Float(32), {i});
    y(i) = e(i);
    EXPECT_EQ(error_text([&] { legalize({y}, {x.parameter()}, jit_opencl()); }),
              "error[K1021]: the extern stage `e` takes a 16-bit float, which this target does not store\n"
              "   = help: cast to float32 before the extern stage\n");
}

TEST(LegalizeErrors, K1022SpecializedInCpp) {
    ImageParam x(Float(32), 1, "x");
    Var i("i");
    Func y("y");
    y(i) = x(i);
    y.specialize(x.dim(0).extent() > 8).vectorize(i, 8);
    EXPECT_EQ(error_text([&] { legalize({y}, {x.parameter()}, jit_target()); }),
              "error[K1022]: `y` is specialized in its C++ definition\n"
              "   = help: write `specialize` in the schedule file\n");
}

} // namespace
} // namespace kiln
