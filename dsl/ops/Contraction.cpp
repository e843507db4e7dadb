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
    return f(place);
}

} // namespace

Contraction contraction(const Func &a, const Func &b, const Expr &k_extent,
                        const ContractionOptions &options) {
    RDom sum = options.pairs ? RDom(0, 2, 0, k_extent / 2, "k") : RDom(0, k_extent, "k");
    Contraction c{Func(options.name), sum, Var("n"), Var("m"), {}, {}};
    c.vars = {c.n, c.m};
    std::vector<Expr> batch;
    for (int i = 0; i < options.batch; ++i) {
        c.vars.emplace_back("batch" + std::to_string(i));
        batch.push_back(c.vars.back());
    }
    c.acc(c.vars) = 0.0f;
    auto add = [&](const Expr &x, const Expr &w) { c.acc(c.vars) += f32(x) * f32(w); };
    auto of_a = [&](const Expr &k) { return element(a, k, c.m, options.a == Layout::Transposed, batch); };
    auto of_b = [&](const Expr &k) { return element(b, c.n, k, options.b == Layout::Transposed, batch); };
    if (!options.pairs) {
        add(of_a(c.k), of_b(c.k));
        return c;
    }
    Var p("p"), k("k");
    const bool own_batches = size_t(b.dimensions()) == 2 + batch.size();
    std::vector<Var> vars = {p, c.n, k};
    if (own_batches) {
        vars.insert(vars.end(), c.vars.begin() + 2, c.vars.end());
    }
    c.pairs = Func(options.pairs_name);
    c.pairs(vars) = of_b(2 * k + p);
    std::vector<Expr> place = {c.k[0], c.n, c.k[1]};
    if (own_batches) {
        place.insert(place.end(), batch.begin(), batch.end());
    }
    add(of_a(2 * c.k[1] + c.k[0]), c.pairs(place));
    RDom last(k_extent / 2 * 2, k_extent % 2, "k_last");
    add(of_a(last), of_b(last));
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
