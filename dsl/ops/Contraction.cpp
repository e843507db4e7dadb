#include "dsl/ops/Contraction.h"

#include "dsl/ops/Numeric.h"
#include "dsl/support/Diagnostic.h"

#include <fmt/format.h>

namespace kiln::ops {

using namespace Halide;

namespace {

/// The element of an operand whose two matrix coordinates are `inner` and `outer`.
Expr element(const Func &f, Expr inner, Expr outer, bool transposed, const std::vector<Expr> &batch) {
    if (transposed) {
        std::swap(inner, outer);
    }
    std::vector<Expr> place = {inner, outer};
    if (size_t(f.dimensions()) == 2 + batch.size()) {
        place.insert(place.end(), batch.begin(), batch.end());
    } else if (f.dimensions() != 2) {
        Diagnostic d;
        d.code = "K1033";
        d.message =
            fmt::format("operand `{}` of a contraction has {} dimensions, expected 2{}", shown_name(f),
                        f.dimensions(), batch.empty() ? "" : fmt::format(" or {}", 2 + batch.size()));
        d.helps = {"set `batch` to the number of its batch dimensions"};
        throw Error(d);
    }
    return f32(f(place));
}

} // namespace

Contraction contraction(const Func &a, const Func &b, const Expr &k_extent,
                        const ContractionOptions &options) {
    Contraction c{Func(options.name), RDom(0, k_extent, "k"), Var("n"), Var("m"), {}};
    c.vars = {c.n, c.m};
    std::vector<Expr> batch;
    for (int i = 0; i < options.batch; ++i) {
        c.vars.emplace_back("batch" + std::to_string(i));
        batch.push_back(c.vars.back());
    }
    c.acc(c.vars) = 0.0f;
    c.acc(c.vars) += element(a, c.k, c.m, options.a == Layout::Transposed, batch) *
                     element(b, c.n, c.k, options.b == Layout::Transposed, batch);
    return c;
}

Func with_epilogue(const std::string &name, const Contraction &product, const Epilogue &epilogue,
                   const Type &type) {
    std::vector<Expr> place(product.vars.begin(), product.vars.end());
    Func result(name);
    result(product.vars) = to_type(type, epilogue(product.acc(place), place));
    return result;
}

Epilogue bias(const Func &b) {
    return [b](Expr value, const std::vector<Expr> &place) { return value + at(b, {place[0]}); };
}

Epilogue residual(const Func &r) {
    return [r](Expr value, const std::vector<Expr> &place) { return value + at(r, place); };
}

Epilogue activate(const Unary &f) {
    return [f](Expr value, const std::vector<Expr> &) { return f(value); };
}

Epilogue sequence(const std::vector<Epilogue> &steps) {
    return [steps](Expr value, const std::vector<Expr> &place) {
        for (const Epilogue &step : steps) {
            value = step(value, place);
        }
        return value;
    };
}

} // namespace kiln::ops
