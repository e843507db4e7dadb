#include "dsl/ops/Elementwise.h"

#include "dsl/ops/Numeric.h"
#include "dsl/support/Diagnostic.h"

#include <fmt/format.h>

namespace kiln::ops {

using namespace Halide;

Expr at(const Func &f, const std::vector<Expr> &coordinates) {
    size_t rank = size_t(f.dimensions());
    if (rank > coordinates.size()) {
        Diagnostic d;
        d.code = "K1032";
        d.message = fmt::format("operand `{}` has {} dimensions, the result has {}", shown_name(f), rank,
                                coordinates.size());
        d.helps = {"reduce the operand first, or give the result more dimensions"};
        throw Error(d);
    }
    return f32(f(std::vector<Expr>(coordinates.begin(), coordinates.begin() + long(rank))));
}

Func elementwise(const std::string &name, const std::vector<Var> &vars, const std::vector<Func> &operands,
                 const Nary &f, const Type &type) {
    std::vector<Expr> coordinates(vars.begin(), vars.end());
    std::vector<Expr> values;
    for (const Func &operand : operands) {
        values.push_back(at(operand, coordinates));
    }
    Func result(name);
    result(vars) = to_type(type, f(values));
    return result;
}

Expr relu_chain(const Expr &a, const Expr &x, const Expr &b) {
    return relu(a * x + b);
}

Expr gelu_residual(const Expr &x, const Expr &w, const Expr &b, const Expr &residual) {
    return gelu(x * w + b) + residual;
}

Expr swiglu(const Expr &gate, const Expr &up) {
    return silu(gate) * up;
}

} // namespace kiln::ops
