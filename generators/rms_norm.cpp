// RMS normalization of each row, with gamma, and with a residual added first where `add` is set.
#include "generators/norm.h"

namespace {

class RmsNorm : public kiln::generators::NormGenerator<RmsNorm> {
public:
    static constexpr bool has_beta = false;
    static kiln::ops::Norm formula(const Halide::Func &x, const Halide::Expr &extent,
                                   const kiln::ops::NormOptions &options) {
        return kiln::ops::rms_norm(x, extent, options);
    }
};

} // namespace

KILN_GENERATOR(RmsNorm, rms_norm,
               {.summary = "root-mean-square normalization along dimension 0 of x(j, i)",
                .interface_ = "- `y(j, i)`: the output; `j` runs along a row, `i` over rows\n"
                              "- `x_plus_residual(j, i)`: second output with `add`\n"
                              "- `h(j, i)`: x, or x + residual, in float32; inlined unless placed\n"
                              "- `sq(i)`: sum of squares, update over `r`; `inv(i)`: 1 / sqrt(sq / n + eps)\n"
                              "- `norm(j, i)`: y in float32; inlined unless placed",
                .workloads = kiln::generators::norm_workloads(false),
                .params = {kiln::generators::type_param, kiln::generators::add_param}})
