// Softmax of each row of a matrix.
#include "dsl/ops/Softmax.h"
#include "generators/common.h"

namespace {

using namespace Halide;
namespace ops = kiln::ops;

class SoftmaxRows : public Generator<SoftmaxRows> {
public:
    GeneratorParam<Type> type{"type", Float(32)};
    GeneratorParam<bool> log{"log", false};
    Input<Buffer<void, 2>> x{"x"};
    Output<Buffer<void, 2>> y{"y"};

    void configure() {
        x.set_type(type);
        y.set_type(type);
    }
    void generate() {
        ops::Softmax s = ops::softmax(x, x.dim(0).extent(), {.prefix = "", .log = log, .scale = 1.0f});
        y(s.vars) = ops::to_type(type, s.result(s.vars));
        kiln::generators::begin_at_zero(x, y);
        kiln::generators::same_shape(y, x);
    }
};

kiln::Workload rows(const char *name, int64_t n, int64_t m, const char *type, bool bench) {
    return {name, {{"x", {n, m}}, {"y", {n, m}}}, {}, {{"type", type}}, bench};
}

} // namespace

KILN_GENERATOR(SoftmaxRows, softmax,
               {.summary = "softmax along dimension 0 of x(j, i)",
                .interface_ = "- `y(j, i)`: the output; `j` runs along a row, `i` over rows\n"
                              "- `softmax(j, i)`: `e` over its sum, in float32; inlined unless placed\n"
                              "- `row_max(i)`: update over `r`, along the row\n"
                              "- `e(j, i)`: exp(x - row_max)\n"
                              "- `row_sum(i)`: update over `r`",
                .workloads = {rows("1x1", 1, 1, "float32", false), rows("5x67", 67, 5, "float32", false),
                              rows("33x1001 bf16", 1001, 33, "bfloat16", false),
                              rows("33x1001 f16", 1001, 33, "float16", false),
                              rows("4096x4096", 4096, 4096, "float32", true),
                              rows("8192x4096 bf16", 4096, 8192, "bfloat16", true),
                              rows("65536x1024 bf16", 1024, 65536, "bfloat16", true)},
                .params = {kiln::generators::type_param, {"log", "log-softmax"}}})
