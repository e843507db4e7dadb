// A user's own generator, compiled against an installed Kiln.
#include <Halide.h>
#include <dsl/generator/Generator.h>

namespace {
class Scale : public Halide::Generator<Scale> {
public:
    Input<Buffer<float, 1>> x{"x"};
    Input<float> factor{"factor"};
    Output<Buffer<float, 1>> y{"y"};
    void generate() { y(i) = factor * x(i); }

private:
    Var i{"i"};
};
} // namespace

KILN_GENERATOR(Scale, scale, {.summary = "factor times x"})
