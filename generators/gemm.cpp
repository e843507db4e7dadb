// y = epilogue(x w), with batches and all four transposes.
#include "dsl/ops/Contraction.h"
#include "generators/common.h"
#include "generators/epilogue.h"

namespace {

using namespace Halide;
namespace ops = kiln::ops;
namespace gen = kiln::generators;

enum class PairKind { Auto, On, Off };

class Gemm : public Generator<Gemm> {
public:
    GeneratorParam<Type> type{"type", Float(32)};
    GeneratorParam<bool> transpose_x{"transpose_x", false};
    GeneratorParam<bool> transpose_w{"transpose_w", false};
    GeneratorParam<int> batch{"batch", 0, 0, 2};
    GeneratorParam<std::string> epilogue{"epilogue", "none"};
    GeneratorParam<PairKind> pairs{
        "pairs", PairKind::Auto, {{"auto", PairKind::Auto}, {"on", PairKind::On}, {"off", PairKind::Off}}};
    Input<Buffer<>> x{"x"};
    Input<Buffer<>> w{"w"};
    Output<Buffer<>> y{"y"};

    void configure() {
        const int rank = 2 + batch;
        for (auto set : {static_cast<Internal::GIOBase *>(&x), static_cast<Internal::GIOBase *>(&w),
                         static_cast<Internal::GIOBase *>(&y)}) {
            set->set_type(type);
            set->set_dimensions(rank);
        }
        steps_ = gen::epilogue_steps(epilogue);
        for (const std::string &step : steps_) {
            if (step == "bias") {
                bias_ = add_input<Buffer<>>("bias", type, 1);
            } else if (step == "residual") {
                residual_ = add_input<Buffer<>>("residual", type, rank);
            }
        }
    }

    void generate() {
        const int xk = transpose_x ? 1 : 0, wk = transpose_w ? 0 : 1;
        ops::ContractionOptions options;
        options.a = transpose_x ? ops::Layout::Transposed : ops::Layout::RowMajor;
        options.b = transpose_w ? ops::Layout::Transposed : ops::Layout::RowMajor;
        options.batch = batch;
        options.pairs =
            pairs == PairKind::On ||
            (pairs == PairKind::Auto && type.value() == BFloat(16) && !get_target().has_gpu_feature() &&
             get_target().features_any_of({Target::AVX512_Zen4, Target::AVX512_SapphireRapids}));
        options.rows_name = "x_rows";
        options.pairs_name = "w_pairs";
        // Whole tiles of padded copies may reach past the last row and column: those repeat it.
        ops::Contraction product =
            options.pairs ? ops::contraction(repeat_edge("x_edge", x, 1 - xk),
                                             repeat_edge("w_edge", w, 1 - wk), x.dim(xk).extent(), options)
                          : ops::contraction(x, w, x.dim(xk).extent(), options);

        std::vector<ops::Epilogue> after;
        for (const std::string &step : steps_) {
            after.push_back(step == "bias" ? ops::bias(*bias_)
                            : step == "residual"
                                ? ops::residual(*residual_)
                                : ops::activate(ops::activation(gen::activation_of_step(step))));
        }
        std::vector<Expr> place(product.vars.begin(), product.vars.end());
        y(product.vars) = ops::to_type(type, ops::sequence(after)(product.acc(place), place));

        gen::begin_at_zero(x, w, y);
        gen::same_extent(w, wk, x, xk);
        gen::same_extent(y, 0, w, 1 - wk);
        gen::same_extent(y, 1, x, 1 - xk);
        for (int d = 2; d < 2 + batch; ++d) {
            gen::same_extent(w, d, x, d);
            gen::same_extent(y, d, x, d);
        }
        if (bias_) {
            gen::begin_at_zero(*bias_);
            gen::same_extent(*bias_, 0, y, 0);
        }
        if (residual_) {
            gen::begin_at_zero(*residual_);
            gen::same_shape(*residual_, y);
        }
    }

private:
    /// `name` is b, with the elements at the ends of dimension `d` beyond them.
    static Func repeat_edge(const std::string &name, Input<Buffer<>> &b, int d) {
        std::vector<Var> vars;
        std::vector<Expr> place;
        for (int i = 0; i < b.dimensions(); ++i) {
            vars.emplace_back("_" + std::to_string(i));
            place.push_back(i == d ? clamp(likely(vars[size_t(i)]), 0, b.dim(i).extent() - 1)
                                   : Expr(vars[size_t(i)]));
        }
        Func edge(name);
        edge(vars) = b(place);
        return edge;
    }

    std::vector<std::string> steps_;
    Input<Buffer<>> *bias_ = nullptr;
    Input<Buffer<>> *residual_ = nullptr;
};

using Params = std::map<std::string, std::string>;

kiln::Workload product(const char *name, int64_t m, int64_t n, int64_t k, Params params, bool bench) {
    kiln::Workload work{name, {}, {}, std::move(params), bench};
    auto on = [&](const char *p) { return work.params.count(p) && work.params[p] == "true"; };
    work.extents["x"] = on("transpose_x") ? std::vector<int64_t>{m, k} : std::vector<int64_t>{k, m};
    work.extents["w"] = on("transpose_w") ? std::vector<int64_t>{k, n} : std::vector<int64_t>{n, k};
    work.extents["y"] = {n, m};
    work.extents["bias"] = {n};
    work.extents["residual"] = {n, m};
    return work;
}

kiln::Workload batched(kiln::Workload work, int64_t batch) {
    work.params["batch"] = "1";
    for (auto &[name, extents] : work.extents) {
        if (name != "bias") {
            extents.push_back(batch);
        }
    }
    return work;
}

std::vector<kiln::Workload> workloads() {
    std::vector<kiln::Workload> all = {
        product("1x1x1", 1, 1, 1, {}, false),
        product("3x5x7", 3, 5, 7, {}, false),
        product("37x53x29", 37, 53, 29, {}, false),
        product("37x53x29 tn", 37, 53, 29, {{"transpose_x", "true"}}, false),
        product("37x53x29 nt", 37, 53, 29, {{"transpose_w", "true"}}, false),
        product("37x53x29 tt", 37, 53, 29, {{"transpose_x", "true"}, {"transpose_w", "true"}}, false),
        product("37x53x29 bf16", 37, 53, 29, {{"type", "bfloat16"}}, false),
        product("37x53x29 f16", 37, 53, 29, {{"type", "float16"}}, false),
        product("37x53x29 bias_gelu", 37, 53, 29, {{"epilogue", "bias_gelu"}}, false),
        product("37x53x29 bias_relu_residual", 37, 53, 29, {{"epilogue", "bias_relu_residual"}}, false),
        batched(product("3x17x19x23", 17, 19, 23, {}, false), 3),
        product("64", 64, 64, 64, {}, true),
        product("128", 128, 128, 128, {}, true),
        product("256", 256, 256, 256, {}, true),
        product("512", 512, 512, 512, {}, true),
        product("1024", 1024, 1024, 1024, {}, true),
        product("2048", 2048, 2048, 2048, {}, true),
        product("1000", 1000, 1000, 1000, {}, true),
        product("333x777x555", 333, 777, 555, {}, true),
        product("16x4096x4096", 16, 4096, 4096, {}, true),
        product("1024 bf16", 1024, 1024, 1024, {{"type", "bfloat16"}}, true),
        product("2048 bf16", 2048, 2048, 2048, {{"type", "bfloat16"}}, true),
    };
    return all;
}

} // namespace

KILN_GENERATOR(
    Gemm, gemm,
    {.summary = "y(n, m) = epilogue(sum over k of x(k, m) w(n, k))",
     .interface_ =
         "- `y(n, m)`: the output, after the epilogue; with batches also `batch0`, `batch1`\n"
         "- `acc(n, m)`: the float32 sum; its update runs over `k`\n"
         "- `pairs` (bfloat16 on a CPU with AVX512-BF16 or AMX): `x_rows(k, m)` is x and `w_pairs(p, n, k)` "
         "is "
         "w(n, 2k + p), both with zeros up to a multiple of 32 of x's k; each has one update, over `k_in`. "
         "The update "
         "of acc runs over `k.x` (32 long) and `k.y`\n"
         "- `x(k, m)`, `w(n, k)`: inputs; `x(m, k)` with `transpose_x`, `w(k, n)` with `transpose_w`\n"
         "- `bias(n)`, `residual(n, m)`: inputs where the epilogue names them",
     .workloads = workloads(),
     .flops =
         [](const kiln::Workload &w) { return 2 * kiln::elements(w, "x") * double(w.extents.at("y")[0]); },
     .params = {gen::type_param,
                {"transpose_x", "x is stored as x(m, k)"},
                {"transpose_w", "w is stored as w(k, n)"},
                {"pairs",
                 "products of neighbouring k at a time; auto: for bfloat16 on a CPU with AVX512-BF16 or AMX"},
                {"batch", "batch dimensions of x, w and y: 0, 1 or 2"},
                {"epilogue", "none, or what follows the sum, in order, joined by _: bias, residual, relu, "
                             "gelu, gelutanh, silu, ..."}}})
