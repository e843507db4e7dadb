// y(i) = relu(a x(i) + b): the simplest memory-bound chain.
#include "dsl/ops/Elementwise.h"
#include "generators/common.h"

namespace {

using namespace Halide;
namespace ops = kiln::ops;

class ChainRelu : public Generator<ChainRelu> {
public:
    GeneratorParam<Type> type{"type", Float(32)};
    Input<Buffer<void, 1>> x{"x"};
    Input<float> a{"a"};
    Input<float> b{"b"};
    Output<Buffer<void, 1>> y{"y"};
    Var i{"i"};

    void configure() {
        x.set_type(type);
        y.set_type(type);
    }
    void generate() {
        y(i) = ops::to_type(type, ops::relu_chain(a, ops::f32(x(i)), b));
        kiln::generators::begin_at_zero(x, y);
        kiln::generators::same_shape(y, x);
    }
};

kiln::Workload chain(const char *name, int64_t n, const char *type, bool bench) {
    return {name, {{"x", {n}}, {"y", {n}}}, {{"a", 1.5}, {"b", -0.25}}, {{"type", type}}, bench};
}

} // namespace

KILN_GENERATOR(ChainRelu, chain_relu,
               {.summary = "y(i) = relu(a x(i) + b) over a vector",
                .interface_ = "- `y(i)`: the output, one loop `i`; reads `x(i)`",
                .workloads = {chain("n1", 1, "float32", false), chain("n67", 67, "float32", false),
                              chain("n1001 bf16", 1001, "bfloat16", false),
                              chain("n1001 f16", 1001, "float16", false),
                              chain("2^20", int64_t(1) << 20, "float32", true),
                              chain("2^24", int64_t(1) << 24, "float32", true),
                              chain("2^24 bf16", int64_t(1) << 24, "bfloat16", true),
                              chain("2^28", int64_t(1) << 28, "float32", true),
                              chain("2^28 bf16", int64_t(1) << 28, "bfloat16", true)},
                .params = {kiln::generators::type_param}})
