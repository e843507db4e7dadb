#include "dsl/ops/Attention.h"

#include "dsl/ops/Numeric.h"

namespace kiln::ops {

using namespace Halide;

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
    Expr readable_query(Expr query) { return clamp(query, 0, max(shape_.queries - 1, 0)); }

    ScoreAt score_at(Expr query, Expr key) {
        return {query, key, head, batch, shape_.queries, shape_.keys, {}};
    }

    /// The Func that holds a query's range of keys, over `vars`; `query` in terms of them.
    void define_ranges(const std::vector<Var> &vars, Expr query) {
        if (options_.ranges) {
            KeyRange range = options_.ranges(readable_query(query), batch);
            result.range = named("range");
            result.range(vars) = Tuple(range.first, range.end, range.shift);
        }
    }

    /// Whether `place` counts. `at`: the arguments of `range` there.
    Expr allowed(ScoreAt place, const std::vector<Expr> &at) {
        Expr exists = place.j < shape_.keys;
        if (options_.ranges) {
            FuncRef range = result.range(at);
            exists = exists && place.j >= range[0] && place.j < range[1];
            place.shift = range[2];
        }
        return exists && options_.mask(place);
    }
    /// The scaled score, changed and masked.
    Expr score(Expr product, ScoreAt place, const std::vector<Expr> &at) {
        Expr counts = allowed(place, at);
        if (options_.ranges) {
            place.shift = result.range(at)[2];
        }
        return masked(counts, options_.change(product * scale_, place));
    }

    /// Whether one of the block_i queries from `i0` on may see a key of block `t`.
    Expr seen(Expr i0, Expr t) {
        Expr i1 = i0 + options_.block_i - 1, j0 = t * options_.block, j1 = j0 + options_.block - 1;
        ScoreAt place = score_at(i0, 0);
        Expr may, low, high;
        if (options_.ranges) {
            Expr last = readable_query(i1);
            KeyRange a = options_.ranges(readable_query(i0), batch), b = options_.ranges(last, batch);
            Expr end = max(a.end, b.end), same = a.first == b.first && a.end == b.end;
            // Between documents the shift is only known to leave the diagonal before the end.
            const int far = 1 << 29;
            place.shift = a.shift;
            low = select(same, a.shift, -far);
            high = select(same, a.shift, end - 1 - i0);
            may = j1 >= min(a.first, b.first) && j0 < end;
        }
        Expr by_mask = block_may_be_seen(options_.mask, place, i0, i1, j0, j1, low, high);
        may = may.defined() ? may && by_mask : by_mask;
        return options_.block_seen ? may && options_.block_seen(place, i0, i1, j0, j1) : may;
    }
    void where(RDom &r, const Expr &predicate) {
        if (!Internal::is_const_one(predicate)) {
            r.where(predicate);
        }
    }
    bool seen_at_run_time() const { return bool(options_.ranges) || bool(options_.block_seen); }

    /// The reduction over keys ends at the last one; Halide's bounds inference sees that only with min.
    Expr value(Expr c, Expr key) { return f32(v_(c, readable(key), head / group_, batch)); }
    RDom keys_of_block(const char *name) {
        RDom r(0, options_.block, name);
        r.where(key(r, t) < shape_.keys);
        return r;
    }
    /// The values with zeros where no key of the batch is. A plain product would meet what stands there: 0 · NaN is NaN.
    void clear_values() {
        const Expr end = options_.ranges ? options_.ranges(0, batch).held : Expr();
        if (options_.guard_values || !end.defined()) {
            return;
        }
        Func &held = result.v_held = named("v_held");
        held(c, j, head, batch) = select(j < end, v_(c, j, head, batch), Internal::make_zero(v_.type()));
        v_ = held;
    }
    /// `weight` · `value` where that is to count: 0 · NaN is NaN.
    Expr guarded(Expr weight, Expr value) { return select(is_zero(weight), 0.0f, weight * value); }

    /// `l` and `m` at any c: they are the same for all.
    void finish(Expr o, Expr m, Expr l) {
        if (options_.sink) {
            Expr sink = options_.sink(head), top = max(m, sink), old = exp(m - safe(top));
            o = o * old;
            l = l * old + exp(sink - safe(top));
            m = top;
        }
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
        define_ranges({i, batch}, i);
        clear_values();
        // Keys past the end repeat the last one: their scores are masked. (Not a select: see masked().)
        Func &kb = result.k_block = named("k_block");
        kb(d, j, t, head, batch) = k_(d, readable(key(j, t)), head, batch);

        RDom rd(0, shape_.d, "rd");
        Func &qk = result.qk = named("qk");
        qk(j, t, i, head, batch) = 0.0f;
        qk(j, t, i, head, batch) += f32(q_(rd, i, head, batch)) * f32(kb(rd, j, t, head / group_, batch));

        Func &s = result.s = named("s");
        s(j, t, i, head, batch) = score(qk(j, t, i, head, batch), score_at(i, key(j, t)), {i, batch});

        RDom rj(0, options_.block, "rj");
        Func &b = result.b = named("b");
        b(t, i, head, batch) = minus_inf();
        b(t, i, head, batch) = max(b(t, i, head, batch), s(rj, t, i, head, batch));

        Func &p = result.p = named("p");
        p(j, t, i, head, batch) = exp(s(j, t, i, head, batch) - safe(b(t, i, head, batch)));

        Func &sum = result.sum = named("sum");
        sum(t, i, head, batch) = 0.0f;
        sum(t, i, head, batch) += p(rj, t, i, head, batch);

        RDom rv = keys_of_block("rv");
        Func &pv = result.pv = named("pv");
        Expr weight = f32(to_type(options_.weights, p(rv, t, i, head, batch))), v = value(c, key(rv, t));
        pv(c, t, i, head, batch) = 0.0f;
        pv(c, t, i, head, batch) += options_.guard_values ? guarded(weight, v) : weight * v;

        RDom rt(0, blocks_, "rt");
        where(rt, seen((i / options_.block_i) * options_.block_i, rt));
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
        define_ranges({i, ib, batch}, query);
        Func &qb = result.q_block = named("q_block");
        qb(d, i, ib, head, batch) = q_(d, min(query, max(shape_.queries - 1, 0)), head, batch);

        RDom rd(0, shape_.d, "rd");
        if (seen_at_run_time()) { // else bounds inference leaves out what no block reads
            where(rd, seen(ib * options_.block_i, t));
        }
        Func &qk = result.qk = named("qk");
        qk(j, t, i, ib, head, batch) = 0.0f;
        qk(j, t, i, ib, head, batch) +=
            f32(qb(rd, i, ib, head, batch)) * f32(k_(rd, readable(key(j, t)), head / group_, batch));

        Func &s = result.s = named("s");
        s(j, t, i, ib, head, batch) =
            score(qk(j, t, i, ib, head, batch), score_at(query, key(j, t)), {i, ib, batch});

        RDom rj(0, options_.block, "rj");
        Func &b = result.b = named("b");
        b(t, i, ib, head, batch) = minus_inf();
        b(t, i, ib, head, batch) = max(b(t, i, ib, head, batch), s(rj, t, i, ib, head, batch));

        auto seen_blocks = [&](const char *name) {
            RDom r(0, blocks_, name);
            where(r, seen(ib * options_.block_i, r));
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

        RDom rv = keys_of_block("rv");
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
        Expr o = options_.guard_values ? summed_again(a, in, block) : Expr(a[1]);
        finish(o, m(in, block, head, batch), a[0]);
    }

    /// The sum of products, with those left out whose weight is 0, in columns where acc's came out as NaN: a test of each
    /// product would double the time of that loop. Gives the sum to use.
    Expr summed_again(const FuncRef &in_acc, const Expr &in, const Expr &block) {
        auto u32 = [](uint32_t x) { return cast<uint32_t>(Expr(x)); };
        Func &top = result.o_top = named("o_top"), &again = result.o_again = named("o_again");
        RDom ri(0, options_.block_i, "ri");
        Expr bits = reinterpret<uint32_t>(result.acc(c, ri, ib, head, batch)[1]) & u32(0x7fffffff);
        top(c, ib, head, batch) = u32(0);
        top(c, ib, head, batch) = max(top(c, ib, head, batch), bits);

        RDom rg(0, options_.block, 0, blocks_, "rg");
        Expr in_block = rg.x, of_block = rg.y;
        rg.where(top(c, ib, head, batch) > u32(0x7f800000));
        where(rg, seen(ib * options_.block_i, of_block));
        rg.where(key(in_block, of_block) < shape_.keys);
        Expr weight =
            exp(result.s(in_block, of_block, i, ib, head, batch) - safe(result.m(i, ib, head, batch)));
        again(c, i, ib, head, batch) = 0.0f;
        again(c, i, ib, head, batch) += guarded(weight, value(c, key(in_block, of_block)));
        return select(top(c, block, head, batch) > u32(0x7f800000), again(c, in, block, head, batch),
                      in_acc[1]);
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
