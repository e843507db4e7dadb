// y = act(x wg) · (x wu): two products that read the same x, and their gate.
#include "dsl/ops/Contraction.h"
#include "generators/common.h"
#include "generators/epilogue.h"

namespace {

using namespace Halide;
namespace ops = kiln::ops;
namespace gen = kiln::generators;

class GatedProduct : public Generator<GatedProduct> {
public:
    GeneratorParam<Type> type{"type", Float(32)};
    GeneratorParam<bool> transpose_w{"transpose_w", false};
    GeneratorParam<std::string> activation{"activation", "silu"};
    Input<Buffer<void, 2>> x{"x"};
    Input<Buffer<void, 2>> wg{"wg"};
    Input<Buffer<void, 2>> wu{"wu"};
    Output<Buffer<void, 2>> y{"y"};

    void configure() {
        x.set_type(type);
        wg.set_type(type);
        wu.set_type(type);
        y.set_type(type);
    }

    void generate() {
        const int wk = transpose_w ? 0 : 1;
        ops::ContractionOptions options;
        options.b = transpose_w ? ops::Layout::Transposed : ops::Layout::RowMajor;
        options.name = "gate";
        ops::Contraction gate = ops::contraction(x, wg, x.dim(0).extent(), options);
        options.name = "up";
        ops::Contraction up = ops::contraction(x, wu, x.dim(0).extent(), options);
        const Var n = gate.n, m = gate.m;
        Expr open =
            ops::activate(ops::activation(gen::activation_of_step(activation)))(gate.acc(n, m), {n, m});
        y(n, m) = ops::to_type(type, open * up.acc(n, m));

        gen::begin_at_zero(x, wg, wu, y);
        gen::same_extent(wg, wk, x, 0);
        gen::same_shape(wu, wg);
        gen::same_extent(y, 0, wg, 1 - wk);
        gen::same_extent(y, 1, x, 1);
    }
};

kiln::Workload product(const char *name, int64_t m, int64_t n, int64_t k, const char *type, bool transposed,
                       bool bench) {
    const std::vector<int64_t> w = transposed ? std::vector<int64_t>{k, n} : std::vector<int64_t>{n, k};
    return {name,
            {{"x", {k, m}}, {"wg", w}, {"wu", w}, {"y", {n, m}}},
            {},
            {{"type", type}, {"transpose_w", transposed ? "true" : "false"}},
            bench};
}

} // namespace

KILN_GENERATOR(
    GatedProduct, gated_product,
    {.summary = "y(n, m) = act(sum over k of x(k, m) wg(n, k)) (sum over k of x(k, m) wu(n, k))",
     .interface_ = "- `y(n, m)`: the output\n"
                   "- `gate(n, m)`, `up(n, m)`: the float32 sums; their updates run over `k`\n"
                   "- `x(k, m)`, `wg(n, k)`, `wu(n, k)`: inputs; `wg(k, n)`, `wu(k, n)` with `transpose_w`",
     .workloads = {product("1x1x1", 1, 1, 1, "float32", false, false),
                   product("37x53x29", 37, 53, 29, "float32", false, false),
                   product("37x53x29 nt bf16", 37, 53, 29, "bfloat16", true, false),
                   product("256x384x128 nt bf16", 256, 384, 128, "bfloat16", true, false),
                   product("512", 512, 512, 512, "float32", false, true),
                   product("4096x14336x4096 nt bf16", 4096, 14336, 4096, "bfloat16", true, true)},
     .flops =
         [](const kiln::Workload &w) { return 4 * kiln::elements(w, "x") * double(w.extents.at("y")[0]); },
     .params = {gen::type_param,
                {"transpose_w", "wg and wu are stored as wg(k, n)"},
                {"activation", "of the gate: relu, gelu, gelutanh, silu, ..."}}})
