// Masks over coordinates: a tile that is select(predicate, value, constant). From the bounds of the predicate over a block
// follow the iterations in which any element passes and those in which all do. The loop leaves the others out, where it is
// proved that an iteration whose elements are all masked keeps what the loop carries, and tests nothing where all pass.
#include "dsl/tile/passes/Algebra.h"
#include "dsl/tile/passes/MaskedIteration.h"
#include "dsl/tile/passes/Passes.h"
#include "dsl/tile/passes/Rewrite.h"

#include "dsl/tile/ir/Text.h"

#include <fmt/format.h>

namespace kiln::tile {

using namespace Halide::Internal;

namespace {

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
        const std::string changes = masked_iteration_changes(k_, f, mask, masked);
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
