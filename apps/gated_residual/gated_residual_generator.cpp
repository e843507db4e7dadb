// The algorithm, once, without a word on how it runs. Its Func and Var names are what schedules speak of.
#include <Halide.h>
#include <dsl/generator/Generator.h>

using namespace Halide;

class GatedResidual : public Generator<GatedResidual> {
public:
    Input<Buffer<float, 2>> value{"value"};
    Input<Buffer<float, 2>> gate{"gate"};
    Input<Buffer<float, 2>> residual{"residual"};
    Output<Buffer<float, 2>> out{"out"};

    void generate() {
        Var x("x"), y("y");
        out(x, y) = residual(x, y) + value(x, y) / (1.0f + exp(-gate(x, y)));
    }
};

KILN_GENERATOR(GatedResidual, gated_residual,
               {
                   .summary = "residual + value * sigmoid(gate)",
                   .workloads = {{.name = "1000x513",
                                  .extents = {{"value", {1000, 513}},
                                              {"gate", {1000, 513}},
                                              {"residual", {1000, 513}},
                                              {"out", {1000, 513}}}}},
               })
