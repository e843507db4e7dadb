#include "dsl/tile/build/Clamps.h"

#include "dsl/tile/passes/Passes.h"
#include "dsl/tile/passes/PastTheEnd.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln::tile {

using namespace Halide::Internal;

namespace {

/// The smaller of two last elements, one of them perhaps undefined.
Expr smaller(const Expr &a, const Expr &b) {
    if (!a.defined() || !b.defined()) {
        return a.defined() ? a : b;
    }
    return can_prove(b <= a) ? b : can_prove(a <= b) ? a : simplify(min(a, b));
}

/// One clamped read: which tiles hold elements that the definition does not have there.
class Proof {
public:
    Proof(const Kernel &k, const ClampedRead &read) : k_(k), read_(read), wild_{read.tile} {}

    void run(const Body &body) {
        for (const Stmt &s : body) {
            if (const For *f = s.as<For>()) {
                run(f->body);
                for (const Carry &c : f->carry) {
                    if (wild_.count(c.next) || meets(c.init)) {
                        refuse_reader(s.func);
                    }
                }
            } else if (const If *i = s.as<If>()) {
                run(i->body);
                run(i->otherwise);
            } else if (const Last *l = s.as<Last>()) {
                run(l->body);
            } else if (const Map *m = s.as<Map>()) {
                if (meets(past(m->value))) {
                    wild_.insert(m->dst);
                }
            } else if (const Reduce *r = s.as<Reduce>()) {
                reduce(*r, s.func);
            } else if (const Mma *m = s.as<Mma>()) {
                product(*m, s.func);
            } else if (const Store *st = s.as<Store>(); st && wild_.count(st->src)) {
                refuse_reader(st->to.view);
            }
        }
    }

private:
    const Kernel &k_;
    const ClampedRead &read_;
    std::set<std::string> wild_;

    Expr past(const Expr &e) const { return where_past(e, read_.axis, read_.limit); }

    bool meets(const Expr &e) const {
        const std::set<std::string> tiles = k_.tiles_of(e);
        return std::any_of(tiles.begin(), tiles.end(),
                           [&](const std::string &t) { return wild_.count(t) > 0; });
    }

    /// Whether a reduction with this limit ends before the elements in question.
    bool ends_before(const Expr &limit) const {
        return limit.defined() && can_prove(simplify(limit - read_.limit) <= 0);
    }

    void reduce(const Reduce &r, const std::string &func) {
        if (!meets(past(r.value)) || (r.axis == read_.axis && ends_before(r.limit))) {
            return;
        }
        if (r.axis == read_.axis) {
            refuse_reader(func);
        }
        wild_.insert(r.dst);
    }

    void product(const Mma &m, const std::string &func) {
        if (!wild_.count(m.a) && !wild_.count(m.b) && !wild_.count(m.start)) {
            return;
        }
        if (m.axis != read_.axis || wild_.count(m.start)) {
            wild_.insert(m.dst);
        } else if (!ends_before(m.limit)) {
            refuse_reader(func);
        }
    }

    [[noreturn]] void refuse_reader(const std::string &func) const {
        refuse("K1205",
               fmt::format(
                   "`{}` is read clamped to its last element and is to be copied to shared memory, where "
                   "what lies past the end is 0: `{}` reads it there along `{}`",
                   read_.view, func, read_.axis),
               read_.span,
               {fmt::format(
                    "leave it out in `{}`: `r.where(index < {}.dim(n).extent())`, or a select of a constant",
                    func, read_.view),
                fmt::format("leave out the copy of `{}`: then each thread reads as the definition says",
                            read_.view)});
    }
};

} // namespace

Unclamped unclamped(const Expr &e, const std::function<bool(const Expr &)> &varies) {
    if (const Call *c = e.as<Call>()) {
        if (c->is_intrinsic(Call::unsafe_promise_clamped) || c->is_intrinsic(Call::promise_clamped)) {
            Unclamped u = unclamped(c->args[0], varies);
            return {u.index, smaller(u.last, c->args[2])};
        }
        if (c->is_intrinsic(Call::likely) || c->is_intrinsic(Call::likely_if_innermost)) {
            return unclamped(c->args[0], varies);
        }
    }
    if (const Min *m = e.as<Min>(); m && varies(m->a) != varies(m->b)) {
        const Expr &last = varies(m->a) ? m->b : m->a;
        const Unclamped u = unclamped(varies(m->a) ? m->a : m->b, varies);
        return {u.index, smaller(u.last, last)};
    }
    if (const Max *m = e.as<Max>(); m && varies(m->a) != varies(m->b)) {
        const Expr &first = varies(m->a) ? m->b : m->a, &index = varies(m->a) ? m->a : m->b;
        if (can_prove(index >= first)) {
            return unclamped(index, varies);
        }
    }
    return {e, Expr()};
}

void prove_clamped_reads(const Kernel &k, const std::vector<ClampedRead> &reads) {
    if (reads.empty()) {
        return;
    }
    Kernel lifted = k;
    lift_bits(lifted);
    for (const ClampedRead &read : reads) {
        Proof(lifted, read).run(lifted.body);
    }
}

} // namespace kiln::tile
