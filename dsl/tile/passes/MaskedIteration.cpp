#include "dsl/tile/passes/MaskedIteration.h"

#include "dsl/tile/ir/Text.h"
#include "dsl/tile/passes/Algebra.h"
#include "dsl/tile/passes/PastTheEnd.h"
#include "dsl/tile/passes/Rewrite.h"

#include <fmt/format.h>

#include <limits>

namespace kiln::tile {

using namespace Halide::Internal;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

/// One run of a loop's body with a tile at its masked value everywhere.
class MaskedIteration {
public:
    MaskedIteration(const Kernel &k, const For &loop, const std::string &tile, double masked)
        : k_(k), loop_(loop), tile_(tile), masked_(make_const(k.tile(tile).type, masked)) {}

    /// "" where the iteration keeps every carried tile as it is, else what it would become.
    std::string changes() {
        std::string guard;
        for (const Carry &c : loop_.carry) {
            if (is_number(c.init, -inf)) {
                if (!guard.empty()) {
                    return fmt::format("two carried tiles start at -inf: `{}` and `{}`", guard, c.name);
                }
                guard = c.name;
            }
        }
        if (guard.empty()) {
            return run({}, "");
        }
        // By cases. The guard is a number; or it is -inf, and then no iteration has seen anything but masked values:
        // everything still has its start, which such an iteration keeps.
        if (!Prover(k_).bounds_from_above(k_.ref(next_of(guard)), k_.ref(tile_))) {
            return fmt::format("`{}` may stay at -inf where `{}` is not", guard, tile_);
        }
        const std::string found = run({}, guard);
        std::map<std::string, Expr> start;
        for (const Carry &c : loop_.carry) {
            start[c.name] = c.init;
        }
        return found.empty() ? run(start, "") : found;
    }

private:
    const Kernel &k_;
    const For &loop_;
    const std::string tile_;
    const Expr masked_;

    std::string next_of(const std::string &carried) const {
        for (const Carry &c : loop_.carry) {
            if (c.name == carried) {
                return c.next;
            }
        }
        return "";
    }

    /// `finite`: a carried tile that is no infinity.
    std::string run(std::map<std::string, Expr> values, const std::string &finite) const {
        const std::map<std::string, Expr> start = values;
        auto evaluate = [&](const Expr &e) {
            return rewrite(e, [&](const Expr &x) -> Expr {
                if (const Variable *v = x.as<Variable>()) {
                    auto known = values.find(v->name);
                    return known == values.end() ? x : known->second;
                }
                const EQ *q = x.as<EQ>();
                const Variable *v = q && is_number(q->b, -inf) ? q->a.as<Variable>() : nullptr;
                return v && v->name == finite ? const_false() : fold_step(x);
            });
        };
        for (const Stmt &s : loop_.body) {
            if (const std::string dst = defines(s); dst == tile_) {
                values[dst] = masked_;
            } else if (const Map *m = s.as<Map>()) {
                values[dst] = evaluate(m->value);
            } else if (const Reduce *r = s.as<Reduce>()) {
                const Expr v = evaluate(r->value);
                const bool keeps = r->op == ReduceOp::Max || r->op == ReduceOp::Min || is_number(v, 0);
                if (is_const(v) && keeps) {
                    values[dst] = v;
                }
            } else if (const Mma *m = s.as<Mma>()) {
                if (is_zero(values, m->a) || is_zero(values, m->b)) {
                    values[dst] =
                        m->start.empty() ? make_zero(k_.tile(dst).type) : evaluate(k_.ref(m->start));
                }
            }
        }
        for (const Carry &c : loop_.carry) {
            auto v = values.find(c.next);
            const Expr wanted = start.empty() ? k_.ref(c.name) : c.init;
            if (v == values.end() || !same(v->second, wanted)) {
                return fmt::format("`{}` would become {}", c.name,
                                   v == values.end() ? "`" + c.next + "`" : print(k_, v->second));
            }
        }
        return "";
    }

    static bool is_zero(const std::map<std::string, Expr> &values, const std::string &tile) {
        auto v = values.find(tile);
        return v != values.end() && is_number(v->second, 0);
    }
};

} // namespace

std::string masked_iteration_changes(const Kernel &k, const For &loop, const std::string &tile,
                                     double masked) {
    return MaskedIteration(k, loop, tile, masked).changes();
}

} // namespace kiln::tile
