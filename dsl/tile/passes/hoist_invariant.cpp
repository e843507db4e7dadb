// Out of loops: what does not change in them. Copies of an operand that all iterations share are made once.
#include "dsl/tile/passes/Passes.h"
#include "dsl/tile/passes/Rewrite.h"

#include <algorithm>

namespace kiln::tile {

namespace {

bool is_invariant(const Kernel &k, const For &loop, const Stmt &s, const std::set<std::string> &inside) {
    if (s.as<Store>() || uses_variable(s, loop.var)) {
        return false;
    }
    bool stores = false;
    walk(Body{s}, [&](const Stmt &inner) { stores |= inner.as<Store>() != nullptr; });
    if (stores) {
        return false;
    }
    const std::set<std::string> own = defined_in(s);
    for (const std::string &t : reads(k, s)) {
        if (inside.count(t) && !own.count(t)) {
            return false;
        }
    }
    return std::none_of(loop.carry.begin(), loop.carry.end(),
                        [&](const Carry &c) { return own.count(c.next) > 0; });
}

void hoist(const Kernel &k, Body &body) {
    for (size_t i = 0; i < body.size(); i++) {
        for (Body *inner : bodies_of(body[i])) {
            hoist(k, *inner);
        }
        if (!body[i].as<For>()) {
            continue;
        }
        for (size_t j = 0; j < body[i].as<For>()->body.size();) {
            For &loop = *body[i].as<For>();
            if (!is_invariant(k, loop, loop.body[j], defined_in(body[i]))) {
                j++;
                continue;
            }
            Stmt moved = std::move(loop.body[j]);
            loop.body.erase(loop.body.begin() + j);
            body.insert(body.begin() + i, std::move(moved));
            i++;
        }
    }
}

} // namespace

void hoist_invariant(Kernel &k) {
    hoist(k, k.body);
}

} // namespace kiln::tile
