// Every generator of Kiln on its small workloads, on CPU and OpenCL, against plain C++ in double; what a call refuses; and
// the parts of dsl/ops that no generator uses.
#include "tests/correctness/ops_reference.h"

#include "dsl/generator/Create.h"
#include "dsl/generator/Generator.h"
#include "dsl/generator/Load.h"
#include "dsl/ops/Activations.h"
#include "dsl/ops/Contraction.h"
#include "dsl/ops/Elementwise.h"
#include "dsl/support/Diagnostic.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

using namespace Halide;
using namespace kiln::test;
using Halide::Internal::ArgInfoDirection;

Type type_of(const std::string &name) {
    return name == "bfloat16" ? BFloat(16) : name == "float16" ? Float(16) : Float(32);
}

std::string param(const Workload &w, const std::string &name, const std::string &otherwise) {
    auto it = w.params.find(name);
    return it == w.params.end() ? otherwise : it->second;
}

LegalizedPipeline legalized(const std::string &name, const std::map<std::string, std::string> &params,
                            const Halide::Target &target) {
    load_generators({});
    auto generator = create_generator(name, params, target);
    generator->build_pipeline();
    std::vector<Func> outputs;
    std::vector<Halide::Parameter> inputs;
    for (const auto &info : generator->arginfos()) {
        if (info.dir == ArgInfoDirection::Input) {
            for (const Halide::Parameter &p : generator->input_parameter(info.name)) {
                inputs.push_back(p);
            }
        } else {
            for (const Func &f : generator->output_func(info.name)) {
                outputs.push_back(f);
            }
        }
    }
    return legalize(outputs, inputs, target);
}

using Tensors = std::map<std::string, Tensor>;

Expected map_of(const Tensor &shape, const std::function<std::pair<double, double>(size_t)> &value_and_size) {
    Expected e = like(shape.extents);
    for (size_t i = 0; i < e.value.size(); ++i) {
        auto [value, size] = value_and_size(i);
        e.value[i] = value;
        e.bound[i] = few(shape.type, value, size);
    }
    return e;
}

Expected gemm_reference(const Workload &w, const Tensors &in) {
    Type type = in.at("x").type;
    Expected e = product_reference(in.at("x"), in.at("w"), param(w, "transpose_x", "false") == "true",
                                   param(w, "transpose_w", "false") == "true");
    const std::string epilogue = "_" + param(w, "epilogue", "none") + "_";
    const int64_t n = w.extents.at("y")[0];
    const int terms = int(in.at("x").extents[param(w, "transpose_x", "false") == "true" ? 1 : 0]) + 16;
    for (size_t i = 0; i < e.value.size(); ++i) {
        double r = e.value[i], size = e.bound[i];
        // The steps in the order in which these workloads name them.
        if (epilogue.find("_bias_") != std::string::npos) {
            double b = in.at("bias").values[i % size_t(n)];
            r += b;
            size += std::fabs(b);
        }
        r = epilogue.find("_gelu_") != std::string::npos   ? gelu_of(r)
            : epilogue.find("_relu_") != std::string::npos ? std::max(r, 0.0)
                                                           : r;
        if (epilogue.find("_residual_") != std::string::npos) {
            double b = in.at("residual").values[i];
            r += b;
            size += std::fabs(b);
        }
        e.value[i] = r;
        e.bound[i] = few(type, r, 1.2 * size, terms); // gelu's slope stays below 1.13
    }
    return e;
}

AttentionExpected attention_expected(const Workload &w, const Tensors &in) {
    const int m = in.at("q").extents[1], n = in.at("k").extents[1], heads = in.at("q").extents[2];
    AttentionCase c;
    const std::string mask = param(w, "mask", "none");
    const int left = std::stoi(param(w, "window_left", "128")),
              right = std::stoi(param(w, "window_right", "0"));
    c.allowed = [=](int i, int j) {
        int diagonal = i + n - m;
        return mask == "causal"   ? j <= diagonal
               : mask == "window" ? j >= diagonal - left && j <= diagonal + right
                                  : true;
    };
    const double cap = std::stod(param(w, "softcap", "0"));
    const bool alibi = param(w, "alibi", "false") == "true";
    c.change = [=](double s, int i, int j, int h) {
        s = cap > 0 ? cap * std::tanh(s / cap) : s;
        return alibi ? s - std::exp2(-8.0 * (h + 1) / heads) * std::abs(i + n - m - j) : s;
    };
    return attention_reference(in.at("q"), in.at("k"), in.at("v"), c);
}

/// What each output should be, by name.
std::map<std::string, Expected> expected(const std::string &generator, const Workload &w, const Tensors &in) {
    auto v = [&](const char *name, size_t i) { return double(in.at(name).values[i]); };
    if (generator == "chain_relu") {
        double a = w.scalars.at("a"), b = w.scalars.at("b");
        return {{"y", map_of(in.at("x"), [&](size_t i) {
                     return std::pair(std::max(a * v("x", i) + b, 0.0),
                                      std::fabs(a * v("x", i)) + std::fabs(b));
                 })}};
    }
    if (generator == "gelu_residual") {
        size_t n = size_t(w.extents.at("w")[0]);
        return {{"y", map_of(in.at("x"), [&](size_t i) {
                     double u = v("x", i) * v("w", i % n) + v("b", i % n);
                     return std::pair(gelu_of(u) + v("r", i), 1.2 * (std::fabs(v("x", i) * v("w", i % n)) +
                                                                     std::fabs(v("b", i % n))) +
                                                                  std::fabs(v("r", i)));
                 })}};
    }
    if (generator == "swiglu") {
        return {{"y", map_of(in.at("gate"), [&](size_t i) {
                     double s = silu_of(v("gate", i));
                     return std::pair(s * v("up", i),
                                      std::fabs(s * v("up", i)) * (1 + std::fabs(v("gate", i))));
                 })}};
    }
    if (generator == "softmax") {
        return {{"y", softmax_reference(in.at("x"), param(w, "log", "false") == "true")}};
    }
    if (generator == "gemm") {
        return {{"y", gemm_reference(w, in)}};
    }
    if (generator == "attention") {
        AttentionExpected e = attention_expected(w, in);
        return {{"y", e.out}, {"log_sum_exp_out", e.lse}};
    }
    Tensor h = in.at("x"); // layer_norm and rms_norm
    std::map<std::string, Expected> out;
    if (in.count("residual")) {
        for (size_t i = 0; i < h.values.size(); ++i) {
            h.values[i] = round_to(h.values[i] + float(v("residual", i)), h.type);
        }
        out["x_plus_residual"] = map_of(h, [&](size_t i) { return std::pair(double(h.values[i]), 0.0); });
    }
    out["y"] =
        norm_reference(h, in.at("gamma"), in.count("beta") ? &in.at("beta") : nullptr, w.scalars.at("eps"));
    return out;
}

void check(const std::string &generator, const Workload &w, const Halide::Target &target) {
    const Type type = type_of(param(w, "type", "float32"));
    LegalizedPipeline pipeline = legalized(generator, w.params, target);
    schedule_roots(pipeline, target);
    Tensors inputs;
    std::map<std::string, float> scalars;
    unsigned seed = 100;
    for (const LegalizedArgument &a : pipeline.inputs) {
        if (!a.parameter.is_buffer()) {
            scalars[a.name] = float(w.scalars.at(a.name));
            continue;
        }
        std::vector<int> extents(w.extents.at(a.name).begin(), w.extents.at(a.name).end());
        EXPECT_EQ(a.contract_type, type);
        inputs[a.name] = random_tensor(type, extents, seed++);
    }
    std::vector<std::vector<int>> extents;
    for (const LegalizedArgument &a : pipeline.output_args) {
        extents.emplace_back(w.extents.at(a.name).begin(), w.extents.at(a.name).end());
    }
    std::vector<Tensor> got = Kernel(pipeline, target)(inputs, extents, scalars);
    auto want = expected(generator, w, inputs);
    for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_EQ(differences(got[i], want.at(pipeline.output_args[i].name)), "")
            << generator << " " << w.name << " " << pipeline.output_args[i].name << " " << target.to_string();
    }
}

class OpsGenerators : public testing::TestWithParam<const char *> {};

TEST_P(OpsGenerators, RightOnTheirWorkloads) {
    load_generators({});
    const GeneratorInfo *info = find_generator_info(GetParam());
    ASSERT_TRUE(info);
    EXPECT_FALSE(info->summary.empty());
    EXPECT_FALSE(info->interface_.empty());
    bool on_opencl = false; // one float32 and one bfloat16 workload there: a compilation takes seconds
    bool on_opencl_16 = false;
    for (const Workload &w : info->workloads) {
        if (w.bench) {
            continue;
        }
        check(GetParam(), w, jit_target());
        bool is_16 = param(w, "type", "float32") == "bfloat16";
        bool &done = is_16 ? on_opencl_16 : on_opencl;
        if (!done && (is_16 || w.name != info->workloads[0].name)) {
            done = true;
            check(GetParam(), w, jit_opencl());
        }
    }
}

INSTANTIATE_TEST_SUITE_P(All, OpsGenerators,
                         testing::Values("attention", "chain_relu", "gelu_residual", "gemm", "layer_norm",
                                         "rms_norm", "softmax", "swiglu"));

std::string refusal(const std::string &generator, const std::map<std::string, std::string> &params,
                    const std::map<std::string, std::vector<int>> &shapes) {
    LegalizedPipeline pipeline = legalized(generator, params, jit_target());
    schedule_roots(pipeline, jit_target());
    Tensors inputs;
    for (const LegalizedArgument &a : pipeline.inputs) {
        if (a.parameter.is_buffer()) {
            inputs[a.name] = random_tensor(a.contract_type, shapes.at(a.name), 1);
        }
    }
    try {
        Kernel(pipeline, jit_target())(inputs, {shapes.at("y")}, {{"eps", 1e-5f}, {"a", 1.0f}, {"b", 0.0f}});
    } catch (const std::exception &e) {
        return e.what();
    } catch (const Halide::Error &e) {
        return e.what();
    }
    return "accepted";
}

TEST(OpsGenerators, ShapesThatDoNotFitAreRefused) {
    auto has = [](const std::string &text, const std::string &part) {
        return text.find(part) != std::string::npos ? testing::AssertionSuccess()
                                                    : testing::AssertionFailure() << text;
    };
    EXPECT_TRUE(has(refusal("gemm", {}, {{"x", {7, 3}}, {"w", {5, 8}}, {"y", {5, 3}}}), "w.extent.1"));
    EXPECT_TRUE(has(refusal("gemm", {}, {{"x", {7, 3}}, {"w", {5, 7}}, {"y", {4, 3}}}),
                    "Output buffer y is accessed at 4"));
    EXPECT_TRUE(
        has(refusal("softmax", {}, {{"x", {7, 3}}, {"y", {7, 2}}}), "Output buffer y is accessed at 2"));
    for (auto [heads, part] : {std::pair{5, "k is accessed at 2"}, {1, "q.extent.2"}}) {
        std::map<std::string, std::vector<int>> shapes = {
            {"q", {8, 4, heads, 1}}, {"k", {8, 6, 2, 1}}, {"v", {8, 6, 2, 1}}, {"y", {8, 4, heads, 1}}};
        EXPECT_TRUE(has(refusal("attention", {}, shapes), part));
    }
    EXPECT_EQ(refusal("gemm", {}, {{"x", {7, 3}}, {"w", {5, 7}}, {"y", {5, 3}}}), "accepted");
}

TEST(OpsGenerators, NaNAndInfinityGoThroughTheChain) {
    for (const char *type : {"float32", "float16", "bfloat16"}) {
        LegalizedPipeline pipeline = legalized("chain_relu", {{"type", type}}, jit_target());
        pipeline.outputs[0].vectorize(pipeline.outputs[0].args()[0], 8, TailStrategy::GuardWithIf);
        Tensor x{type_of(type), {5}, {NAN, INFINITY, -INFINITY, 0.0f, -2.0f}};
        Tensor got = Kernel(pipeline, jit_target())({{"x", x}}, {{5}}, {{"a", 2.0f}, {"b", 1.0f}})[0];
        EXPECT_TRUE(std::isnan(got({0})));
        EXPECT_EQ(got({1}), INFINITY);
        EXPECT_EQ(got({2}), 0);
        EXPECT_EQ(got({3}), 1);
        EXPECT_EQ(got({4}), 0);
    }
}

TEST(OpsElementwise, AnyLambdaOverOperandsOfUnequalRank) {
    ImageParam x(Float(32), 2, "x"), row(BFloat(16), 1, "row");
    Var j("j"), i("i");
    Func y = ops::elementwise("y", {j, i}, {x, row},
                              [](const std::vector<Expr> &v) { return v[0] * v[0] - v[1]; });
    LegalizedPipeline pipeline = legalize({y}, {x.parameter(), row.parameter()}, jit_target());
    Tensor tx = random_tensor(Float(32), {5, 3}, 1), tr = random_tensor(BFloat(16), {5}, 2);
    Tensor got = run(pipeline, {{"x", tx}, {"row", tr}}, {{5, 3}}, jit_target())[0];
    for (size_t k = 0; k < 15; ++k) {
        EXPECT_NEAR(got.values[k], tx.values[k] * tx.values[k] - tr.values[k % 5], 1e-5);
    }
}

TEST(OpsActivations, AllOfThem) {
    auto softplus = [](double x) { return std::log1p(std::exp(-std::fabs(x))) + std::max(x, 0.0); };
    const std::map<std::string, std::function<double(double)>> exact = {
        {"identity", [](double x) { return x; }},
        {"relu", [](double x) { return std::max(x, 0.0); }},
        {"leaky_relu", [](double x) { return x > 0 ? x : 0.01 * x; }},
        {"sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }},
        {"silu", silu_of},
        {"gelu", gelu_of},
        {"gelu_tanh",
         [](double x) {
             return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
         }},
        {"softplus", softplus},
        {"mish", [=](double x) { return x * std::tanh(softplus(x)); }},
        {"elu", [](double x) { return x > 0 ? x : std::expm1(x); }},
        {"hard_tanh", [](double x) { return std::min(std::max(x, -1.0), 1.0); }},
        {"tanh", [](double x) { return std::tanh(x); }},
    };
    ImageParam in(Float(32), 1, "in");
    Var i("i");
    std::vector<Expr> values;
    for (const std::string &name : ops::activation_names()) {
        ASSERT_TRUE(exact.count(name)) << name;
        values.push_back(ops::activation(name)(in(i)));
    }
    Func y("y");
    y(i) = Tuple(values);
    LegalizedPipeline pipeline = legalize({y}, {in.parameter()}, jit_target());
    pipeline.outputs[0].vectorize(i, 8);
    const int n = 256;
    Tensor x = filled(Float(32), {n}, [](size_t k) { return (float(k) - 128) / 12; });
    std::vector<Tensor> got =
        run(pipeline, {{"in", x}}, std::vector<std::vector<int>>(values.size(), {n}), jit_target());
    for (size_t f = 0; f < values.size(); ++f) {
        for (size_t k = 0; k < n; ++k) {
            double want = exact.at(ops::activation_names()[f])(x.values[k]);
            EXPECT_NEAR(got[f].values[k], want, 32 * 0x1p-24 * (1 + std::fabs(x.values[k])))
                << ops::activation_names()[f] << "(" << x.values[k] << ")";
        }
    }
}

std::string error_text(const std::function<void()> &f) {
    try {
        f();
    } catch (const kiln::Error &e) {
        return e.what();
    }
    return "no error";
}

TEST(OpsErrors, K1030UnknownActivation) {
    EXPECT_EQ(error_text([] { ops::activation("gelo"); }),
              "error[K1030]: no activation `gelo`\n"
              "   = note: activations are elu, gelu, gelu_tanh, hard_tanh, identity, leaky_relu, mish, relu, "
              "sigmoid, "
              "silu, softplus, tanh\n"
              "   = help: did you mean `gelu`?\n");
}

TEST(OpsErrors, K1031UnknownEpilogueStep) {
    EXPECT_EQ(error_text([] {
                  legalized("gemm", {{"epilogue", "bias_rellu"}}, jit_target());
              }),
              "error[K1031]: no epilogue step `rellu` in `bias_rellu`\n"
              "   = note: steps are bias, residual, elu, gelu, gelutanh, hardtanh, identity, leakyrelu, "
              "mish, relu, "
              "sigmoid, silu, softplus, tanh; join them by `_`\n"
              "   = help: did you mean `relu`?\n");
    EXPECT_EQ(error_text([] {
                  legalized("gemm", {{"epilogue", "bias_bias"}}, jit_target());
              }),
              "error[K1031]: epilogue step `bias` stands twice in `bias_bias`\n"
              "   = help: add the two operands before the call\n");
}

TEST(OpsErrors, K1032OperandOfTooManyDimensions) {
    ImageParam x(Float(32), 3, "x");
    Var j("j"), i("i");
    EXPECT_EQ(error_text([&] {
                  ops::at(x, {j, i});
              }),
              "error[K1032]: operand `x` has 3 dimensions, the result has 2\n"
              "   = help: reduce the operand first, or give the result more dimensions\n");
}

TEST(OpsErrors, K1033OperandOfAContraction) {
    ImageParam x(Float(32), 3, "x"), w(Float(32), 2, "w");
    EXPECT_EQ(error_text([&] { ops::contraction(x, w, 8); }),
              "error[K1033]: operand `x` of a contraction has 3 dimensions, expected 2\n"
              "   = help: set `batch` to the number of its batch dimensions\n");
}

} // namespace
} // namespace kiln
