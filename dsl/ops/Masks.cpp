// Masks, score changes and ranges of keys: the parts of Attention.h that are Exprs alone.
#include "dsl/ops/Attention.h"
#include "dsl/ops/Numeric.h"

namespace kiln::ops {

using namespace Halide;

Mask no_mask() {
    return [](const ScoreAt &) { return Internal::const_true(); };
}

Mask causal() {
    return [](const ScoreAt &at) { return at.j <= at.diagonal(); };
}

Mask window(Expr left, Expr right) {
    return [left, right](const ScoreAt &at) {
        return (left < 0 || at.j >= at.diagonal() - left) && (right < 0 || at.j <= at.diagonal() + right);
    };
}

Mask prefix(Expr length) {
    return [length](const ScoreAt &at) { return at.j <= at.diagonal() || at.j < length; };
}

Mask both(const Mask &a, const Mask &b) {
    return [a, b](const ScoreAt &at) { return a(at) && b(at); };
}

ScoreChange no_change() {
    return [](Expr score, const ScoreAt &) { return score; };
}

ScoreChange softcap(Expr cap) {
    return [cap](Expr score, const ScoreAt &) { return cap * tanh(score / cap); };
}

ScoreChange alibi(std::function<Expr(Expr)> slope) {
    return [slope](Expr score, const ScoreAt &at) {
        return score - slope(at.head) * cast<float>(abs(at.diagonal() - at.j));
    };
}

std::function<Expr(Expr)> alibi_slopes(Expr heads) {
    return [heads](Expr head) {
        // 2^x as e^(x log 2): one exponential a row, hoisted out of the keys.
        return exp(-5.545177444f * cast<float>(head + 1) / cast<float>(heads));
    };
}

ScoreChange score_bias(const Func &values) {
    return [values](Expr score, const ScoreAt &at) {
        std::vector<Expr> place = {at.key(), at.query(), at.head, at.batch};
        place.resize(size_t(values.dimensions()));
        return score + f32(values(place));
    };
}

ScoreChange relative_bias(const Func &table, Expr reach) {
    return [table, reach](Expr score, const ScoreAt &at) {
        return score + f32(table(clamp(at.j - at.diagonal(), -reach, reach) + reach, at.head));
    };
}

ScoreChange then(const ScoreChange &first, const ScoreChange &second) {
    return [first, second](Expr score, const ScoreAt &at) { return second(first(score, at), at); };
}

KeyRanges lengths(const Func &q_lengths, const Func &k_lengths, Expr queries) {
    return [=](Expr i, Expr batch) {
        Expr keys = k_lengths(batch);
        if (!q_lengths.defined()) {
            return KeyRange{0, keys, keys - queries, keys};
        }
        Expr of_batch = q_lengths(batch);
        return KeyRange{0, select(i < of_batch, keys, 0), keys - of_batch, keys};
    };
}

KeyRanges documents(const Func &document, const Func &cu_q, const Func &cu_k, Expr count) {
    return [=](Expr i, Expr) {
        Expr here = clamp(document(i), 0, count), next = min(here + 1, count);
        return KeyRange{cu_k(here), cu_k(next), cu_k(next) - cu_q(next), cu_k(count)};
    };
}

Func paged(const std::string &name, const Func &pages, const Func &table, Expr page_size, Expr page_count) {
    Func f(name);
    Var d("d"), j("j"), head("head"), batch("batch");
    Expr page = clamp(table(j / page_size, batch), 0, max(page_count - 1, 0));
    f(d, j, head, batch) = pages(d, j % page_size, head, page);
    return f;
}

Expr block_may_be_seen(const Mask &mask, const ScoreAt &at, Expr i0, Expr i1, Expr j0, Expr j1,
                       Expr shift_low, Expr shift_high) {
    ScoreAt box = at;
    box.i = Internal::Variable::make(Int(32), "mask_i");
    box.j = Internal::Variable::make(Int(32), "mask_j");
    Internal::Scope<Internal::Interval> scope;
    scope.push("mask_i", Internal::Interval(i0, i1));
    scope.push("mask_j", Internal::Interval(j0, j1));
    if (at.shift.defined()) {
        box.shift = Internal::Variable::make(Int(32), "mask_shift");
        scope.push("mask_shift", Internal::Interval(shift_low, shift_high));
    }
    Internal::Interval seen = Internal::bounds_of_expr_in_scope(mask(box), scope);
    return seen.has_upper_bound() ? Internal::simplify(seen.max) : Internal::const_true();
}

} // namespace kiln::ops
