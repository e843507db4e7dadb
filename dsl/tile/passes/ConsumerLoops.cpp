// Loops of the consumers: ranges with and without tests, products that stay in flight into the next iteration, and
// products of pipeline_stage 1, which run one iteration late under what the next one computes.
#include "dsl/tile/passes/Algebra.h"
#include "dsl/tile/passes/Consumer.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace kiln::tile {

using namespace Halide::Internal;

namespace {

/// Indices and conditions only: Halide's simplifier takes numbers for reals.
Expr simplify_integers(const Expr &e) {
    class Integers : public IRMutator {
    public:
        using IRMutator::mutate;
        Expr mutate(const Expr &e) override {
            return e.type().is_float() ? IRMutator::mutate(e) : simplify(e);
        }
    };
    return Integers().mutate(e);
}

/// The statements of one iteration.
Body at(Body body, const std::string &var, const Expr &iteration) {
    walk(body, [&](Stmt &s) {
        each_expr(s, [&](Expr &e) {
            if (expr_uses_var(e, var)) {
                e = simplify_integers(replace_variable(e, var, iteration));
            }
        });
    });
    return body;
}

bool meet(const std::set<std::string> &a, const std::set<std::string> &b) {
    return std::any_of(a.begin(), a.end(), [&](const std::string &x) { return b.count(x) > 0; });
}

} // namespace

/// A carried tile that starts at zero and that only one product reads: the product starts at zero in the first
/// iteration, and no register is cleared. Returns the others.
std::vector<Carry> Consumer::fold_zero_starts(For &f) const {
    std::vector<Carry> rest;
    for (const Carry &c : f.carry) {
        Mma *user = nullptr;
        bool foldable = is_const_zero(c.init) && k_.root(c.next) == k_.root(c.name);
        for (Stmt &s : f.body) {
            if (!reads(k_, s).count(c.name)) {
                continue;
            }
            Mma *m = s.as<Mma>();
            foldable &= m && m->start == c.name && m->a != c.name && m->b != c.name && !user;
            user = m;
        }
        if (foldable && user) {
            user->zero_when = Variable::make(Halide::Int(32), f.var) == f.lo;
        } else {
            rest.push_back(c);
        }
    }
    return rest;
}

/// The loop from `lo` on in up to three parts: with tests, without, with. Nothing is asked inside an iteration.
std::vector<For> Consumer::ranges(const For &f, const Expr &lo) const {
    For whole = f;
    whole.lo = lo;
    whole.untested_from = whole.untested_to = Expr();
    if (!f.untested_to.defined()) {
        return {whole};
    }
    const Expr from = simplify(clamp(f.untested_from, lo, f.hi));
    const Expr to = simplify(clamp(f.untested_to, from, f.hi));
    For before = whole, untested = whole, after = whole;
    before.hi = untested.lo = from;
    untested.hi = after.lo = to;
    std::erase_if(untested.body, [](const Stmt &s) {
        const Map *m = s.as<Map>();
        return m && m->unless.defined();
    });
    std::vector<For> parts;
    for (const For &part : {before, untested, after}) {
        if (!can_prove(part.lo >= part.hi)) {
            parts.push_back(part);
        }
    }
    return parts;
}

/// The next values of those carried tiles whose next value is among `of`, where it lies elsewhere.
Body Consumer::moves(const std::vector<Carry> &carry, const Names &of, const std::string &func) const {
    Body out;
    for (const Carry &c : carry) {
        if (of.count(c.next) && k_.root(c.next) != k_.root(c.name)) {
            put(out, Move{c.name, c.next}, func);
        }
    }
    return out;
}

/// `last_read`: rings of the bodies around that nothing reads after the loop. Returns those whose slots went back in it.
Consumer::Names Consumer::loop(Body &out, const Stmt &s, const For &original, const Names &last_read) {
    For f = original;
    const std::vector<Carry> all = f.carry, filled = fold_zero_starts(f);
    f.carry.clear();
    touch(out, registers_used(s));
    wait_for_turn(out, s.func);
    If any{f.lo < f.hi, {}, {}};
    for (const Carry &c : filled) {
        put(any.body, Fill{c.name, c.init}, s.func);
    }
    Names given_back;
    if (is_staged(f)) {
        given_back = staged_loop(any.body, s, f, all, last_read);
    } else {
        plain_loop(any.body, s, f, all);
    }
    if (can_prove(f.lo < f.hi)) {
        out.insert(out.end(), any.body.begin(), any.body.end());
        return given_back;
    }
    // Without an iteration no slot was taken, and a carried tile keeps its start.
    for (const Carry &c : all) {
        put(any.otherwise, Fill{c.name, c.init}, s.func);
    }
    for (const std::string &r : given_back) {
        put(any.otherwise, Advance{r});
        release(any.otherwise, r);
    }
    pass_turn(any.otherwise, s.func);
    put(out, std::move(any), s.func);
    return given_back;
}

void Consumer::plain_loop(Body &out, const Stmt &s, const For &f, const std::vector<Carry> &carry) {
    std::vector<Flight> left;
    for (For part : ranges(f, f.lo)) {
        Body inner;
        Consumer nested(Inside{*this});
        Names defined;
        for (const Carry &c : carry) {
            defined.insert(c.next);
        }
        nested.issue(inner, {part.body, moves(carry, defined, s.func)}, rings_of(part.body));
        // Groups may stay in flight into the next iteration where only products touch their registers: then one
        // iteration's products run while the next one's operands arrive.
        bool chain = !nested.flights_.empty();
        for (const Flight &x : nested.flights_) {
            // The next operands arrive in another slot than these lie in.
            for (const std::string &r : x.release) {
                chain &= k_.ring(r)->depth > 1;
            }
        }
        for (const Stmt &t : f.body) {
            if (!t.as<Mma>() && !t.as<Copy>()) {
                for (const Flight &x : nested.flights_) {
                    chain &= !meet(registers_used(t), x.registers);
                }
            }
        }
        if (chain) {
            put(inner, MmaWait{static_cast<int>(nested.flights_.size())}, s.func);
            If later{Variable::make(Halide::Int(32), f.var) > f.lo, {}, {}};
            for (const Flight &x : nested.flights_) {
                for (const std::string &r : x.release) {
                    release(later.body, r);
                }
            }
            if (!later.body.empty()) {
                put(inner, std::move(later), s.func);
            }
        } else {
            nested.finish(inner);
        }
        left = std::move(nested.flights_);
        part.body = std::move(inner);
        put(out, std::move(part), s.func);
    }
    pass_turn(out, s.func);
    Consumer after(Inside{*this});
    after.flights_ = std::move(left);
    after.finish(out);
}

// ---- pipeline_stage

int Consumer::stage_of(const Stmt &s) const {
    auto plan = k_.plan.products.find(s.func);
    return k_.is_asynchronous(s) && plan != k_.plan.products.end() ? plan->second.stage : 0;
}

bool Consumer::is_staged(const For &f) const {
    return std::any_of(f.body.begin(), f.body.end(), [&](const Stmt &s) { return stage_of(s) > 0; });
}

/// One iteration t of the steady loop, in order: products of t that wait for nothing in it; the late products of t - 1;
/// what t computes beside them; what follows the late products, of t - 1; what of t needs their registers.
struct Consumer::Stages {
    Body now, late; ///< stage 0 and stage 1, in the order of the definitions
    Body first, issued, beside, after, rest;
    Names defined_now, defined_late;
};

Consumer::Stages Consumer::stages(const For &f, const std::vector<Carry> &carry) const {
    Stages st;
    auto refuse_stage = [&](const std::string &func, const std::string &why) {
        auto plan = k_.plan.products.find(func);
        refuse("K1124", fmt::format("`{}` cannot run an iteration of `{}` late: {}", func, f.var, why),
               plan == k_.plan.products.end() ? Span{} : plan->second.span, {"leave out its pipeline_stage"});
    };
    std::string delayed; // a product, for messages
    for (const Stmt &t : f.body) {
        const std::string dst = defines(t);
        if (t.as<Copy>()) {
            continue;
        }
        if (stage_of(t) > 1) {
            refuse_stage(t.func, fmt::format("stage {} is asked for, there are 0 and 1", stage_of(t)));
        }
        const bool late = stage_of(t) == 1 || meet(reads(k_, t), st.defined_late);
        delayed = stage_of(t) == 1 ? t.func : delayed;
        if (late && dst.empty()) {
            refuse_stage(delayed, "a loop or branch in the same iteration needs it");
        }
        (late ? st.late : st.now).push_back(t);
        (late ? st.defined_late : st.defined_now).insert(dst);
    }
    if (k_.plan.producers == 0) {
        refuse_stage(delayed, "no producer fills slots ahead");
    }
    const Names own = rings_of(f.body);
    for (const Stmt &t : st.late) {
        for (const Stmt &u : st.now) {
            if (meet(rings_read(t, own), rings_read(u, own))) {
                refuse_stage(delayed, fmt::format("`{}` reads the same slot in time", u.func));
            }
        }
    }
    // A carried tile that a late statement reads must still be that of its own iteration.
    for (const Stmt &t : st.late) {
        for (const Carry &c : carry) {
            if (reads(k_, t).count(c.name) && !st.defined_late.count(c.next)) {
                refuse_stage(delayed, fmt::format("it needs `{}`, which is replaced in time", c.name));
            }
        }
    }

    // Late products that wait for nothing but what was computed in time are issued together.
    bool open = true;
    // Registers of late statements. What the next iteration computes in them waits for these, so that nothing which was
    // computed in time for a late statement is overwritten before it is read.
    Names hot;
    for (const Stmt &t : st.late) {
        open &= k_.is_asynchronous(t) && !meet(reads(k_, t), st.defined_late);
        (open ? st.issued : st.after).push_back(t);
        const Names used = registers_used(t);
        hot.insert(used.begin(), used.end());
    }
    for (const Carry &c : carry) {
        if (st.defined_late.count(c.next)) {
            hot.insert(k_.root(c.name));
        }
    }
    Names defined, later, later_used; // in time; in `rest`; registers of `rest`
    Names before;                     // registers of statements in time above this one
    for (const Stmt &t : st.now) {
        const Names used = registers_used(t);
        const std::string dst = defines(t);
        const bool needs_late = meet(used, hot) || meet(reads(k_, t), later) || meet(used, later_used);
        const bool free =
            k_.is_asynchronous(t) && !needs_late && !meet(reads(k_, t), defined) && !meet(used, before);
        if (needs_late) {
            st.rest.push_back(t);
            later.insert(dst);
            later_used.insert(used.begin(), used.end());
        } else {
            (free ? st.first : st.beside).push_back(t);
        }
        defined.insert(dst);
        if (!free) {
            before.insert(used.begin(), used.end());
        }
    }
    return st;
}

/// Prologue with the first iteration in time; the steady loop; the last iteration's late products.
Consumer::Names Consumer::staged_loop(Body &out, const Stmt &s, const For &f, const std::vector<Carry> &carry,
                                      const Names &last_read) {
    const Names own = rings_of(f.body);
    const Stages st = stages(f, carry);
    const Body moves_now = moves(carry, st.defined_now, s.func),
               moves_late = moves(carry, st.defined_late, s.func);
    Consumer prologue(Inside{*this});
    prologue.issue(out, {at(st.now, f.var, f.lo), moves_now}, own);
    prologue.finish(out);
    for (For part : ranges(f, simplify(f.lo + 1))) {
        const Stages x = stages(part, carry);
        const Expr before = Variable::make(Halide::Int(32), f.var) - 1;
        Consumer steady(Inside{*this});
        Body inner;
        steady.issue(inner,
                     {x.first, at(x.issued, f.var, before), x.beside, at(x.after, f.var, before), moves_late,
                      x.rest, moves_now},
                     own);
        steady.finish(inner);
        if (k_.plan.turns) {
            issue_in_turn(inner, int(!x.first.empty()) + int(!x.issued.empty()), s.func);
        }
        part.body = std::move(inner);
        put(out, std::move(part), s.func);
    }
    // Slots of the bodies around that only statements in time read go back before the last late products.
    Names given_back;
    for (const std::string &r : last_read) {
        if (std::none_of(st.late.begin(), st.late.end(),
                         [&](const Stmt &t) { return !rings_read(t, {r}).empty(); })) {
            put(out, Advance{r});
            release(out, r);
            given_back.insert(r);
        }
    }
    Consumer epilogue(Inside{*this});
    epilogue.issue(out, {at(st.late, f.var, simplify(f.hi - 1)), moves_late}, own);
    epilogue.finish(out);
    pass_turn(out, s.func);
    return given_back;
}

} // namespace kiln::tile
