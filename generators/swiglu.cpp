// y(j, i) = silu(gate(j, i)) up(j, i). Where a fused product made gate and up side by side in one buffer, pass two views.
#include "dsl/ops/Elementwise.h"
#include "generators/common.h"

namespace {

using namespace Halide;
namespace ops = kiln::ops;
namespace gen = kiln::generators;

class Swiglu : public Generator<Swiglu> {
public:
    GeneratorParam<Type> type{"type", Float(32)};
    Input<Buffer<void, 2>> gate{"gate"};
    Input<Buffer<void, 2>> up{"up"};
    Output<Buffer<void, 2>> y{"y"};
    Var j{"j"}, i{"i"};

    void configure() {
        gate.set_type(type);
        up.set_type(type);
        y.set_type(type);
    }
    void generate() {
        y(j, i) = ops::to_type(type, ops::swiglu(ops::f32(gate(j, i)), ops::f32(up(j, i))));
        gen::begin_at_zero(gate, up, y);
        gen::same_shape(y, gate);
        gen::same_shape(up, gate);
    }
};

kiln::Workload rows(const char *name, int64_t n, int64_t m, const char *type, bool bench) {
    return {name, {{"gate", {n, m}}, {"up", {n, m}}, {"y", {n, m}}}, {}, {{"type", type}}, bench};
}

} // namespace

KILN_GENERATOR(Swiglu, swiglu,
               {.summary = "y(j, i) = silu(gate(j, i)) up(j, i)",
                .interface_ = "- `y(j, i)`: the output; `j` runs along a row, `i` over rows",
                .workloads = {rows("1x1", 1, 1, "float32", false), rows("5x67", 67, 5, "float32", false),
                              rows("33x1001 bf16", 1001, 33, "bfloat16", false),
                              rows("33x1001 f16", 1001, 33, "float16", false),
                              rows("4096x4096", 4096, 4096, "float32", true),
                              rows("4096x14336 bf16", 14336, 4096, "bfloat16", true)},
                .params = {gen::type_param}})
