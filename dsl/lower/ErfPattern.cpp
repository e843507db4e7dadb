#include "dsl/lower/ErfPattern.h"

namespace kiln {

using namespace Halide::Internal;
using Halide::Expr;

Expr erf_argument(const Expr &e) {
    static const Expr pattern = substitute_in_all_lets(Halide::erf(Variable::make(Halide::Float(32), "w")));
    const Mul *product = e.as<Mul>();
    if (!product || product->type != Halide::Float(32) || !product->a.as<Select>() ||
        !product->b.as<Select>()) {
        return {};
    }
    std::map<std::string, Expr> bound;
    return expr_match(pattern, e, bound) ? bound.at("w") : Expr();
}

} // namespace kiln
