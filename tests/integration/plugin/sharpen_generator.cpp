// An image minus a part of its blur: nothing here knows of Kiln, and nothing schedules where a searcher does.
#include <Halide.h>

using namespace Halide;

class Sharpen : public Generator<Sharpen> {
public:
    Input<Buffer<float, 2>> input{"input"};
    Input<float> strength{"strength"};
    Output<Buffer<float, 2>> output{"output"};

    void generate() {
        Var x("x"), y("y");
        Func edge = BoundaryConditions::repeat_edge(input);
        Func across("across"), blurred("blurred");
        across(x, y) = (edge(x - 1, y) + 2 * edge(x, y) + edge(x + 1, y)) / 4;
        blurred(x, y) = (across(x, y - 1) + 2 * across(x, y) + across(x, y + 1)) / 4;
        output(x, y) = edge(x, y) + strength * (edge(x, y) - blurred(x, y));
        input.set_estimates({{0, 640}, {0, 480}});
        strength.set_estimate(0.5f);
        output.set_estimates({{0, 640}, {0, 480}});
        if (!using_autoscheduler()) {
            across.compute_root();
        }
    }
};

HALIDE_REGISTER_GENERATOR(Sharpen, sharpen)
