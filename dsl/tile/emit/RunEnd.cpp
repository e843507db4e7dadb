#include "dsl/tile/emit/RunEnd.h"

#include "dsl/tile/passes/Algebra.h"
#include "dsl/tile/passes/PastTheEnd.h"

#include <vector>

namespace kiln::tile {

using namespace Halide::Internal;
using Halide::Expr;

namespace {

/// a < b, or a <= b where `or_equal`, over 32-bit integers, whichever way it is written.
struct Comparison {
    Expr a, b;
    bool or_equal;
};

std::optional<Comparison> comparison(const Expr &e) {
    Comparison c;
    if (const LT *lt = e.as<LT>()) {
        c = {lt->a, lt->b, false};
    } else if (const LE *le = e.as<LE>()) {
        c = {le->a, le->b, true};
    } else if (const GT *gt = e.as<GT>()) {
        c = {gt->b, gt->a, false};
    } else if (const GE *ge = e.as<GE>()) {
        c = {ge->b, ge->a, true};
    }
    return c.a.defined() && c.a.type() == Halide::Int(32) ? std::optional(c) : std::nullopt;
}

/// Whether all threads have the same value.
bool is_uniform(const Kernel &k, const Expr &e) {
    return k.axes_of(e).empty() && !contains(e, [&](const Expr &x) {
               const Variable *v = x.as<Variable>();
               return x.as<Call>() || (v && (v->name[0] == '@' || k.tiles.count(v->name)));
           });
}

std::optional<RunEnd> end_of(const Kernel &k, const Expr &e, const std::string &axis) {
    const auto c = comparison(e);
    if (!c || !expr_uses_var(e, "%" + axis)) {
        return std::nullopt;
    }
    const Expr var = k.axis_var(axis), ahead = c->b - c->a;
    const Expr rising = simplify(ahead - var), falling = simplify(ahead + var);
    if (is_uniform(k, falling)) { // var < falling
        return RunEnd{e, true, simplify(falling + (c->or_equal ? 1 : 0))};
    }
    if (is_uniform(k, rising)) { // 0 < var + rising
        return RunEnd{e, false, simplify((c->or_equal ? 0 : 1) - rising)};
    }
    return std::nullopt;
}

} // namespace

std::optional<RunEnd> find_run_end(const Kernel &k, const Expr &value, const std::string &axis) {
    std::vector<RunEnd> ends;
    contains(value, [&](const Expr &e) {
        if (auto end = end_of(k, e, axis); end && (ends.empty() || !equal(ends[0].test, e))) {
            ends.push_back(*end);
        }
        return false;
    });
    return ends.size() == 1 ? std::optional(ends[0]) : std::nullopt;
}

Expr RunEnd::decided(const Expr &value, bool before) const {
    return rewrite(value, [&](const Expr &e) -> Expr {
        return equal(e, test) ? (before == answer ? const_true() : const_false()) : fold_logic(e);
    });
}

} // namespace kiln::tile
