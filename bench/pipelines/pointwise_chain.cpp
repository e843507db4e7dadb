// Six elementwise Funcs in a row over two matrices.
#include "bench/pipelines/pipelines.h"

namespace {

using namespace Halide;
namespace bench = kiln::bench;

class PointwiseChain : public Generator<PointwiseChain> {
public:
    Input<Buffer<float, 2>> x{"x"};
    Input<Buffer<float, 2>> residual{"residual"};
    Output<Buffer<float, 2>> y{"y"};

    void generate() {
        Var j("j"), i("i");
        Func scaled("scaled"), shifted("shifted"), gate("gate"), gated("gated"), sum("sum");
        scaled(j, i) = x(j, i) * 1.5f;
        shifted(j, i) = scaled(j, i) + 0.25f;
        gate(j, i) = 1.0f / (1.0f + exp(-shifted(j, i)));
        gated(j, i) = gate(j, i) * shifted(j, i);
        sum(j, i) = gated(j, i) + residual(j, i);
        y(j, i) = max(sum(j, i), 0.0f);
        bench::sizes(x, {4096, 2048});
        bench::sizes(residual, {4096, 2048});
        bench::sizes(y, {4096, 2048});
        for (int d = 0; d < 2; d++) {
            bench::extent_of(residual, d, x, d);
            bench::extent_of(y, d, x, d);
        }
    }
};

kiln::Workload matrix(const char *name, int64_t n, int64_t m, bool timed) {
    return bench::work(name, {{"x", {n, m}}, {"residual", {n, m}}, {"y", {n, m}}}, timed);
}

} // namespace

KILN_GENERATOR(PointwiseChain, pointwise_chain,
               {.summary = "relu(silu(1.5 x + 0.25) + residual) in six Funcs",
                .interface_ = "- `scaled`, `shifted`, `gate`, `gated`, `sum`, then the output `y(j, i)`",
                .workloads = {matrix("1x1", 1, 1, false), matrix("67x33", 67, 33, false),
                              matrix("4096x2048", 4096, 2048, true)}})
