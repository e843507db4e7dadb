// A sum, maximum or product over an axis that ends inside a tile must not see what lies past its end. Copies fill with
// zeros there, which is enough for a plain sum; what else is read past the end is replaced by the identity of the
// reduction that reads it. Whether that is needed follows from the values, not from what they are for.
#include "dsl/tile/passes/Passes.h"
#include "dsl/tile/passes/PastTheEnd.h"
#include "dsl/tile/passes/Rewrite.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln::tile {

using namespace Halide::Internal;

namespace {

bool is_zero(const Expr &e) {
    return e.defined() && is_const_zero(e);
}

class Guard {
public:
    /// `only_drop`: limits go where nothing need be guarded, and stay elsewhere.
    Guard(Kernel &k, bool only_drop) : k_(k), only_drop_(only_drop) {}

    void run(Body &body) {
        for (size_t i = 0; i < body.size(); i++) {
            if (For *f = body[i].as<For>()) {
                run(f->body);
            } else if (If *f = body[i].as<If>()) {
                run(f->body);
                run(f->otherwise);
            } else if (Last *l = body[i].as<Last>()) {
                run(l->body);
            } else if (Reduce *r = body[i].as<Reduce>(); r && r->limit.defined()) {
                reduction(*r, body[i].func);
            } else if (const Mma *m = body[i].as<Mma>(); m && m->limit.defined()) {
                i += product(body, i);
            }
        }
    }

private:
    Expr within(const std::string &axis, const Expr &limit) { return k_.axis_var(axis) < limit; }

    void reduction(Reduce &r, const std::string &func) {
        const Expr identity = reduce_identity(r.op, r.value.type());
        const Expr past = PastTheEnd(k_, r.axis, r.limit).value(r.value);
        if (!past.defined() || !equal(past, identity)) {
            if (only_drop_) {
                return;
            }
            r.value = Select::make(within(r.axis, r.limit), r.value, identity);
            k_.remarks.push_back(
                fmt::format("guard_edges: the {} of `{}` over `{}` leaves out what lies past its end",
                            reduce_name(r.op), func, r.axis));
        }
        r.limit = Expr();
    }

    /// Both factors must be zeros past the end: a zero times an infinity is none. Returns how many statements it added.
    size_t product(Body &body, size_t at) {
        Mma m = *body[at].as<Mma>();
        const std::string func = body[at].func;
        size_t added = 0;
        if (only_drop_ && !needs_no_limit(m)) {
            return 0;
        }
        for (std::string *operand : {&m.a, &m.b}) {
            PastTheEnd past(k_, m.axis, m.limit);
            past.may_assume = true;
            if (is_zero(past.tile(*operand))) {
                for (const Expr &c : past.assumed) {
                    require(c);
                }
                continue;
            }
            const Tile of = k_.tile(*operand);
            const Tile &guarded = k_.add_tile(of.name + "_in", of.type, of.axes, func);
            const Expr value = Select::make(within(m.axis, m.limit), k_.ref(of.name), make_zero(of.type));
            body.insert(body.begin() + at + added, {Map{guarded.name, value, Expr()}, func});
            added++;
            *operand = guarded.name;
            k_.remarks.push_back(
                fmt::format("guard_edges: `{}` is replaced by zeros past the end of `{}` of `{}`", of.name,
                            m.axis, func));
        }
        m.limit = Expr();
        body[at + added].op = m;
        return added;
    }

    bool needs_no_limit(const Mma &m) const { return ends_in_zeros(m, m.a) && ends_in_zeros(m, m.b); }
    bool ends_in_zeros(const Mma &m, const std::string &operand) const {
        PastTheEnd past(k_, m.axis, m.limit);
        past.may_assume = true;
        return is_zero(past.tile(operand));
    }

    void require(const Expr &condition) {
        if (is_const_one(condition) || std::any_of(k_.conditions.begin(), k_.conditions.end(),
                                                   [&](const Expr &c) { return equal(c, condition); })) {
            return;
        }
        k_.conditions.push_back(condition);
    }

    Kernel &k_;
    const bool only_drop_;
};

} // namespace

void guard_edges(Kernel &k) {
    Guard(k, false).run(k.body);
}

void drop_limits(Kernel &k) {
    Guard(k, true).run(k.body);
}

} // namespace kiln::tile
