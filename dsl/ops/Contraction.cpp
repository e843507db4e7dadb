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
    constexpr int block = 32; // of k: what one instruction of AMX takes
    RDom sum =
        options.pairs ? RDom(0, block, 0, (k_extent + block - 1) / block, "k") : RDom(0, k_extent, "k");
    Contraction c{Func(options.name), sum, Var("n"), Var("m"), {}, {}, {}};
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
    // A place of `f`'s padded copy: `inner` coordinates, then the operand's own batch dimensions.
    auto place = [&](const Func &f, std::vector<Expr> inner) {
        if (size_t(f.dimensions()) == 2 + batch.size()) {
            inner.insert(inner.end(), batch.begin(), batch.end());
        }
        return inner;
    };
    auto vars = [&](const Func &f, std::vector<Var> inner) {
        if (size_t(f.dimensions()) == 2 + batch.size()) {
            inner.insert(inner.end(), c.vars.begin() + 2, c.vars.end());
        }
        return inner;
    };
    Var p("p"), k("k");
    RDom ka(0, k_extent, "k_in"), kb(0, k_extent, "k_in");
    c.rows = Func(options.rows_name);
    c.rows(vars(a, {k, c.m})) = cast(a.type(), 0);
    c.rows(place(a, {ka, c.m})) = of_a(ka);
    c.pairs = Func(options.pairs_name);
    c.pairs(vars(b, {p, c.n, k})) = cast(b.type(), 0);
    c.pairs(place(b, {kb % 2, c.n, kb / 2})) = of_b(kb);
    const RVar kx = c.k[0], ky = c.k[1];
    add(c.rows(place(a, {block * ky + kx, c.m})), c.pairs(place(b, {kx % 2, c.n, block / 2 * ky + kx / 2})));
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
