#include "dsl/ops/Softmax.h"

#include "dsl/ops/Elementwise.h"
#include "dsl/ops/Numeric.h"

namespace kiln::ops {

using namespace Halide;

std::vector<Var> row_vars(int rank) {
    std::vector<Var> vars;
    for (int d = 0; d < rank; ++d) {
        vars.emplace_back(d == 0 ? "j" : d == 1 ? "i" : "i" + std::to_string(d - 1));
    }
    return vars;
}

Softmax softmax(const Func &x, const Expr &extent, const SoftmaxOptions &options) {
    auto named = [&](const char *name) { return Func(options.prefix + name); };
    Softmax s{named("row_max"), named("e"),           named("row_sum"),
              named("softmax"), RDom(0, extent, "r"), row_vars(x.dimensions())};
    std::vector<Expr> element(s.vars.begin(), s.vars.end());
    std::vector<Var> row(s.vars.begin() + 1, s.vars.end());
    std::vector<Expr> along = element;
    along[0] = s.r;
    bool scaled = !Internal::is_const_one(options.scale);
    auto score = [&](const std::vector<Expr> &place) {
        return scaled ? at(x, place) * options.scale : at(x, place);
    };

    s.row_max(row) = minus_inf();
    s.row_max(row) = max(s.row_max(row), score(along));
    s.e(s.vars) = exp(score(element) - s.row_max(row));
    s.row_sum(row) = 0.0f;
    s.row_sum(row) += s.e(along);
    if (options.log) {
        s.result(s.vars) = score(element) - s.row_max(row) - log(s.row_sum(row));
    } else {
        // One division a row (it does not depend on j), a product an element.
        s.result(s.vars) = s.e(element) * (1.0f / s.row_sum(row));
    }
    return s;
}

} // namespace kiln::ops
