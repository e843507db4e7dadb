// A chain of 5 x 5 stencils of 16-bit integers.
#include "bench/pipelines/pipelines.h"

namespace {

using namespace Halide;
namespace bench = kiln::bench;

class StencilChain : public Generator<StencilChain> {
public:
    GeneratorParam<int> stages{"stages", 32, 1, 64};
    Input<Buffer<uint16_t, 2>> input{"input"};
    Output<Buffer<uint16_t, 2>> output{"output"};

    void generate() {
        Var x("x"), y("y");
        Func last = BoundaryConditions::repeat_edge(input);
        for (int s = 0; s < stages; s++) {
            Func next(s + 1 == stages ? "last_stage" : "stage_" + std::to_string(s));
            Expr e = cast<uint16_t>(0);
            for (int i = -2; i <= 2; i++) {
                for (int j = -2; j <= 2; j++) {
                    e += cast<uint16_t>((i + 3) * (j + 7)) * last(x + i, y + j);
                }
            }
            next(x, y) = e;
            last = next;
        }
        output(x, y) = last(x, y);
        bench::sizes(input, {1536, 2560});
        bench::sizes(output, {1536, 2560});
        bench::extent_of(output, 0, input, 0);
        bench::extent_of(output, 1, input, 1);
    }
};

kiln::Workload image(const char *name, int64_t w, int64_t h, bool timed) {
    return bench::work(name, {{"input", {w, h}}, {"output", {w, h}}}, timed);
}

} // namespace

KILN_GENERATOR(
    StencilChain, stencil_chain,
    {.summary = "a chain of 5 x 5 stencils of 16-bit integers",
     .interface_ = "- `stage_0` … `last_stage`: each reads 5 x 5 of the one before; `output` is the last",
     .workloads = {image("1x1", 1, 1, false), image("67x33", 67, 33, false),
                   image("1536x2560", 1536, 2560, true)},
     .params = {{"stages", "stencils in the chain"}}})
