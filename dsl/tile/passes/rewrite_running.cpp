// F · Σ e^x becomes Σ e^(x + y) where F = e^y does not change along the sum, also through the rounding of a product's
// operand. A blocked reduction that rescales each block's result turns so into one that scales what it carries:
// l·a + s·c with s = Σ p becomes l·a + Σ (p·c), and fold_starts then starts the product at what is carried.
#include "dsl/tile/passes/Algebra.h"
#include "dsl/tile/passes/Passes.h"
#include "dsl/tile/passes/Rewrite.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln::tile {

using namespace Halide::Internal;

namespace {

bool has_exponential(const Expr &e) {
    return contains(e, [](const Expr &x) { return exponent(x).defined(); });
}

/// Statements that compute an exponential for every element of a tile of two axes or more: what costs.
int exponentials(const Kernel &k) {
    int count = 0;
    walk(k.body, [&](const Stmt &s) {
        if (const Map *m = s.as<Map>()) {
            count += k.tile(m->dst).axes.size() > 1 && has_exponential(m->value);
        } else if (const Reduce *r = s.as<Reduce>()) {
            count += !k.tile(r->dst).axes.empty() && has_exponential(r->value);
        }
    });
    return count;
}

class Running {
public:
    Running(Kernel &k, Body &body) : k_(k), body_(body) {}

    void run() {
        for (size_t i = 0; i < body_.size(); i++) {
            if (For *f = body_[i].as<For>()) {
                Running(k_, f->body).run();
            } else if (If *f = body_[i].as<If>()) {
                Running(k_, f->body).run();
                Running(k_, f->otherwise).run();
            } else if (Last *l = body_[i].as<Last>()) {
                Running(k_, l->body).run();
            } else if (body_[i].as<Map>()) {
                i = map(i);
            }
        }
    }

private:
    Kernel &k_;
    Body &body_;

    const Stmt *defined_before(const std::string &tile, size_t at) const {
        for (size_t i = 0; i < at; i++) {
            if (defines(body_[i]) == tile) {
                return &body_[i];
            }
        }
        return nullptr;
    }

    const Map *map_before(const Expr &tile, size_t at) const {
        const Variable *v = tile.as<Variable>();
        const Stmt *s = v ? defined_before(v->name, at) : nullptr;
        return s ? s->as<Map>() : nullptr;
    }

    /// A sum that a term holds as a factor.
    struct Sum {
        const Stmt *stmt = nullptr;
        const Reduce *reduce = nullptr;
        const Mma *product = nullptr;
        std::string axis;
        Expr limit;
    };
    std::optional<Sum> sum_named(const Expr &e, size_t at) const {
        const Variable *v = e.as<Variable>();
        const Stmt *s = v ? defined_before(v->name, at) : nullptr;
        if (!s) {
            return std::nullopt;
        }
        if (const Reduce *r = s->as<Reduce>(); r && r->op == ReduceOp::Sum) {
            return Sum{s, r, nullptr, r->axis, r->limit};
        }
        if (const Mma *m = s->as<Mma>(); m && m->start.empty()) {
            return Sum{s, nullptr, m, m->axis, m->limit};
        }
        return std::nullopt;
    }

    /// What is summed, if it is (or is a rounding of) a product that holds an exponential.
    struct Summand {
        bool first_operand = true; ///< of a product
        Halide::Type rounded;      ///< to which type, before the product reads it
        std::string name, func;    ///< for the new tile
        std::vector<Expr> factors;
        size_t exponential = 0; ///< which factor
    };
    std::optional<Summand> summand(const Sum &s, size_t at) const {
        if (s.reduce) {
            return summand(s.reduce->value, s.reduce->dst, s.stmt->func, at);
        }
        for (const bool first : {true, false}) {
            const std::string &operand = first ? s.product->a : s.product->b;
            const Map *m = map_before(k_.ref(operand), at);
            if (!m) {
                continue;
            }
            const Cast *c = m->value.as<Cast>();
            if (std::optional<Summand> found = summand(c ? c->value : m->value, operand, s.stmt->func, at)) {
                found->first_operand = first;
                found->rounded = m->value.type();
                return found;
            }
        }
        return std::nullopt;
    }
    std::optional<Summand> summand(Expr e, std::string name, std::string func, size_t at) const {
        if (const Map *m = map_before(e, at)) {
            name = m->dst;
            func = k_.tile(m->dst).func;
            e = m->value;
        }
        if (e.type() != Halide::Float(32)) {
            return std::nullopt;
        }
        Summand s{true, e.type(), name, func, factors(e), 0};
        for (; s.exponential < s.factors.size(); s.exponential++) {
            if (exponent(s.factors[s.exponential]).defined()) {
                return s;
            }
        }
        return std::nullopt;
    }

    /// The tile that holds `value` already, or a new map before body_[at].
    std::string tile_of(const Expr &value, const std::string &base, const std::string &func, size_t &at) {
        for (size_t i = 0; i < at; i++) {
            const Map *m = body_[i].as<Map>();
            if (m && same(m->value, value)) {
                return m->dst;
            }
        }
        const std::set<std::string> axes = k_.axes_of(value);
        const Tile t = k_.add_tile(base, value.type(), {axes.begin(), axes.end()}, func);
        insert(Map{t.name, value, Expr()}, func, at);
        return t.name;
    }

    void insert(decltype(Stmt::op) op, const std::string &func, size_t &at) {
        body_.insert(body_.begin() + static_cast<std::ptrdiff_t>(at), {std::move(op), func});
        at++;
    }

    /// The term with its sum and one exponential factor made into one sum, or nothing.
    Expr merged(const Expr &term, size_t &at) {
        std::vector<Expr> fs = factors(term);
        for (size_t i = 0; i < fs.size(); i++) {
            const std::optional<Sum> sum = sum_named(fs[i], at);
            const std::optional<Summand> inner = sum ? summand(*sum, at) : std::nullopt;
            if (!inner) {
                continue;
            }
            for (size_t j = 0; j < fs.size(); j++) {
                const Expr y = j == i ? Expr() : exponent(fs[j]);
                if (!y.defined() || k_.axes_of(y).count(sum->axis)) {
                    continue;
                }
                const Expr e = Prover(k_, sum->axis, sum->limit)
                                   .merge_exponents(exponent(inner->factors[inner->exponential]), y);
                if (!e.defined()) {
                    k_.remarks.push_back(fmt::format(
                        "rewrite_running: a factor of the sum `{}` stays outside: no proof that both of "
                        "its exponents are at most 0",
                        fs[i].as<Variable>()->name));
                    continue;
                }
                fs[i] = replaced(*sum, *inner, e, fs[i].as<Variable>()->name, at);
                fs.erase(fs.begin() + static_cast<std::ptrdiff_t>(j));
                return product_of(fs);
            }
        }
        return Expr();
    }

    /// The sum again, with `e` for its exponential.
    Expr replaced(const Sum &sum, Summand inner, const Expr &e, const std::string &name, size_t &at) {
        // Statements move while new ones are put in: nothing of `sum` is read after that.
        const std::string func = sum.stmt->func;
        const Tile old = k_.tile(name);
        inner.factors[inner.exponential] = e;
        if (sum.reduce) {
            Reduce r = *sum.reduce;
            r.value = k_.ref(tile_of(product_of(inner.factors), inner.name, inner.func, at));
            r.dst = k_.add_tile(name, old.type, old.axes, old.func).name;
            insert(r, func, at);
            return k_.ref(r.dst);
        }
        Mma m = *sum.product;
        std::string &operand = inner.first_operand ? m.a : m.b;
        const Tile read = k_.tile(operand);
        std::string p = tile_of(product_of(inner.factors), inner.name, inner.func, at);
        if (inner.rounded != k_.tile(p).type) {
            p = tile_of(Cast::make(inner.rounded, k_.ref(p)), read.name, read.func, at);
        }
        operand = p;
        m.dst = k_.add_tile(name, old.type, old.axes, old.func).name;
        insert(m, func, at);
        return k_.ref(m.dst);
    }

    /// Returns where the map is afterwards.
    size_t map(size_t at) {
        const Expr value = body_[at].as<Map>()->value;
        if (value.type() != Halide::Float(32)) {
            return at;
        }
        std::vector<Term> ts = terms(value);
        bool changed = false;
        for (Term &t : ts) {
            if (const Expr m = merged(t.value, at); m.defined()) {
                t.value = m;
                changed = true;
            }
        }
        if (changed) {
            body_[at].as<Map>()->value = sum_of(ts);
        }
        return at;
    }
};

} // namespace

void rewrite_running(Kernel &k) {
    const Kernel before = k;
    Running(k, k.body).run();
    clean_up(k);
    if (exponentials(k) > exponentials(before)) {
        // Some other reader still needs the old terms: both would be computed.
        k = before;
        k.remarks.push_back(
            "rewrite_running: nothing was merged: the exponentials of a sum that is scaled have "
            "readers besides, and would be computed twice");
    }
}

} // namespace kiln::tile
