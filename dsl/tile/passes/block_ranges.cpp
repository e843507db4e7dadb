// Masks over coordinates: a tile that is select(predicate, value, constant). From the bounds of the predicate over a block
// follow the iterations in which any element passes and those in which all do. The loop leaves the others out, where it is
// proved that an iteration whose elements are all masked keeps what the loop carries, and tests nothing where all pass.
#include "dsl/tile/passes/Algebra.h"
#include "dsl/tile/passes/Passes.h"
#include "dsl/tile/passes/Rewrite.h"

#include "dsl/tile/ir/Text.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace kiln::tile {

using namespace Halide::Internal;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

// ---- one iteration on constants

/// Constants through the operators that an iteration on a masked block meets. Not Halide's simplifier: that takes no
/// account of infinities. What is no constant is taken for a number, not an infinity or a NaN.
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

/// One run of a loop's body with a tile at its masked value everywhere.
class MaskedIteration {
public:
    MaskedIteration(const Kernel &k, const For &loop, const std::string &tile, double masked)
        : k_(k), loop_(loop), tile_(tile), masked_(make_const(k.tile(tile).type, masked)) {}

    /// "" where the iteration keeps every carried tile as it is, else what it would become.
    std::string changes() {
        std::string guard;
        for (const Carry &c : loop_.carry) {
            if (is_number(c.init, -inf)) {
                if (!guard.empty()) {
                    return fmt::format("two carried tiles start at -inf: `{}` and `{}`", guard, c.name);
                }
                guard = c.name;
            }
        }
        if (guard.empty()) {
            return run({}, "");
        }
        // By cases. The guard is a number; or it is -inf, and then no iteration has seen anything but masked values:
        // everything still has its start, which such an iteration keeps.
        if (!Prover(k_).bounds_from_above(k_.ref(next_of(guard)), k_.ref(tile_))) {
            return fmt::format("`{}` may stay at -inf where `{}` is not", guard, tile_);
        }
        const std::string found = run({}, guard);
        std::map<std::string, Expr> start;
        for (const Carry &c : loop_.carry) {
            start[c.name] = c.init;
        }
        return found.empty() ? run(start, "") : found;
    }

private:
    const Kernel &k_;
    const For &loop_;
    const std::string tile_;
    const Expr masked_;

    std::string next_of(const std::string &carried) const {
        for (const Carry &c : loop_.carry) {
            if (c.name == carried) {
                return c.next;
            }
        }
        return "";
    }

    /// `finite`: a carried tile that is no infinity.
    std::string run(std::map<std::string, Expr> values, const std::string &finite) const {
        const std::map<std::string, Expr> start = values;
        auto evaluate = [&](const Expr &e) {
            return rewrite(e, [&](const Expr &x) -> Expr {
                if (const Variable *v = x.as<Variable>()) {
                    auto known = values.find(v->name);
                    return known == values.end() ? x : known->second;
                }
                const EQ *q = x.as<EQ>();
                const Variable *v = q && is_number(q->b, -inf) ? q->a.as<Variable>() : nullptr;
                return v && v->name == finite ? const_false() : fold_step(x);
            });
        };
        for (const Stmt &s : loop_.body) {
            if (const std::string dst = defines(s); dst == tile_) {
                values[dst] = masked_;
            } else if (const Map *m = s.as<Map>()) {
                values[dst] = evaluate(m->value);
            } else if (const Reduce *r = s.as<Reduce>()) {
                const Expr v = evaluate(r->value);
                const bool keeps = r->op == ReduceOp::Max || r->op == ReduceOp::Min || is_number(v, 0);
                if (is_const(v) && keeps) {
                    values[dst] = v;
                }
            } else if (const Mma *m = s.as<Mma>()) {
                if (is_zero(values, m->a) || is_zero(values, m->b)) {
                    values[dst] =
                        m->start.empty() ? make_zero(k_.tile(dst).type) : evaluate(k_.ref(m->start));
                }
            }
        }
        for (const Carry &c : loop_.carry) {
            auto v = values.find(c.next);
            const Expr wanted = start.empty() ? k_.ref(c.name) : c.init;
            if (v == values.end() || !same(v->second, wanted)) {
                return fmt::format("`{}` would become {}", c.name,
                                   v == values.end() ? "`" + c.next + "`" : print(k_, v->second));
            }
        }
        return "";
    }

    static bool is_zero(const std::map<std::string, Expr> &values, const std::string &tile) {
        auto v = values.find(tile);
        return v != values.end() && is_number(v->second, 0);
    }
};

// ---- bounds

class Ranges {
public:
    explicit Ranges(Kernel &k) : k_(k) {}

    void run(Body &body) {
        for (Stmt &s : body) {
            if (If *i = s.as<If>()) {
                run(i->body);
                run(i->otherwise);
            } else if (Last *l = s.as<Last>()) {
                run(l->body);
            } else if (For *f = s.as<For>()) {
                run(f->body);
                loop(*f);
            }
        }
    }

private:
    Kernel &k_;

    static Expr warpgroup() { return Variable::make(Halide::Int(32), "wg"); }

    /// Of a predicate over a whole block, or over the rows of one warpgroup.
    Interval bounds(const Expr &predicate, bool of_warpgroup) const {
        Scope<Interval> scope;
        for (const std::string &axis : k_.axes_of(predicate)) {
            Expr lo = 0, hi = k_.axes.at(axis) - 1;
            if (of_warpgroup && axis == k_.row_axis && k_.warpgroups() > 1) {
                const int band = k_.axes.at(axis) / k_.warpgroups();
                lo = warpgroup() * band;
                hi = lo + (band - 1);
            }
            scope.push("%" + axis, Interval(lo, hi));
        }
        return bounds_of_expr_in_scope(predicate, scope);
    }

    static bool is_usable(const Expr &e) {
        return e.defined() && !contains(e, [](const Expr &x) {
                   const Variable *v = x.as<Variable>();
                   return v && (v->name == "pos_inf" || v->name == "neg_inf");
               });
    }

    void loop(For &f) {
        bool any_mask = false, all_known = true;
        Expr from = f.lo, to = f.hi;
        for (size_t i = 0; i < f.body.size(); i++) {
            const Map *m = f.body[i].as<Map>();
            const Select *s = m && !m->unless.defined() ? m->value.as<Select>() : nullptr;
            if (!s || !number(s->false_value) || !k_.tiles_of(s->condition).empty() ||
                k_.axes_of(s->condition).empty()) {
                continue;
            }
            any_mask = true;
            i = take_apart(f, i);
            Map &mask = *f.body[i].as<Map>();
            const Expr predicate = mask.value.as<Select>()->condition;
            all_known &= test(f, mask, predicate, from, to);
            skip(f, mask.dst, predicate, *number(mask.value.as<Select>()->false_value));
        }
        if (any_mask && all_known) {
            f.untested_from = simplify(from);
            f.untested_to = simplify(to);
        }
    }

    /// What the mask chooses becomes a tile of its own, so that the mask alone can be left out. Returns where the mask is.
    size_t take_apart(For &f, size_t at) {
        const Map m = *f.body[at].as<Map>();
        const Select *s = m.value.as<Select>();
        const Variable *v = s->true_value.as<Variable>();
        if (v && k_.tiles.count(v->name)) {
            return at;
        }
        const Tile of = k_.tile(m.dst);
        const Tile &in = k_.add_tile(of.name + "_in", of.type, of.axes, of.func);
        Stmt inner{Map{in.name, s->true_value, Expr()}, f.body[at].func};
        f.body[at].as<Map>()->value = Select::make(s->condition, k_.ref(in.name), s->false_value);
        f.body.insert(f.body.begin() + static_cast<std::ptrdiff_t>(at), std::move(inner));
        return at + 1;
    }

    /// When the mask need not be tested. Returns whether some range of iterations is known.
    bool test(const For &f, Map &mask, const Expr &predicate, Expr &from, Expr &to) {
        const Expr all = simplify(bounds(predicate, true).min);
        if (!is_usable(all) || is_const_zero(all)) {
            return false;
        }
        mask.unless = all;
        if (!expr_uses_var(all, f.var)) {
            return is_const_one(all);
        }
        const Interval inner = solve_for_inner_interval(all, f.var);
        if (inner.is_empty() || (!inner.has_lower_bound() && !inner.has_upper_bound())) {
            return false;
        }
        if (inner.has_lower_bound()) {
            from = max(from, inner.min);
        }
        if (inner.has_upper_bound()) {
            to = min(to, inner.max + 1);
        }
        return true;
    }

    void skip(For &f, const std::string &mask, const Expr &predicate, double masked) {
        const Expr any = simplify(bounds(predicate, false).max);
        if (!is_usable(any) || !expr_uses_var(any, f.var)) {
            return;
        }
        const Interval outer = solve_for_outer_interval(any, f.var);
        if (!outer.has_lower_bound() && !outer.has_upper_bound()) {
            return;
        }
        const std::string changes = MaskedIteration(k_, f, mask, masked).changes();
        if (!changes.empty()) {
            k_.remarks.push_back(fmt::format(
                "block_ranges: iterations of `{}` whose elements of `{}` are all masked are not left out: {}",
                f.var, mask, changes));
            return;
        }
        const Expr lo = f.lo, hi = f.hi;
        if (outer.has_lower_bound()) {
            f.lo = simplify(max(f.lo, outer.min));
        }
        if (outer.has_upper_bound()) {
            f.hi = simplify(min(f.hi, outer.max + 1));
        }
        if (!same(lo, f.lo) || !same(hi, f.hi)) {
            k_.remarks.push_back(
                fmt::format("block_ranges: `{}` leaves out iterations whose elements of `{}` are all masked",
                            f.var, mask));
        }
    }
};

} // namespace

void block_ranges(Kernel &k) {
    Ranges(k).run(k.body);
}

} // namespace kiln::tile
