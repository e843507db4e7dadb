#include "dsl/tile/passes/PastTheEnd.h"

#include "dsl/tile/passes/Algebra.h"
#include "dsl/tile/passes/Rewrite.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace kiln::tile {

using namespace Halide::Internal;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

Expr extent_of(const std::string &view, size_t dimension) {
    return Variable::make(Halide::Int(32), fmt::format("{}.extent.{}", view, dimension));
}

/// Whether a variable is no extent of a view: conditions on a call can hold no other.
bool uses_loop(const Expr &e) {
    return contains(e, [](const Expr &x) {
        const Variable *v = x.as<Variable>();
        return v && v->name.find(".extent.") == std::string::npos;
    });
}

bool is_comparison(const Expr &e) {
    return e.as<LT>() || e.as<LE>() || e.as<GT>() || e.as<GE>() || e.as<EQ>() || e.as<NE>();
}

} // namespace

Expr fold_logic(const Expr &e) {
    if (const And *a = e.as<And>()) {
        return is_const_zero(a->a) || is_const_zero(a->b) ? const_false()
               : is_const_one(a->a)                       ? a->b
               : is_const_one(a->b)                       ? a->a
                                                          : e;
    }
    if (const Or *o = e.as<Or>()) {
        return is_const_one(o->a) || is_const_one(o->b) ? const_true()
               : is_const_zero(o->a)                    ? o->b
               : is_const_zero(o->b)                    ? o->a
                                                        : e;
    }
    if (const Not *n = e.as<Not>()) {
        return is_const_one(n->a) ? const_false() : is_const_zero(n->a) ? const_true() : e;
    }
    if (const Select *s = e.as<Select>()) {
        return is_const_one(s->condition) ? s->true_value : is_const_zero(s->condition) ? s->false_value : e;
    }
    return e;
}

Expr fold_step(const Expr &e) {
    if (e.type() == Halide::Bool()) {
        const EQ *q = e.as<EQ>();
        const GT *g = e.as<GT>();
        if (q && number(q->a) && number(q->b)) {
            return *number(q->a) == *number(q->b) ? const_true() : const_false();
        }
        if (g && number(g->a) && number(g->b)) {
            return *number(g->a) > *number(g->b) ? const_true() : const_false();
        }
        return e;
    }
    if (const Select *s = e.as<Select>()) {
        return is_const_one(s->condition) ? s->true_value : is_const_zero(s->condition) ? s->false_value : e;
    }
    if (!e.type().is_float()) {
        return e;
    }
    auto constant = [&](double v) { return make_const(e.type(), v); };
    if (const Cast *c = e.as<Cast>()) {
        return is_number(c->value, 0) ? constant(0) : e;
    }
    if (const Call *c = e.as<Call>()) {
        const bool base2 = c->name == "exp2_f32";
        const auto x = base2 || c->name == "exp_f32" ? number(c->args[0]) : std::nullopt;
        return x ? constant(base2 ? std::exp2(*x) : std::exp(*x)) : e;
    }
    auto operands = [](const auto *op) { return std::pair{number(op->a), number(op->b)}; };
    if (const Max *m = e.as<Max>()) {
        return is_number(m->a, -inf) || same(m->a, m->b) ? m->b : is_number(m->b, -inf) ? m->a : e;
    }
    if (const Mul *m = e.as<Mul>()) {
        const auto [a, b] = operands(m);
        if (a && b) {
            return constant(*a * *b);
        }
        if ((a == -inf && is_positive(m->b)) || (b == -inf && is_positive(m->a))) {
            return constant(-inf);
        }
        return a == 0.0 || b == 0.0 ? constant(0) : a == 1.0 ? m->b : b == 1.0 ? m->a : e;
    }
    if (const Add *m = e.as<Add>()) {
        const auto [a, b] = operands(m);
        if (a && b) {
            return constant(*a + *b);
        }
        return a == -inf || b == -inf ? constant(-inf) : a == 0.0 ? m->b : b == 0.0 ? m->a : e;
    }
    if (const Sub *m = e.as<Sub>()) {
        const auto [a, b] = operands(m);
        if (a && b) {
            return constant(*a - *b);
        }
        return same(m->a, m->b) ? constant(0) : a == -inf ? constant(-inf) : b == 0.0 ? m->a : e;
    }
    return e;
}

Expr where_past(const Expr &e, const std::string &axis, const Expr &limit) {
    const std::string var = "%" + axis, past = axis + ".past";
    const Expr there = limit + Variable::make(Halide::Int(32), past);
    Scope<Interval> scope;
    scope.push(past, Interval(0, Interval::pos_inf()));
    return rewrite(e, [&](const Expr &x) -> Expr {
        if (!is_comparison(x)) {
            return fold_logic(x);
        }
        if (!expr_uses_var(x, var) || contains(x, [](const Expr &y) { return y.type().is_float(); })) {
            return x;
        }
        const Expr decided = simplify(replace_variable(x, var, there), true, scope);
        return is_const(decided) ? decided : x;
    });
}

PastTheEnd::PastTheEnd(const Kernel &k, std::string axis, Expr limit)
    : k_(k), axis_(std::move(axis)), limit_(std::move(limit)), definitions_(definitions(k.body)) {}

class PastTheEnd::Mutator : public IRMutator {
public:
    explicit Mutator(PastTheEnd &past) : past_(past) {}
    using IRMutator::visit;
    Expr visit(const Variable *op) override {
        auto t = past_.k_.tiles.find(op->name);
        if (t == past_.k_.tiles.end() ||
            std::find(t->second.axes.begin(), t->second.axes.end(), past_.axis_) == t->second.axes.end()) {
            return op;
        }
        const Expr v = past_.tile(op->name);
        return v.defined() ? v : Expr(op);
    }
    Expr visit(const Call *op) override {
        if (op->name.compare(0, 5, "view:") != 0) {
            return IRMutator::visit(op);
        }
        const std::string view = op->name.substr(5), var = "%" + past_.axis_;
        for (size_t d = 0; d < op->args.size(); d++) {
            const Expr base = simplify(op->args[d] - Variable::make(Halide::Int(32), var));
            if (expr_uses_var(op->args[d], var) && !expr_uses_var(base, var) &&
                past_.starts_outside(view, d, base)) {
                return make_zero(op->type);
            }
        }
        return op;
    }

private:
    PastTheEnd &past_;
};

Expr PastTheEnd::value(const Expr &e) {
    Expr v = where_past(Mutator(*this).mutate(e), axis_, limit_);
    v = simplify(rewrite(v, fold_step));
    return is_const(v) ? v : Expr();
}

Expr PastTheEnd::tile(const std::string &name) {
    if (auto it = known_.find(name); it != known_.end()) {
        return it->second;
    }
    known_[name] = Expr();
    auto d = definitions_.find(name);
    Expr v;
    if (d != definitions_.end()) {
        if (const Copy *c = d->second->as<Copy>()) {
            v = is_outside(c->from) ? make_zero(k_.tile(name).type) : Expr();
        } else if (const Map *m = d->second->as<Map>()) {
            v = value(m->value);
        }
    }
    return known_[name] = v;
}

bool PastTheEnd::is_outside(const Region &r) {
    for (size_t d = 0; d < r.dims.size(); d++) {
        if (r.dims[d].axis == axis_ && starts_outside(r.view, d, r.dims[d].base)) {
            return true;
        }
    }
    return false;
}

bool PastTheEnd::starts_outside(const std::string &view, size_t d, const Expr &base) {
    const Expr past = simplify(base + limit_ - extent_of(view, d));
    if (auto c = as_const_int(past)) {
        return *c >= 0;
    }
    if (!may_assume || uses_loop(past)) {
        return false;
    }
    assumed.push_back(simplify(extent_of(view, d) <= simplify(base + limit_)));
    return true;
}

} // namespace kiln::tile
