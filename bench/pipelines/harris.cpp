// Harris's corner response of an image of three channels.
#include "bench/pipelines/pipelines.h"

namespace {

using namespace Halide;
namespace bench = kiln::bench;

class Harris : public Generator<Harris> {
public:
    Input<Buffer<float, 3>> input{"input"};
    Output<Buffer<float, 2>> output{"output"};
    Var x{"x"}, y{"y"};

    void generate() {
        Func gray("gray"), iy("iy"), ix("ix"), ixx("ixx"), iyy("iyy"), ixy("ixy"), det("det"), trace("trace");
        gray(x, y) = 0.299f * input(x, y, 0) + 0.587f * input(x, y, 1) + 0.114f * input(x, y, 2);
        // The output's (0, 0) is at (3, 3) of the input.
        iy(x, y) =
            (gray(x + 2, y + 4) - gray(x + 2, y + 2) + gray(x + 4, y + 4) - gray(x + 4, y + 2)) / 12.0f +
            (gray(x + 3, y + 4) - gray(x + 3, y + 2)) / 6.0f;
        ix(x, y) =
            (gray(x + 4, y + 2) - gray(x + 2, y + 2) + gray(x + 4, y + 4) - gray(x + 2, y + 4)) / 12.0f +
            (gray(x + 4, y + 3) - gray(x + 2, y + 3)) / 6.0f;
        ixx(x, y) = ix(x, y) * ix(x, y);
        iyy(x, y) = iy(x, y) * iy(x, y);
        ixy(x, y) = ix(x, y) * iy(x, y);
        Func sxx = window("sxx", ixx), syy = window("syy", iyy), sxy = window("sxy", ixy);
        det(x, y) = sxx(x, y) * syy(x, y) - sxy(x, y) * sxy(x, y);
        trace(x, y) = sxx(x, y) + syy(x, y);
        output(x, y) = det(x, y) - 0.04f * trace(x, y) * trace(x, y);
        bench::sizes(input, {1536, 2560, 3});
        bench::sizes(output, {1530, 2554});
        input.dim(2).set_extent(3);
        bench::extent_of(input, 0, output, 0, 6);
        bench::extent_of(input, 1, output, 1, 6);
    }

private:
    Func window(const char *name, const Func &f) {
        Func sum(name);
        Expr e = 0.0f;
        for (int j = -1; j <= 1; j++) {
            for (int i = -1; i <= 1; i++) {
                e += f(x + i, y + j);
            }
        }
        sum(x, y) = e;
        return sum;
    }
};

kiln::Workload image(const char *name, int64_t w, int64_t h, bool timed) {
    return bench::work(name, {{"input", {w + 6, h + 6, 3}}, {"output", {w, h}}}, timed);
}

} // namespace

KILN_GENERATOR(
    Harris, harris,
    {.summary = "Harris's corner response of an image of three channels",
     .interface_ = "- `output(x, y)`: from `det` and `trace` of the sums `sxx`, `syy`, `sxy` over 3 x 3\n"
                   "- `ixx`, `iyy`, `ixy`: products of the derivatives `ix`, `iy` of `gray`",
     .workloads = {image("1x1", 1, 1, false), image("67x33", 67, 33, false),
                   image("1530x2554", 1530, 2554, true)}})
