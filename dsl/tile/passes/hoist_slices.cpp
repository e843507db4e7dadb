// What a value of a whole tile needs of its rows alone is computed once a row: subexpressions over fewer axes become
// tiles of their own, which all later readers share, and maps over rows move up to where their operands are known. What is
// rounded to 16 bits is divided by a row's number once a row: x / r becomes x · (1 / r).
#include "dsl/tile/passes/Algebra.h"
#include "dsl/tile/passes/Passes.h"
#include "dsl/tile/passes/Rewrite.h"

#include <algorithm>

namespace kiln::tile {

using namespace Halide::Internal;

namespace {

class Slices {
public:
    Slices(Kernel &k, Body &body) : k_(k), body_(body) {}

    void run() {
        for (Stmt &s : body_) {
            if (Map *m = s.as<Map>()) {
                divide_once(*m);
            }
            if (For *f = s.as<For>()) {
                Slices(k_, f->body).run();
            } else if (If *i = s.as<If>()) {
                Slices(k_, i->body).run();
                Slices(k_, i->otherwise).run();
            } else if (Last *l = s.as<Last>()) {
                Slices(k_, l->body).run();
            }
        }
        move_up();
        share();
        while (hoist_one()) {
            move_up();
            share();
        }
    }

private:
    Kernel &k_;
    Body &body_;

    void divide_once(Map &m) const {
        if (m.value.type().bits() != 16 || !m.value.type().is_float() || k_.tile(m.dst).axes.size() < 2) {
            return;
        }
        m.value = rewrite(m.value, [&](const Expr &e) -> Expr {
            const Div *d = e.as<Div>();
            if (!d || e.type() != Halide::Float(32) || k_.tiles_of(d->b).empty() || is_const(d->a)) {
                return e;
            }
            const std::set<std::string> over = k_.axes_of(d->b);
            const bool once = is_row_only(over) && over.size() < k_.axes_of(d->a).size();
            return once ? Mul::make(d->a, Div::make(Expr(1.0f), d->b)) : e;
        });
    }

    bool is_row_only(const std::set<std::string> &axes) const {
        return std::all_of(axes.begin(), axes.end(), [&](const std::string &a) { return a == k_.row_axis; });
    }

    /// A map that costs one operation a row.
    const Map *row_map(const Stmt &s) const {
        const Map *m = s.as<Map>();
        const bool rows = m && !m->unless.defined() && !is_const(m->value) && !m->value.as<Variable>() &&
                          k_.tile(m->dst).type == Halide::Float(32);
        const std::vector<std::string> *axes = rows ? &k_.tile(m->dst).axes : nullptr;
        return axes && is_row_only({axes->begin(), axes->end()}) ? m : nullptr;
    }

    /// Behind the last statement of this body that defines one of the tiles.
    size_t known_at(const std::set<std::string> &tiles) const {
        for (size_t i = body_.size(); i-- > 0;) {
            for (const std::string &d : defined_in(body_[i])) {
                if (tiles.count(d)) {
                    return i + 1;
                }
            }
        }
        return 0;
    }

    void move_up() {
        for (size_t i = 0; i < body_.size(); i++) {
            const Map *m = row_map(body_[i]);
            if (!m) {
                continue;
            }
            const auto from = body_.begin() + static_cast<std::ptrdiff_t>(known_at(k_.tiles_of(m->value)));
            const auto to = body_.begin() + static_cast<std::ptrdiff_t>(i);
            if (from < to) {
                std::rotate(from, to, to + 1);
            }
        }
    }

    void replace_after(size_t at, const Expr &what, const std::string &tile) {
        for (size_t i = at; i < body_.size(); i++) {
            Body one{std::move(body_[i])};
            walk(one, [&](Stmt &s) {
                if (!s.as<Map>() && !s.as<Reduce>()) {
                    return;
                }
                each_expr(s, [&](Expr &e) { e = replace_same(e, what, k_.ref(tile)); });
            });
            body_[i] = std::move(one[0]);
        }
    }

    /// What a row map computed is not computed again.
    void share() {
        for (size_t i = 0; i < body_.size(); i++) {
            if (const Map *m = row_map(body_[i])) {
                const Expr what = m->value;
                replace_after(i + 1, what, m->dst);
            }
        }
    }

    /// The first largest subexpression of `e` over fewer axes than `all`.
    Expr slice(const Expr &e, const std::set<std::string> &all) const {
        class Find : public IRMutator {
        public:
            Find(const Slices &s, const std::set<std::string> &all) : s_(s), all_(all) {}
            Expr found;
            using IRMutator::mutate;
            Expr mutate(const Expr &e) override {
                if (found.defined() || e.as<Variable>() || is_const(e)) {
                    return e;
                }
                const std::set<std::string> axes = s_.k_.axes_of(e);
                if (e.type() == Halide::Float(32) && axes.size() < all_.size() && s_.is_row_only(axes) &&
                    !s_.k_.tiles_of(e).empty()) {
                    found = e;
                    return e;
                }
                return IRMutator::mutate(e);
            }

        private:
            const Slices &s_;
            const std::set<std::string> &all_;
        };
        Find f(*this, all);
        f.mutate(e);
        return f.found;
    }

    bool hoist_one() {
        for (size_t i = 0; i < body_.size(); i++) {
            const Map *m = body_[i].as<Map>();
            const Reduce *r = body_[i].as<Reduce>();
            if (!m && !r) {
                continue;
            }
            const std::vector<std::string> &own = k_.tile(defines(body_[i])).axes;
            std::set<std::string> all(own.begin(), own.end());
            if (r) {
                all.insert(r->axis);
            }
            const Expr e = slice(m ? m->value : r->value, all);
            if (!e.defined()) {
                continue;
            }
            const std::set<std::string> axes = k_.axes_of(e);
            const std::string func = body_[i].func;
            const std::string tile = k_.add_tile("row", e.type(), {axes.begin(), axes.end()}, func).name;
            const size_t at = known_at(k_.tiles_of(e));
            body_.insert(body_.begin() + static_cast<std::ptrdiff_t>(at), {Map{tile, e, Expr()}, func});
            replace_after(at + 1, e, tile);
            return true;
        }
        return false;
    }
};

} // namespace

void hoist_slices(Kernel &k) {
    Slices(k, k.body).run();
    clean_up(k);
}

} // namespace kiln::tile
