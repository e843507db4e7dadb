// An update with a condition, carried over a loop, keeps what it carries where the condition is false:
// next = select(c, step, carried). Where an iteration whose elements of some masked tile are all masked keeps what is carried
// too, the condition is one more mask: the step is taken everywhere, and the mask asks for the condition as well, unless
// it implies it, as it does where the condition only says which iterations the mask leaves out whole. A condition on whole
// iterations, which holds between two of them, is the loop's range.
#include "dsl/tile/passes/Algebra.h"
#include "dsl/tile/passes/MaskedIteration.h"
#include "dsl/tile/passes/Passes.h"
#include "dsl/tile/passes/Rewrite.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln::tile {

using namespace Halide::Internal;

namespace {

/// y where `e` says y >= 0, over integers.
Expr slack(const Expr &e) {
    if (const LE *c = e.as<LE>()) {
        return c->b - c->a;
    }
    if (const GE *c = e.as<GE>()) {
        return c->a - c->b;
    }
    if (const LT *c = e.as<LT>()) {
        return c->b - c->a - 1;
    }
    if (const GT *c = e.as<GT>()) {
        return c->a - c->b - 1;
    }
    return Expr();
}

bool implies_comparison(const Expr &a, const Expr &p) {
    if (same(a, p)) {
        return true;
    }
    const Expr x = slack(a), y = slack(p);
    return x.defined() && y.defined() && x.type() == Halide::Int(32) && y.type() == Halide::Int(32) &&
           can_prove(simplify(y - x) >= 0);
}

/// Whether `p` holds wherever `a` does: comparisons by their differences, and through and, or.
bool implies(const Expr &a, const Expr &p) {
    if (is_const_one(p) || is_const_zero(a)) {
        return true;
    }
    if (const And *x = p.as<And>()) {
        return implies(a, x->a) && implies(a, x->b);
    }
    if (const Or *x = a.as<Or>()) {
        return implies(x->a, p) && implies(x->b, p);
    }
    if (const Or *x = p.as<Or>(); x && (implies(a, x->a) || implies(a, x->b))) {
        return true;
    }
    if (const And *x = a.as<And>()) {
        return implies(x->a, p) || implies(x->b, p);
    }
    return implies_comparison(a, p);
}

class Conditions {
public:
    explicit Conditions(Kernel &k) : k_(k) {}

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

    /// The condition of all next values, or nothing.
    Expr condition_of(For &f) const {
        Expr condition;
        for (const Carry &c : f.carry) {
            const Map *m = map_of(f, c.next);
            const Select *s = m ? m->value.as<Select>() : nullptr;
            const Variable *kept = s ? s->false_value.as<Variable>() : nullptr;
            if (!kept || kept->name != c.name || (condition.defined() && !same(condition, s->condition)) ||
                !k_.tiles_of(s->condition).empty()) {
                return Expr();
            }
            condition = s->condition;
        }
        return condition;
    }

    /// Whether elements of one coordinate of the condition's axes never meet those of another in an iteration.
    bool is_apart(const For &f, const std::set<std::string> &axes) const {
        bool apart = true;
        walk(f.body, [&](const Stmt &s) {
            const Reduce *r = s.as<Reduce>();
            const Mma *m = s.as<Mma>();
            apart &= !(r && axes.count(r->axis)) && !(m && axes.count(m->axis));
        });
        return apart;
    }

    static Expr bound(const Interval &i, bool lower) {
        return lower ? (i.has_lower_bound() ? i.min : Expr()) : i.has_upper_bound() ? i.max : Expr();
    }

    /// Whether the condition is the same for the whole block and holds in all iterations of a range, and in no other.
    bool becomes_range(For &f, const Expr &condition) {
        if (!k_.axes_of(condition).empty() || !expr_uses_var(condition, f.var)) {
            return false;
        }
        const Interval outer = solve_for_outer_interval(condition, f.var),
                       inner = solve_for_inner_interval(condition, f.var);
        if (inner.is_empty() || (!outer.has_lower_bound() && !outer.has_upper_bound())) {
            return false;
        }
        for (const bool lower : {true, false}) {
            const Expr a = bound(outer, lower), b = bound(inner, lower);
            if (a.defined() != b.defined() || (a.defined() && !can_prove(a == b))) {
                return false;
            }
        }
        const Expr from = bound(outer, true), to = bound(outer, false);
        f.lo = from.defined() ? simplify(max(f.lo, from)) : f.lo;
        f.hi = to.defined() ? simplify(min(f.hi, to + 1)) : f.hi;
        for (const Carry &c : f.carry) {
            Map &m = *map_of(f, c.next);
            m.value = m.value.as<Select>()->true_value;
        }
        k_.remarks.push_back(fmt::format(
            "fold_conditions: the condition of `{}` became the range of its loop", f.carry[0].name));
        return true;
    }

    void loop(For &f) {
        const Expr condition = f.carry.empty() ? Expr() : condition_of(f);
        if (!condition.defined() || becomes_range(f, condition)) {
            return;
        }
        if (!is_apart(f, k_.axes_of(condition))) {
            remark(f, "its iterations sum over what the condition is about");
            return;
        }
        const For with = f;
        for (const Carry &c : f.carry) {
            Map &m = *map_of(f, c.next);
            m.value = m.value.as<Select>()->true_value;
        }
        std::string why = "no tile in it is masked";
        for (Stmt &s : f.body) {
            Map *m = s.as<Map>();
            const Select *mask = m ? m->value.as<Select>() : nullptr;
            const auto masked = mask ? number(mask->false_value) : std::nullopt;
            if (!masked || !k_.tiles_of(mask->condition).empty() || !covers(m->dst, condition)) {
                continue;
            }
            why = masked_iteration_changes(k_, f, m->dst, *masked);
            if (!why.empty()) {
                continue;
            }
            const bool implied = implies(any_column(mask->condition, k_.axes_of(condition)), condition);
            if (!implied) {
                m->value = Select::make(mask->condition && condition, mask->true_value, mask->false_value);
            }
            k_.remarks.push_back(
                fmt::format("fold_conditions: the condition of `{}` {}", f.carry[0].name,
                            implied ? fmt::format("follows from the mask of `{}`", m->dst)
                                    : fmt::format("became one more of the mask of `{}`", m->dst)));
            return;
        }
        f = with;
        remark(f, why);
    }

    /// Whether the tile has all axes of the condition.
    bool covers(const std::string &tile, const Expr &condition) const {
        const std::vector<std::string> &own = k_.tile(tile).axes;
        const std::set<std::string> axes = k_.axes_of(condition);
        return std::all_of(axes.begin(), axes.end(),
                           [&](const std::string &a) { return std::count(own.begin(), own.end(), a) > 0; });
    }

    /// Whether the predicate may hold for any coordinate of the axes that are not `kept`.
    Expr any_column(const Expr &predicate, const std::set<std::string> &kept) const {
        Scope<Interval> scope;
        for (const std::string &axis : k_.axes_of(predicate)) {
            if (!kept.count(axis)) {
                scope.push("%" + axis, Interval(0, k_.axes.at(axis) - 1));
            }
        }
        const Interval any = bounds_of_expr_in_scope(predicate, scope);
        return any.has_upper_bound() ? simplify(any.max) : const_true();
    }

    void remark(const For &f, const std::string &why) {
        k_.remarks.push_back(fmt::format(
            "fold_conditions: the condition of `{}` is asked in each iteration: {}", f.carry[0].name, why));
    }
};

} // namespace

void fold_conditions(Kernel &k) {
    Conditions(k).run(k.body);
    clean_up(k);
}

} // namespace kiln::tile
