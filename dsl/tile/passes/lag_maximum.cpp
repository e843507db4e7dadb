// A running maximum only keeps exponentials small: what is carried beside it may be relative to any number near it. With
// `lag` it stays as it is until what is new exceeds it by more than 2^bits, so that mostly nothing is rescaled.
// Outputs must not depend on the reference: where they do, numbers show it.
#include "dsl/tile/interpret/Values.h"
#include "dsl/tile/passes/Algebra.h"
#include "dsl/tile/passes/Passes.h"
#include "dsl/tile/passes/PastTheEnd.h"
#include "dsl/tile/passes/Rewrite.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>

namespace kiln::tile {

using namespace Halide::Internal;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

/// Tiles by number; integers are 1, and every view reads as one number.
class Scalars : public Places {
public:
    explicit Scalars(const std::map<std::string, double> &values) : values_(values) {}
    size_t count() const override { return 1; }
    ColumnPtr variable(const std::string &name) override {
        auto v = values_.find(name);
        return std::make_shared<Column>(v == values_.end() ? Column::of(int64_t(1)) : Column::of(v->second));
    }
    ColumnPtr view(const std::string &, const std::vector<ColumnPtr> &, const kiln::tile::Mask &) override {
        return std::make_shared<Column>(Column::of(0.5));
    }

private:
    const std::map<std::string, double> &values_;
};

class Lag {
public:
    Lag(Kernel &k, const std::string &func, const LagPlan &plan) : k_(k), func_(func), plan_(plan) {}

    void run() {
        if (!visit(k_.body, {})) {
            refuse_lag("its update carries no maximum that starts at -inf");
        }
    }

private:
    Kernel &k_;
    const std::string func_;
    const LagPlan plan_;

    [[noreturn]] void refuse_lag(const std::string &why) const {
        refuse("K1206", fmt::format("the maximum of `{}` cannot stay behind: {}", func_, why), plan_.span,
               {"leave out its `lag`"});
    }

    /// `around`: the bodies that `body` is in, from the outermost.
    bool visit(Body &body, std::vector<const Body *> around) {
        around.push_back(&body);
        bool found = false;
        for (size_t i = 0; i < body.size(); i++) {
            if (Last *l = body[i].as<Last>()) {
                found |= visit(l->body, around);
                continue;
            }
            For *f = body[i].as<For>();
            if (!f) {
                continue;
            }
            for (const Carry &c : f->carry) {
                const Map *next = map_of(*f, c.next);
                const Max *m = next ? next->value.as<Max>() : nullptr;
                const bool here = k_.tile(c.name).func == func_ && is_number(c.init, -inf) && m &&
                                  (is_tile(m->a, c.name) || is_tile(m->b, c.name));
                if (here) {
                    check_outputs(*f, c, around);
                    loop(*f, c);
                    found = true;
                    break;
                }
            }
            found |= visit(f->body, around);
        }
        return found;
    }

    static bool is_tile(const Expr &e, const std::string &tile) {
        const Variable *v = e.as<Variable>();
        return v && v->name == tile;
    }

    static size_t place_of(const For &f, const std::string &tile) {
        for (size_t i = 0; i < f.body.size(); i++) {
            if (defines(f.body[i]) == tile) {
                return i;
            }
        }
        return f.body.size();
    }

    /// In terms of tiles that are no maps of the loop, and of `stop`.
    Expr expanded(For &f, const Expr &e, const std::string &stop) const {
        return rewrite(e, [&](const Expr &x) -> Expr {
            const Variable *v = x.as<Variable>();
            const Map *m = v && v->name != stop ? map_of(f, v->name) : nullptr;
            return m ? expanded(f, m->value, stop) : x;
        });
    }

    /// The exponent of e^x or 2^x, and log2 of its base.
    static std::optional<std::pair<Expr, double>> power(const Expr &e) {
        const Call *c = e.as<Call>();
        if (!c || (c->name != "exp2_f32" && c->name != "exp_f32")) {
            return std::nullopt;
        }
        return std::pair{c->args[0], c->name == "exp2_f32" ? 1.0 : 1 / std::log(2.0)};
    }

    void loop(For &f, const Carry &c) {
        const std::string next = c.next;
        const Expr old = k_.ref(c.name), candidate = map_of(f, next)->value;
        // What rescales: it needs both, and is 1 where they are the same number.
        std::vector<std::string> factors;
        for (const Stmt &s : f.body) {
            const Map *m = s.as<Map>();
            if (!m || m->dst == next || !k_.tiles_of(m->value).count(c.name)) {
                continue;
            }
            const Expr unmoved = rewrite(expanded(f, m->value, next), [&](const Expr &x) -> Expr {
                if (is_tile(x, next)) {
                    return old;
                }
                const EQ *q = x.as<EQ>();
                return q && same(q->a, old) && is_number(q->b, -inf) ? const_false() : fold_step(x);
            });
            if (!power(m->value) || !is_number(unmoved, 1)) {
                refuse_lag(fmt::format("`{}` depends on it, and is no factor that rescales", m->dst));
            }
            factors.push_back(m->dst);
        }
        if (factors.empty()) {
            refuse_lag("nothing is rescaled by it");
        }
        const auto [exponent, log2_base] = *power(map_of(f, factors[0])->value);
        const Tile of = k_.tile(next);
        const std::string top = k_.add_tile(next + "_top", of.type, of.axes, of.func).name,
                          fall = k_.add_tile(next + "_fall", of.type, of.axes, of.func).name;
        const Expr falls = replace_same(expanded(f, exponent, next), k_.ref(next), k_.ref(top));
        const Expr behind = k_.ref(fall) < static_cast<float>(-plan_.bits / log2_base);
        map_of(f, next)->value = Select::make(behind, k_.ref(top), old);
        for (const std::string &factor : factors) {
            Map &m = *map_of(f, factor);
            m.value = Select::make(behind, m.value, Expr(1.0f));
        }
        const auto at = f.body.begin() + static_cast<std::ptrdiff_t>(place_of(f, next));
        const std::string func = at->func;
        f.body.insert(at, {Stmt{Map{top, candidate, Expr()}, func}, Stmt{Map{fall, falls, Expr()}, func}});
        for (Stmt &s : f.body) {
            Map *m = s.as<Map>();
            const Mul *product = m ? m->value.as<Mul>() : nullptr;
            for (const std::string &factor : factors) {
                if (product && k_.tile(m->dst).axes.size() > 1) {
                    m->seldom |= is_tile(product->a, factor) || is_tile(product->b, factor);
                }
            }
        }
        k_.remarks.push_back(fmt::format("lag_maximum: `{}` may stay behind by 2^{}", c.name, plan_.bits));
    }

    /// What is stored, as numbers: once with the carried tiles as they are, once with all of them relative to another
    /// reference. A sum relative to m + d is e^-d times what it is relative to m.
    void check_outputs(const For &f, const Carry &maximum, const std::vector<const Body *> &around) const {
        std::map<std::string, const Stmt *> known;
        for (const Body *b : around) {
            for (const auto &[tile, s] : definitions(*b)) {
                known[tile] = s;
            }
        }
        const std::function<Expr(const Expr &)> whole = [&](const Expr &e) -> Expr {
            return rewrite(e, [&](const Expr &x) -> Expr {
                const Variable *v = x.as<Variable>();
                auto d = v ? known.find(v->name) : known.end();
                const Map *m = d == known.end() ? nullptr : d->second->as<Map>();
                return m ? whole(m->value) : x;
            });
        };
        std::mt19937 random(1);
        std::uniform_real_distribution<double> draw(0.5, 3);
        for (const Body *b : around) {
            walk(*b, [&](const Stmt &s) {
                const Store *store = s.as<Store>();
                if (!store || !k_.view(store->to.view)->is_buffer()) {
                    return; // parts in a workspace are combined relative to their own maxima
                }
                const Expr value = whole(k_.ref(store->src));
                for (int trial = 0; trial < 20; trial++) {
                    const double by = draw(random);
                    std::map<std::string, double> here, there;
                    for (const std::string &t : k_.tiles_of(value)) {
                        const bool is_carried = std::any_of(f.carry.begin(), f.carry.end(),
                                                            [&](const Carry &c) { return c.name == t; });
                        here[t] = draw(random);
                        there[t] = t == maximum.name ? here[t] + by
                                   : is_carried      ? here[t] * std::exp(-by)
                                                     : here[t];
                    }
                    Scalars a(here), c(there);
                    const double x = Evaluator(a)(value)->number(0), y = Evaluator(c)(value)->number(0);
                    if (!(std::abs(x - y) <= 0.02 * std::max(1.0, std::abs(x)))) {
                        refuse_lag(
                            fmt::format("`{}` depends on it: it is {:.4g} for one reference and {:.4g} for "
                                        "another",
                                        store->to.view, x, y));
                    }
                }
            });
        }
    }
};

} // namespace

void lag_maximum(Kernel &k) {
    for (const auto &[func, plan] : TilePlan(k.plan).lags) {
        Lag(k, func, plan).run();
    }
}

} // namespace kiln::tile
