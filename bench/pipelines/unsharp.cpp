// Unsharp masking of an image of three channels.
#include "bench/pipelines/pipelines.h"

namespace {

using namespace Halide;
namespace bench = kiln::bench;

class Unsharp : public Generator<Unsharp> {
public:
    Input<Buffer<float, 3>> input{"input"};
    Output<Buffer<float, 3>> output{"output"};

    void generate() {
        constexpr float sigma = 1.5f;
        Var x("x"), y("y"), c("c");
        Func weight("weight"), gray("gray"), blur_y("blur_y"), blur_x("blur_x"), sharpen("sharpen"),
            ratio("ratio");
        Func padded = BoundaryConditions::repeat_edge(input);
        weight(x) = exp(-x * x / (2 * sigma * sigma)) / (std::sqrt(2 * 3.14159265f) * sigma);
        gray(x, y) = 0.299f * padded(x, y, 0) + 0.587f * padded(x, y, 1) + 0.114f * padded(x, y, 2);
        blur_y(x, y) = weight(0) * gray(x, y) + weight(1) * (gray(x, y - 1) + gray(x, y + 1)) +
                       weight(2) * (gray(x, y - 2) + gray(x, y + 2)) +
                       weight(3) * (gray(x, y - 3) + gray(x, y + 3));
        blur_x(x, y) = weight(0) * blur_y(x, y) + weight(1) * (blur_y(x - 1, y) + blur_y(x + 1, y)) +
                       weight(2) * (blur_y(x - 2, y) + blur_y(x + 2, y)) +
                       weight(3) * (blur_y(x - 3, y) + blur_y(x + 3, y));
        sharpen(x, y) = 2 * gray(x, y) - blur_x(x, y);
        ratio(x, y) = sharpen(x, y) / gray(x, y);
        output(x, y, c) = ratio(x, y) * input(x, y, c);
        bench::sizes(input, {1536, 2560, 3});
        bench::sizes(output, {1536, 2560, 3});
        input.dim(2).set_extent(3);
        output.dim(2).set_extent(3);
        bench::extent_of(output, 0, input, 0);
        bench::extent_of(output, 1, input, 1);
    }
};

kiln::Workload image(const char *name, int64_t w, int64_t h, bool timed) {
    return bench::work(name, {{"input", {w, h, 3}}, {"output", {w, h, 3}}}, timed);
}

} // namespace

KILN_GENERATOR(Unsharp, unsharp,
               {.summary = "unsharp masking of an image of three channels",
                .interface_ = "- `output(x, y, c)`: the input times `ratio(x, y)`\n"
                              "- `gray`, `blur_y`, `blur_x`, `sharpen`: one channel; `weight`: seven taps",
                .workloads = {image("1x1", 1, 1, false), image("67x33", 67, 33, false),
                              image("1536x2560", 1536, 2560, true)}})
