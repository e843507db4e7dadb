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

ScoreChange then(const ScoreChange &first, const ScoreChange &second) {
    return [first, second](Expr score, const ScoreAt &at) { return second(first(score, at), at); };
}

Expr block_may_be_seen(const Mask &mask, const ScoreAt &at, Expr i0, Expr i1, Expr j0, Expr j1) {
    ScoreAt box = at;
    box.i = Internal::Variable::make(Int(32), "mask_i");
    box.j = Internal::Variable::make(Int(32), "mask_j");
    Internal::Scope<Internal::Interval> scope;
    scope.push("mask_i", Internal::Interval(i0, i1));
    scope.push("mask_j", Internal::Interval(j0, j1));
    Internal::Interval seen = Internal::bounds_of_expr_in_scope(mask(box), scope);
    return seen.has_upper_bound() ? Internal::simplify(seen.max) : Internal::const_true();
}

namespace {

/// What both forms need, and how they name it.
class Builder {
public:
    Builder(const Func &q, const Func &k, const Func &v, const AttentionShape &shape,
            const AttentionOptions &options)
        : q_(q), k_(k), v_(v), shape_(shape), options_(options) {
        blocks_ = (shape.keys + options.block - 1) / options.block;
        group_ = shape.heads / shape.kv_heads;
        scale_ = options.scale.defined() ? options.scale : 1.0f / sqrt(cast<float>(shape.d));
        options.form == Form::Blocks ? blocks() : rows();
    }
    Attention result;

private:
    Func named(const std::string &name) { return Func(options_.prefix + name); }
    /// `key`, or the last one: keys past the end are masked, but a tail may read them. The promise tells bounds
    /// inference that without any key nothing is read at all.
    Expr readable(Expr key) {
        return unsafe_promise_clamped(min(key, max(shape_.keys - 1, 0)), 0, shape_.keys - 1);
    }
    Expr key(Expr in_block, Expr block) { return block * options_.block + in_block; }
    ScoreAt score_at(Expr query, Expr key) { return {query, key, head, batch, shape_.queries, shape_.keys}; }

    /// Whether the block of queries around i sees the block of keys `block`.
    Expr seen(Expr block) {
        Expr i0 = (i / options_.block_i) * options_.block_i, j0 = block * options_.block;
        return block_may_be_seen(options_.mask, score_at(i, 0), i0, i0 + options_.block_i - 1, j0,
                                 j0 + options_.block - 1);
    }
    void where(RDom &r, const Expr &predicate) {
        if (!Internal::is_const_one(predicate)) {
            r.where(predicate);
        }
    }

    void scores() {
        // Keys past the end repeat the last one: their scores are masked. (Not a select: see masked().)
        Func &kb = result.k_block = named("k_block");
        kb(d, j, t, head, batch) = k_(d, readable(key(j, t)), head, batch);

        RDom rd(0, shape_.d, "rd");
        Func &qk = result.qk = named("qk");
        qk(j, t, i, head, batch) = 0.0f;
        qk(j, t, i, head, batch) += f32(q_(rd, i, head, batch)) * f32(kb(rd, j, t, head / group_, batch));

        ScoreAt place = score_at(i, key(j, t));
        Expr score = options_.change(qk(j, t, i, head, batch) * scale_, place);
        Func &s = result.s = named("s");
        s(j, t, i, head, batch) = masked(place.j < shape_.keys && options_.mask(place), score);
    }

    /// The reduction over keys ends at the last one; Halide's bounds inference sees that only with min.
    Expr value(Expr c, Expr key) { return f32(v_(c, readable(key), head / group_, batch)); }

    /// `l` and `m` at any c: they are the same for all.
    void finish(const Expr &o, const Expr &m, const Expr &l) {
        // l is at least 1 where any key is allowed; NaN is not 0.
        Expr value = select(is_zero(l), 0.0f, o / l);
        Expr log_sum = select(is_zero(l), minus_inf(), m + log(l));
        Func out = named("out");
        result.out = out;
        result.lse = named("log_sum_exp");
        if (options_.with_lse) {
            out(c, i, head, batch) = Tuple(value, log_sum);
            result.out = named("out_value");
            result.out(c, i, head, batch) = out(c, i, head, batch)[0];
            result.lse(i, head, batch) = out(0, i, head, batch)[1];
        } else {
            out(c, i, head, batch) = value;
            result.lse(i, head, batch) = Internal::substitute(c.name(), 0, log_sum);
        }
    }

    void blocks() {
        scores();
        RDom rj(0, options_.block, "rj");
        Func &b = result.b = named("b");
        b(t, i, head, batch) = minus_inf();
        b(t, i, head, batch) = max(b(t, i, head, batch), result.s(rj, t, i, head, batch));

        Func &p = result.p = named("p");
        p(j, t, i, head, batch) = exp(result.s(j, t, i, head, batch) - safe(b(t, i, head, batch)));

        Func &sum = result.sum = named("sum");
        sum(t, i, head, batch) = 0.0f;
        sum(t, i, head, batch) += p(rj, t, i, head, batch);

        RDom rv(0, options_.block, "rv");
        rv.where(key(rv, t) < shape_.keys);
        Func &pv = result.pv = named("pv");
        pv(c, t, i, head, batch) = 0.0f;
        pv(c, t, i, head, batch) += p(rv, t, i, head, batch) * value(c, key(rv, t));

        RDom rt(0, blocks_, "rt");
        where(rt, seen(rt));
        Func &acc = result.acc = named("acc");
        acc(c, i, head, batch) = Tuple(minus_inf(), 0.0f, 0.0f);
        Expr m = acc(c, i, head, batch)[0], l = acc(c, i, head, batch)[1], o = acc(c, i, head, batch)[2];
        Expr bt = b(rt, i, head, batch);
        Expr m_new = max(m, bt), u = safe(m_new), old = exp(m - u), fresh = exp(bt - u);
        acc(c, i, head, batch) = Tuple(m_new, l * old + sum(rt, i, head, batch) * fresh,
                                       o * old + pv(c, rt, i, head, batch) * fresh);

        FuncRef a = acc(c, i, head, batch);
        finish(a[2], a[0], a[1]);
    }

    /// Everything between q and out has a block of queries, `i` in it and `ib` its number: extents that do not depend
    /// on the length, and skipping that depends on `ib` alone (a condition on single queries would be solved for them).
    void rows() {
        Expr query = ib * options_.block_i + i;
        Func &qb = result.q_block = named("q_block");
        qb(d, i, ib, head, batch) = q_(d, min(query, max(shape_.queries - 1, 0)), head, batch);

        RDom rd(0, shape_.d, "rd");
        Func &qk = result.qk = named("qk");
        qk(j, t, i, ib, head, batch) = 0.0f;
        qk(j, t, i, ib, head, batch) +=
            f32(qb(rd, i, ib, head, batch)) * f32(k_(rd, readable(key(j, t)), head / group_, batch));

        ScoreAt place = score_at(query, key(j, t));
        Expr score = options_.change(qk(j, t, i, ib, head, batch) * scale_, place);
        Func &s = result.s = named("s");
        s(j, t, i, ib, head, batch) = masked(place.j < shape_.keys && options_.mask(place), score);

        RDom rj(0, options_.block, "rj");
        Func &b = result.b = named("b");
        b(t, i, ib, head, batch) = minus_inf();
        b(t, i, ib, head, batch) = max(b(t, i, ib, head, batch), s(rj, t, i, ib, head, batch));

        auto seen_blocks = [&](const char *name) {
            RDom r(0, blocks_, name);
            Expr i0 = ib * options_.block_i, j0 = r * options_.block;
            where(r, block_may_be_seen(options_.mask, score_at(i0, 0), i0, i0 + options_.block_i - 1, j0,
                                       j0 + options_.block - 1));
            return r;
        };
        RDom rm = seen_blocks("rm");
        Func &m = result.m = named("m");
        m(i, ib, head, batch) = minus_inf();
        m(i, ib, head, batch) = max(m(i, ib, head, batch), b(rm, i, ib, head, batch));

        Func &p = result.p = named("p");
        p(j, t, i, ib, head, batch) = exp(s(j, t, i, ib, head, batch) - safe(m(i, ib, head, batch)));

        Func &sum = result.sum = named("sum");
        sum(t, i, ib, head, batch) = 0.0f;
        sum(t, i, ib, head, batch) += p(rj, t, i, ib, head, batch);

        RDom rv(0, options_.block, "rv");
        rv.where(key(rv, t) < shape_.keys);
        Func &pv = result.pv = named("pv");
        pv(c, t, i, ib, head, batch) = 0.0f;
        pv(c, t, i, ib, head, batch) += p(rv, t, i, ib, head, batch) * value(c, key(rv, t));

        RDom rt = seen_blocks("rt");
        Func &acc = result.acc = named("acc");
        acc(c, i, ib, head, batch) = Tuple(0.0f, 0.0f);
        acc(c, i, ib, head, batch) = Tuple(acc(c, i, ib, head, batch)[0] + sum(rt, i, ib, head, batch),
                                           acc(c, i, ib, head, batch)[1] + pv(c, rt, i, ib, head, batch));

        Expr in = i % options_.block_i, block = i / options_.block_i;
        FuncRef a = acc(c, in, block, head, batch);
        finish(a[1], m(in, block, head, batch), a[0]);
    }

    Func q_, k_, v_;
    AttentionShape shape_;
    AttentionOptions options_;
    Expr blocks_, group_, scale_;
    Var d{"d"}, j{"j"}, t{"t"}, i{"i"}, ib{"ib"}, c{"c"}, head{"head"}, batch{"batch"};
};

} // namespace

Attention attention(const Func &q, const Func &k, const Func &v, const AttentionShape &shape,
                    const AttentionOptions &options) {
    return Builder(q, k, v, shape, options).result;
}

} // namespace kiln::ops
