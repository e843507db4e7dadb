// Loops over the same range become one where the later does not need what the earlier gives, so that a copy which both
// read is made once: two products that share an operand, a product and a sum over the same rows.
#include "dsl/tile/passes/Passes.h"
#include "dsl/tile/passes/Rewrite.h"

#include <algorithm>

namespace kiln::tile {

using namespace Halide::Internal;

namespace {

bool same_range(const For &a, const For &b) {
    return equal(a.lo, b.lo) && equal(a.hi, b.hi);
}

/// Whether body[at] can move up to just behind body[to].
bool can_move(const Kernel &k, const Body &body, size_t at, size_t to) {
    std::set<std::string> needed = reads(k, body[at]);
    for (size_t i = to; i < at; i++) {
        for (const std::string &t : defined_in(body[i])) {
            if (needed.count(t)) {
                return false;
            }
        }
    }
    return true;
}

void merge(For &into, For from) {
    for (Stmt &s : from.body) {
        Body one{std::move(s)};
        walk(one, [&](Stmt &inner) {
            each_expr(inner, [&](Expr &e) {
                e = replace_variable(e, from.var, Variable::make(Halide::Int(32), into.var));
            });
        });
        into.body.push_back(std::move(one[0]));
    }
    into.carry.insert(into.carry.end(), from.carry.begin(), from.carry.end());
}

void fuse(Kernel &k, Body &body) {
    for (size_t i = 0; i < body.size(); i++) {
        for (size_t j = i + 1; body[i].as<For>() && j < body.size(); j++) {
            For *first = body[i].as<For>(), *second = body[j].as<For>();
            if (second && same_range(*first, *second) && can_move(k, body, j, i)) {
                k.remarks.push_back("fuse_loops: `" + body[j].func + "` runs in the loop `" + first->var +
                                    "` of `" + body[i].func + "`");
                merge(*first, std::move(*second));
                body.erase(body.begin() + j);
                j--;
            }
        }
        for (Body *inner : bodies_of(body[i])) { // where the loops inside two that were fused meet
            fuse(k, *inner);
        }
    }
}

} // namespace

void fuse_loops(Kernel &k) {
    fuse(k, k.body);
}

} // namespace kiln::tile
