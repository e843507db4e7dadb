// A 3 x 3 convolution layer with bias and relu.
#include "bench/pipelines/pipelines.h"

namespace {

using namespace Halide;
namespace bench = kiln::bench;

class ConvLayer : public Generator<ConvLayer> {
public:
    Input<Buffer<float, 4>> input{"input"};
    Input<Buffer<float, 4>> filter{"filter"};
    Input<Buffer<float, 1>> bias{"bias"};
    Output<Buffer<float, 4>> relu{"relu"};

    void generate() {
        constexpr int n_ = 5, ci = 128, co = 128, w = 100, h = 80;
        Var x("x"), y("y"), c("c"), n("n");
        Func conv("conv");
        RDom r(0, input.dim(0).extent(), 0, 3, 0, 3, "r");
        conv(c, x, y, n) = bias(c);
        conv(c, x, y, n) += filter(c, r.y, r.z, r.x) * input(r.x, x + r.y, y + r.z, n);
        relu(c, x, y, n) = max(0.0f, conv(c, x, y, n));
        bench::sizes(input, {ci, w + 2, h + 2, n_});
        bench::sizes(filter, {co, 3, 3, ci});
        bench::sizes(bias, {co});
        bench::sizes(relu, {co, w, h, n_});
        bench::extent_of(input, 1, relu, 1, 2);
        bench::extent_of(input, 2, relu, 2, 2);
        bench::extent_of(input, 3, relu, 3);
        bench::extent_of(filter, 0, relu, 0);
        filter.dim(1).set_extent(3);
        filter.dim(2).set_extent(3);
        bench::extent_of(filter, 3, input, 0);
        bench::extent_of(bias, 0, relu, 0);
    }
};

kiln::Workload layer(const char *name, int64_t ci, int64_t co, int64_t w, int64_t h, int64_t n, bool timed) {
    return bench::work(name,
                       {{"input", {ci, w + 2, h + 2, n}},
                        {"filter", {co, 3, 3, ci}},
                        {"bias", {co}},
                        {"relu", {co, w, h, n}}},
                       timed);
}

} // namespace

KILN_GENERATOR(ConvLayer, conv_layer,
               {.summary = "3 x 3 convolution of images with `bias`, then relu",
                .interface_ = "- `relu(c, x, y, n)`: the output, channels innermost\n"
                              "- `conv(c, x, y, n)`: the sum over `r.x` (channels), `r.y`, `r.z` (taps)",
                .workloads = {layer("1", 1, 1, 1, 1, 1, false), layer("5x7x6x5", 5, 7, 6, 5, 2, false),
                              layer("128x128x100x80x5", 128, 128, 100, 80, 5, true)}})
