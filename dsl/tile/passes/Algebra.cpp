#include "dsl/tile/passes/Algebra.h"

#include "dsl/tile/passes/Rewrite.h"

#include <limits>

namespace kiln::tile {

using namespace Halide::Internal;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
/// Chains of definitions that a proof follows.
constexpr int deepest = 16;

void collect(const Expr &e, bool negative, std::vector<Term> &out) {
    if (const Add *a = e.as<Add>()) {
        collect(a->a, negative, out);
        collect(a->b, negative, out);
    } else if (const Sub *s = e.as<Sub>()) {
        collect(s->a, negative, out);
        collect(s->b, !negative, out);
    } else {
        out.push_back({negative, e});
    }
}

void collect(const Expr &e, std::vector<Expr> &out) {
    if (const Mul *m = e.as<Mul>()) {
        collect(m->a, out);
        collect(m->b, out);
    } else {
        out.push_back(e);
    }
}

bool same_limit(const Expr &a, const Expr &b) {
    return a.defined() == b.defined() && (!a.defined() || equal(a, b));
}

/// `z == -inf`, in either order: z.
Expr compared_with_minus_inf(const Expr &condition) {
    const EQ *q = condition.as<EQ>();
    return !q ? Expr() : is_number(q->b, -inf) ? q->a : is_number(q->a, -inf) ? q->b : Expr();
}

} // namespace

std::vector<Term> terms(const Expr &e) {
    std::vector<Term> out;
    collect(e, false, out);
    return out;
}

Expr sum_of(const std::vector<Term> &terms) {
    Expr sum;
    for (const Term &t : terms) {
        if (!t.negative) {
            sum = sum.defined() ? Add::make(sum, t.value) : t.value;
        }
    }
    for (const Term &t : terms) {
        if (t.negative) {
            sum = Sub::make(sum.defined() ? sum : make_zero(t.value.type()), t.value);
        }
    }
    return sum.defined() ? sum : Expr(0.0f);
}

std::vector<Expr> factors(const Expr &e) {
    std::vector<Expr> out;
    collect(e, out);
    return out;
}

Expr product_of(const std::vector<Expr> &factors) {
    Expr product;
    for (const Expr &f : factors) {
        product = product.defined() ? Mul::make(product, f) : f;
    }
    return product;
}

bool same(const Expr &a, const Expr &b) {
    return a.defined() && b.defined() && a.type() == b.type() && equal(a, b);
}

std::optional<double> number(const Expr &e) {
    if (!e.defined()) {
        return std::nullopt;
    }
    const std::optional<double> f = as_const_float(e);
    return f ? std::optional<double>(*f) : std::nullopt;
}

bool is_number(const Expr &e, double value) {
    const std::optional<double> n = number(e);
    return n && *n == value;
}

Expr exponent(const Expr &e) {
    const Call *c = e.as<Call>();
    return c && c->name == "exp_f32" ? c->args[0] : Expr();
}

Expr guarded_from_minus_inf(const Expr &e) {
    const Select *s = e.as<Select>();
    const Expr z = s ? compared_with_minus_inf(s->condition) : Expr();
    return z.defined() && is_number(s->true_value, 0) && same(s->false_value, z) ? z : Expr();
}

bool is_uniform(const Expr &e) {
    return !contains(e, [](const Expr &x) {
        const Variable *v = x.as<Variable>();
        const Call *c = x.as<Call>();
        return (v && v->name.find(".extent.") == std::string::npos) ||
               (c && c->call_type != Call::PureExtern && c->call_type != Call::PureIntrinsic) ||
               (c && c->name.compare(0, 5, "view:") == 0);
    });
}

namespace {

/// At least 0: what a root or an extent is.
bool is_not_negative(const Expr &e) {
    if (const Cast *c = e.as<Cast>()) {
        return e.type().is_float() && is_not_negative(c->value);
    }
    if (const Variable *v = e.as<Variable>()) {
        return v->name.find(".extent.") != std::string::npos;
    }
    const Call *c = e.as<Call>();
    return c && c->name == "sqrt_f32" ? is_not_negative(c->args[0]) : is_positive(e);
}

} // namespace

bool is_positive(const Expr &e) {
    if (const std::optional<double> n = number(e)) {
        return *n > 0 && *n < inf;
    }
    if (const Mul *m = e.as<Mul>()) {
        return is_positive(m->a) && is_positive(m->b);
    }
    if (const Div *d = e.as<Div>()) {
        return e.type().is_float() && is_positive(d->a) && is_not_negative(d->b);
    }
    return false;
}

std::optional<Scaled> positive_factor(const Expr &e) {
    if (const Mul *m = e.as<Mul>()) {
        for (const auto &[c, z] : {std::pair{m->b, m->a}, {m->a, m->b}}) {
            if (is_positive(c) && !is_uniform(z)) {
                return Scaled{c, z};
            }
        }
    } else if (const Select *s = e.as<Select>(); s && is_number(s->false_value, -inf)) {
        if (std::optional<Scaled> inner = positive_factor(s->true_value)) {
            return Scaled{inner->factor, Select::make(s->condition, inner->value, s->false_value)};
        }
    }
    return std::nullopt;
}

Expr rewrite(const Expr &e, const std::function<Expr(const Expr &)> &f) {
    class PostOrder : public IRMutator {
    public:
        explicit PostOrder(const std::function<Expr(const Expr &)> &f) : f_(f) {}
        using IRMutator::mutate;
        Expr mutate(const Expr &e) override { return f_(IRMutator::mutate(e)); }

    private:
        const std::function<Expr(const Expr &)> &f_;
    };
    return e.defined() ? PostOrder(f).mutate(e) : e;
}

bool contains(const Expr &e, const std::function<bool(const Expr &)> &f) {
    bool found = false;
    rewrite(e, [&](const Expr &x) {
        found |= f(x);
        return x;
    });
    return found;
}

Expr replace_same(const Expr &e, const Expr &what, const Expr &by) {
    return rewrite(e, [&](const Expr &x) { return same(x, what) ? by : x; });
}

Prover::Prover(const Kernel &k, std::string axis, Expr limit)
    : definitions_(definitions(k.body)), axis_(std::move(axis)), limit_(std::move(limit)) {}

Expr Prover::definition(const Expr &tile) const {
    const Variable *v = tile.as<Variable>();
    auto d = v ? definitions_.find(v->name) : definitions_.end();
    const Map *m = d == definitions_.end() ? nullptr : d->second->as<Map>();
    return m ? m->value : Expr();
}

/// A maximum that leaves out coordinates says nothing about those, unless this prover leaves them out too.
const Reduce *Prover::maximum(const Expr &tile) const {
    const Variable *v = tile.as<Variable>();
    auto d = v ? definitions_.find(v->name) : definitions_.end();
    const Reduce *r = d == definitions_.end() ? nullptr : d->second->as<Reduce>();
    const bool covers = r && (!r->limit.defined() || (r->axis == axis_ && same_limit(r->limit, limit_)));
    return covers && r->op == ReduceOp::Max ? r : nullptr;
}

bool Prover::at_most(const Expr &a, const Expr &b, int depth) const {
    if (depth > deepest) {
        return false;
    }
    if (same(a, b) || is_number(a, -inf) || is_number(b, inf)) {
        return true;
    }
    if (const auto x = number(a), y = number(b); x && y) {
        return *x <= *y;
    }
    auto next = [&](const Expr &x, const Expr &y) { return at_most(x, y, depth + 1); };
    if (const Max *m = a.as<Max>()) {
        return next(m->a, b) && next(m->b, b);
    }
    if (const Min *m = b.as<Min>()) {
        return next(a, m->a) && next(a, m->b);
    }
    if (const Max *m = b.as<Max>(); m && (next(a, m->a) || next(a, m->b))) {
        return true;
    }
    if (const Min *m = a.as<Min>(); m && (next(m->a, b) || next(m->b, b))) {
        return true;
    }
    if (const Select *s = b.as<Select>()) {
        // In the branch where z = -inf holds, everything <= z is -inf.
        const Expr z = compared_with_minus_inf(s->condition);
        const bool bottom = z.defined() && next(a, z);
        if ((bottom || next(a, s->true_value)) && next(a, s->false_value)) {
            return true;
        }
    }
    if (const Select *s = a.as<Select>(); s && next(s->true_value, b) && next(s->false_value, b)) {
        return true;
    }
    if (const auto x = positive_factor(a), y = positive_factor(b);
        x && y && a.as<Mul>() && b.as<Mul>() && same(x->factor, y->factor) && next(x->value, y->value)) {
        return true;
    }
    if (const Reduce *r = maximum(b); r && next(a, r->value)) {
        return true;
    }
    if (const Expr d = definition(b); d.defined() && next(a, d)) {
        return true;
    }
    const Expr d = definition(a);
    return d.defined() && next(d, b);
}

bool Prover::not_positive(const Expr &e) const {
    if (const auto n = number(e)) {
        return *n <= 0;
    }
    const std::vector<Term> t = terms(e);
    if (t.size() != 2 || t[0].negative == t[1].negative) {
        return false;
    }
    return at_most(t[t[0].negative ? 1 : 0].value, t[t[0].negative ? 0 : 1].value);
}

bool Prover::is_maximum(const Expr &b, const Expr &e) const {
    if (const Reduce *r = maximum(b)) {
        return r->axis == axis_ && same_limit(r->limit, limit_) && same(r->value, e);
    }
    return false;
}

bool Prover::bounds_from_above(const Expr &e, const Expr &z) const {
    if (same(e, z)) {
        return true;
    }
    if (const Max *m = e.as<Max>()) {
        return bounds_from_above(m->a, z) || bounds_from_above(m->b, z);
    }
    if (e.as<Mul>()) {
        const auto s = positive_factor(e);
        return s && bounds_from_above(s->value, z);
    }
    if (const Reduce *r = maximum(e)) {
        return bounds_from_above(r->value, z);
    }
    const Expr d = definition(e);
    return d.defined() && bounds_from_above(d, z);
}

Expr Prover::merge_exponents(const Expr &x, const Expr &y) const {
    if (!not_positive(x) || !not_positive(y)) {
        return Expr();
    }
    std::vector<Term> t = terms(x);
    const std::vector<Term> more = terms(y);
    t.insert(t.end(), more.begin(), more.end());
    for (size_t i = 0; i < t.size(); i++) {
        for (size_t j = 0; j < t.size(); j++) {
            if (t[i].negative || !t[j].negative || !same(guarded_from_minus_inf(t[j].value), t[i].value)) {
                continue;
            }
            for (size_t l = 0; l < t.size(); l++) {
                if (l != i && !t[l].negative && is_maximum(t[i].value, t[l].value)) {
                    t.erase(t.begin() + static_cast<std::ptrdiff_t>(std::max(i, j)));
                    t.erase(t.begin() + static_cast<std::ptrdiff_t>(std::min(i, j)));
                    return Halide::exp(sum_of(t));
                }
            }
        }
    }
    return Halide::exp(sum_of(t));
}

} // namespace kiln::tile
