// Tests and masks that a definition writes on the bits of a number, because some compilers take numbers for reals, as what
// they mean: comparisons and selects, which the passes that follow can reason about. What is compared keeps its meaning for
// NaN and infinities, but for the 15 numbers next to -inf, which such a test may count as -inf (docs/numerics.md).
#include "dsl/tile/passes/Algebra.h"
#include "dsl/tile/passes/Passes.h"

#include <limits>

namespace kiln::tile {

using namespace Halide::Internal;

namespace {

constexpr uint64_t ones = 0xffffffff, magnitude = 0x7fffffff, minus_inf_bits = 0xff800000;
constexpr uint64_t near_minus_inf = 15; ///< numbers that a test may count as -inf

std::optional<uint64_t> bits(const Expr &e) {
    const UIntImm *u = e.as<UIntImm>();
    return u && e.type() == Halide::UInt(32) ? std::optional<uint64_t>(u->value) : std::nullopt;
}

/// x where `e` is its bits.
Expr number_of(const Expr &e) {
    const Reinterpret *r = e.as<Reinterpret>();
    return r && e.type() == Halide::UInt(32) && r->value.type() == Halide::Float(32) ? r->value : Expr();
}

/// Masks of all bits or none.
Expr fold_mask(const Expr &e) {
    const Call *c = e.as<Call>();
    if (!c || e.type() != Halide::UInt(32)) {
        return e;
    }
    auto constant = [](uint64_t v) { return UIntImm::make(Halide::UInt(32), v & ones); };
    if (c->is_intrinsic(Call::bitwise_not)) {
        const auto a = bits(c->args[0]);
        return a ? constant(~*a) : e;
    }
    const bool is_and = c->is_intrinsic(Call::bitwise_and);
    if (!is_and && !c->is_intrinsic(Call::bitwise_or)) {
        return e;
    }
    for (const auto &[mask, other] : {std::pair{c->args[0], c->args[1]}, {c->args[1], c->args[0]}}) {
        const auto m = bits(mask);
        if (m == (is_and ? ones : 0)) {
            return other;
        }
        if (m == (is_and ? 0 : ones)) {
            return mask;
        }
    }
    return e;
}

/// The bits where the condition is known.
Expr where(const Expr &e, const Expr &condition, bool holds) {
    return rewrite(e, [&](const Expr &x) -> Expr {
        const Select *s = x.as<Select>();
        return s && same(s->condition, condition) ? holds ? s->true_value : s->false_value : fold_mask(x);
    });
}

/// reinterpret<float>(bits chosen by masks of one condition).
Expr lift_mask(const Reinterpret *r) {
    Expr condition;
    bool one = true;
    rewrite(r->value, [&](const Expr &x) {
        if (const Select *s = x.as<Select>(); s && x.type() == Halide::UInt(32)) {
            one &= !condition.defined() || same(condition, s->condition);
            condition = s->condition;
        }
        return x;
    });
    if (!condition.defined() || !one) {
        return Expr();
    }
    const Expr value = number_of(where(r->value, condition, true));
    const auto masked = bits(where(r->value, condition, false));
    if (!value.defined() || masked != minus_inf_bits) {
        return Expr();
    }
    return Select::make(condition, value, -std::numeric_limits<float>::infinity());
}

Expr lift(const Expr &e) {
    if (const Reinterpret *r = e.as<Reinterpret>(); r && e.type() == Halide::Float(32)) {
        const Expr lifted = lift_mask(r);
        return lifted.defined() ? lifted : e;
    }
    // The bits of -inf are the largest of numbers that are no NaN.
    const LT *l = e.as<LT>();
    const GT *g = e.as<GT>();
    const Expr least = l ? l->a : g ? g->b : Expr(), most = l ? l->b : g ? g->a : Expr();
    if (most.defined()) {
        const Expr x = number_of(most);
        const auto c = bits(least);
        if (x.defined() && c && *c < minus_inf_bits && *c >= minus_inf_bits - 1 - near_minus_inf) {
            return EQ::make(x, -std::numeric_limits<float>::infinity());
        }
    }
    if (const EQ *q = e.as<EQ>(); q && bits(q->b) == uint64_t(0)) {
        const Call *c = q->a.as<Call>();
        const bool is_and = c && c->is_intrinsic(Call::bitwise_and);
        const Expr x = is_and && bits(c->args[1]) == magnitude ? number_of(c->args[0]) : Expr();
        if (x.defined()) {
            return EQ::make(x, 0.0f);
        }
    }
    return e;
}

} // namespace

void lift_bits(Kernel &k) {
    walk(k.body, [&](Stmt &s) {
        if (s.as<Map>() || s.as<Reduce>()) {
            each_expr(s, [&](Expr &e) { e = rewrite(e, lift); });
        }
    });
}

} // namespace kiln::tile
