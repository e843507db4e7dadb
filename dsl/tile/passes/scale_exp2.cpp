// exp(x) becomes exp2(x · log2 e), with the constant folded into the terms of x, so that an exponential of a scaled score
// minus a maximum is one multiply-add and one instruction. In an exponent absolute errors count: tanh x is (1 + tanh x) - 1
// there, which costs an exponential and a reciprocal. First a positive constant factor leaves the tiles that only
// exponentials and maxima read: max(c·z) = c·max(z) and select(…, c·z, -inf) = c·select(…, z, -inf), for c > 0 exactly.
#include "dsl/tile/passes/Algebra.h"
#include "dsl/tile/passes/Passes.h"
#include "dsl/tile/passes/Rewrite.h"

#include <algorithm>

namespace kiln::tile {

using namespace Halide::Internal;

namespace {

constexpr double log2_e = 1.4426950408889634;

bool names(const Expr &e, const std::string &tile) {
    const Variable *v = e.as<Variable>();
    return v && v->name == tile;
}

/// Whether every read of the tile in `e` is a term, perhaps scaled, of an exponent.
bool only_in_exponents(const Kernel &k, const Expr &e, const std::string &tile) {
    const Expr rest = rewrite(e, [&](const Expr &x) -> Expr {
        const Expr y = exponent(x);
        if (!y.defined()) {
            return x;
        }
        std::vector<Term> others;
        for (const Term &t : terms(y)) {
            const auto s = positive_factor(t.value);
            if (!names(s ? s->value : t.value, tile)) {
                others.push_back(t);
            }
        }
        return Halide::exp(sum_of(others));
    });
    return !k.tiles_of(rest).count(tile);
}

/// Whether `tile` is read, and only by exponents and as what a maximum is taken of.
bool feeds_exponentials(const Kernel &k, const std::string &tile) {
    bool feeds = false, other = false;
    walk(k.body, [&](const Stmt &s) {
        if (s.as<For>() || s.as<If>() || s.as<Last>()) {
            each_expr(s, [&](const Expr &e) { other |= k.tiles_of(e).count(tile) > 0; });
            if (const For *f = s.as<For>()) {
                other |= std::any_of(f->carry.begin(), f->carry.end(),
                                     [&](const Carry &c) { return c.next == tile; });
            }
            return;
        }
        if (!reads(k, s).count(tile)) {
            return;
        }
        const Reduce *r = s.as<Reduce>();
        const Map *m = s.as<Map>();
        if (r && r->op == ReduceOp::Max && names(r->value, tile)) {
            return; // its readers get the factor: a row is cheap
        }
        if (m && !m->unless.defined() && only_in_exponents(k, m->value, tile)) {
            feeds = true;
        } else {
            other = true;
        }
    });
    return feeds && !other;
}

/// Whether a loop carries the tile on, or a statement that is no Expr reads it: then its value must stay.
bool must_keep(const Kernel &k, const std::string &tile) {
    bool keep = false;
    walk(k.body, [&](const Stmt &s) {
        if (const For *f = s.as<For>()) {
            for (const Carry &c : f->carry) {
                keep |= c.next == tile || k.tiles_of(c.init).count(tile) > 0;
            }
        } else if (!s.as<Map>() && !s.as<Reduce>() && !s.as<If>() && !s.as<Last>()) {
            keep |= reads(k, s).count(tile) > 0;
        }
    });
    return keep;
}

void scale_reads(Kernel &k, const std::string &tile, const Expr &factor) {
    const Expr read = k.ref(tile);
    walk(k.body, [&](Stmt &s) {
        each_expr(s, [&](Expr &e) {
            if (k.tiles_of(e).count(tile)) {
                e = rewrite(e, [&](const Expr &x) { return names(x, tile) ? Mul::make(read, factor) : x; });
            }
        });
    });
}

/// tanh in what only exponents and their maxima read, scaled by so little that its absolute error of 2^-22 stays far below
/// what a rounding to 16 bits does to the exponential.
void relax_tanh(Kernel &k) {
    constexpr double most = 1024;
    const auto is_tanh = [](const Expr &e) {
        const Call *c = e.as<Call>();
        return c && c->name == "tanh_f32";
    };
    walk(k.body, [&](Stmt &s) {
        Map *m = s.as<Map>();
        const auto scaled = m && contains(m->value, is_tanh) ? positive_factor(m->value) : std::nullopt;
        const auto factor = scaled ? number(scaled->factor) : std::nullopt;
        const Select *masked = scaled ? scaled->value.as<Select>() : nullptr;
        if (!factor || *factor > most || !is_tanh(masked ? masked->true_value : scaled->value) ||
            !feeds_exponentials(k, m->dst)) {
            return;
        }
        m->value = rewrite(m->value, [&](const Expr &x) {
            return is_tanh(x) ? Sub::make(Add::make(Expr(1.0f), x), Expr(1.0f)) : x;
        });
    });
}

/// One factor leaves one tile.
bool pull_one(Kernel &k) {
    std::string tile;
    Expr factor;
    walk(k.body, [&](Stmt &s) {
        if (!tile.empty()) {
            return;
        }
        Map *m = s.as<Map>();
        Reduce *r = s.as<Reduce>();
        const bool is_maximum = r && r->op == ReduceOp::Max;
        if ((!m && !is_maximum) || k.tile(defines(s)).type != Halide::Float(32)) {
            return;
        }
        Expr &value = m ? m->value : r->value;
        const std::optional<Scaled> scaled = positive_factor(value);
        const std::string dst = defines(s);
        if (!scaled || k.tiles_of(scaled->value).empty() || must_keep(k, dst) ||
            (m && !feeds_exponentials(k, dst))) {
            return;
        }
        value = scaled->value;
        tile = dst;
        factor = scaled->factor;
    });
    if (tile.empty()) {
        return false;
    }
    scale_reads(k, tile, factor);
    return true;
}

/// (v · c1) · c2 is v · (c1 · c2), and (v · c1) / c2 is v · (c1 / c2), for numbers that are the same for a whole launch.
Expr fold_uniform(const Expr &e) {
    auto folded = [](const Expr &a, const Expr &b, bool divided) -> Expr {
        const auto x = number(a), y = number(b);
        if (x && y) {
            return Expr(static_cast<float>(divided ? *x / *y : *x * *y));
        }
        return divided ? Div::make(a, b) : Mul::make(a, b);
    };
    return rewrite(e, [&](const Expr &x) -> Expr {
        const Mul *mul = x.as<Mul>();
        const Div *div = x.as<Div>();
        if (x.type() != Halide::Float(32) || (!mul && !div)) {
            return x;
        }
        const Mul *inner = (mul ? mul->a : div->a).as<Mul>();
        const Expr by = mul ? mul->b : div->b;
        if (!inner || !is_uniform(inner->b) || is_uniform(inner->a) || !is_uniform(by)) {
            return x;
        }
        return Mul::make(inner->a, folded(inner->b, by, div));
    });
}

Expr times_log2_e(const Expr &e) {
    if (const auto n = number(e)) {
        return Expr(static_cast<float>(*n * log2_e));
    }
    if (const Mul *m = e.as<Mul>()) {
        for (const auto &[c, z] : {std::pair{m->b, m->a}, {m->a, m->b}}) {
            if (const auto n = number(c)) {
                return Mul::make(z, static_cast<float>(*n * log2_e));
            }
            if (is_uniform(c)) {
                return Mul::make(z, Mul::make(c, static_cast<float>(log2_e)));
            }
        }
    }
    return Mul::make(e, static_cast<float>(log2_e));
}

Expr to_exp2(const Expr &e) {
    return rewrite(e, [](const Expr &x) -> Expr {
        const Expr y = exponent(x);
        if (!y.defined()) {
            return x;
        }
        std::vector<Term> scaled = terms(y);
        for (Term &t : scaled) {
            t.value = times_log2_e(t.value);
        }
        return Call::make(Halide::Float(32), "exp2_f32", {sum_of(scaled)}, Call::PureExtern);
    });
}

} // namespace

void scale_exp2(Kernel &k) {
    relax_tanh(k);
    while (pull_one(k)) {
    }
    walk(k.body, [&](Stmt &s) {
        if (s.as<Map>() || s.as<Reduce>()) {
            each_expr(s, [&](Expr &e) { e = to_exp2(fold_uniform(e)); });
        }
    });
    clean_up(k);
}

} // namespace kiln::tile
