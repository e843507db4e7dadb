#include "dsl/ops/Norms.h"

#include "dsl/ops/Elementwise.h"
#include "dsl/ops/Numeric.h"
#include "dsl/ops/Softmax.h"

namespace kiln::ops {

using namespace Halide;

namespace {

Norm norm(const Func &x, const Expr &extent, const NormOptions &options, bool centered) {
    auto named = [&](const char *name) { return Func(options.prefix + name); };
    Norm out{named("h"),   named("sum"),  named("mean"),        named("sq"),
             named("inv"), named("norm"), RDom(0, extent, "r"), row_vars(x.dimensions())};
    std::vector<Expr> element(out.vars.begin(), out.vars.end());
    std::vector<Var> row(out.vars.begin() + 1, out.vars.end());
    std::vector<Expr> along = element;
    along[0] = out.r;

    Expr value = at(x, element);
    if (options.residual.defined()) {
        value = f32(to_type(options.h_type, value + at(options.residual, element)));
    }
    out.h(out.vars) = value;

    Expr n = cast<float>(extent);
    auto deviation = [&](const std::vector<Expr> &place) {
        Expr h = out.h(place);
        return centered ? h - out.mean(row) : h;
    };
    if (centered) {
        out.sum(row) = 0.0f;
        out.sum(row) += out.h(along);
        out.mean(row) = out.sum(row) / n;
    }
    out.sq(row) = 0.0f;
    out.sq(row) += deviation(along) * deviation(along);
    out.inv(row) = inverse_sqrt(out.sq(row) / n + options.eps);

    Expr y = deviation(element) * out.inv(row);
    if (options.gamma.defined()) {
        y = y * at(options.gamma, element);
    }
    if (options.beta.defined()) {
        y = y + at(options.beta, element);
    }
    out.result(out.vars) = y;
    return out;
}

} // namespace

Norm layer_norm(const Func &x, const Expr &extent, const NormOptions &options) {
    return norm(x, extent, options, true);
}

Norm rms_norm(const Func &x, const Expr &extent, const NormOptions &options) {
    return norm(x, extent, options, false);
}

} // namespace kiln::ops
