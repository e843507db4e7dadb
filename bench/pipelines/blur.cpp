// A 3 x 3 box blur of 16-bit integers in two passes.
#include "bench/pipelines/pipelines.h"

namespace {

using namespace Halide;
namespace bench = kiln::bench;

class Blur : public Generator<Blur> {
public:
    Input<Buffer<uint16_t, 2>> input{"input"};
    Output<Buffer<uint16_t, 2>> output{"output"};

    void generate() {
        Func blur_x("blur_x");
        Var x("x"), y("y");
        blur_x(x, y) = (input(x, y) + input(x + 1, y) + input(x + 2, y)) / cast<uint16_t>(3);
        output(x, y) = (blur_x(x, y) + blur_x(x, y + 1) + blur_x(x, y + 2)) / cast<uint16_t>(3);
        bench::sizes(input, {1538, 2562});
        bench::sizes(output, {1536, 2560});
        bench::extent_of(input, 0, output, 0, 2);
        bench::extent_of(input, 1, output, 1, 2);
    }
};

kiln::Workload image(const char *name, int64_t w, int64_t h, bool timed) {
    return bench::work(name, {{"input", {w + 2, h + 2}}, {"output", {w, h}}}, timed);
}

} // namespace

KILN_GENERATOR(Blur, blur,
               {.summary = "3 x 3 box blur of an image in two passes",
                .interface_ = "- `output(x, y)`: the mean of three rows of `blur_x(x, y)`, of three columns",
                .workloads = {image("1x1", 1, 1, false), image("67x33", 67, 33, false),
                              image("1536x2560", 1536, 2560, true)}})
