// y(j, i) = gelu(x(j, i) w(j) + b(j)) + r(j, i): what surrounds a linear layer when its product is done elsewhere.
#include "dsl/ops/Elementwise.h"
#include "generators/common.h"

namespace {

using namespace Halide;
namespace ops = kiln::ops;
namespace gen = kiln::generators;

class GeluResidual : public Generator<GeluResidual> {
public:
    GeneratorParam<Type> type{"type", Float(32)};
    Input<Buffer<void, 2>> x{"x"};
    Input<Buffer<void, 1>> w{"w"};
    Input<Buffer<void, 1>> b{"b"};
    Input<Buffer<void, 2>> r{"r"};
    Output<Buffer<void, 2>> y{"y"};
    Var j{"j"}, i{"i"};

    void configure() {
        x.set_type(type);
        w.set_type(type);
        b.set_type(type);
        r.set_type(type);
        y.set_type(type);
    }
    void generate() {
        y(j, i) = ops::to_type(
            type, ops::gelu_residual(ops::f32(x(j, i)), ops::f32(w(j)), ops::f32(b(j)), ops::f32(r(j, i))));
        gen::begin_at_zero(x, w, b, r, y);
        gen::same_shape(y, x);
        gen::same_shape(r, x);
        gen::same_extent(w, 0, x, 0);
        gen::same_extent(b, 0, x, 0);
    }
};

kiln::Workload rows(const char *name, int64_t n, int64_t m, const char *type, bool bench) {
    return {name,
            {{"x", {n, m}}, {"w", {n}}, {"b", {n}}, {"r", {n, m}}, {"y", {n, m}}},
            {},
            {{"type", type}},
            bench};
}

} // namespace

KILN_GENERATOR(GeluResidual, gelu_residual,
               {.summary = "y(j, i) = gelu(x(j, i) w(j) + b(j)) + r(j, i)",
                .interface_ = "- `y(j, i)`: the output; `j` runs along a row, `i` over rows",
                .workloads = {rows("1x1", 1, 1, "float32", false), rows("5x67", 67, 5, "float32", false),
                              rows("33x1001 bf16", 1001, 33, "bfloat16", false),
                              rows("33x1001 f16", 1001, 33, "float16", false),
                              rows("4096x4096", 4096, 4096, "float32", true),
                              rows("4096x4096 bf16", 4096, 4096, "bfloat16", true)},
                .params = {gen::type_param}})
