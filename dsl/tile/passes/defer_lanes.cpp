// A carried sum that a loop only scales and adds to stays spread over the threads of its rows: each adds up what it holds,
// and the threads meet once, after the loop.
#include "dsl/tile/passes/Algebra.h"
#include "dsl/tile/passes/Passes.h"
#include "dsl/tile/passes/Rewrite.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln::tile {

using namespace Halide::Internal;

namespace {

/// The sum that the loop adds to `c`, if it does no more than c · factor + sum · factor, and nothing else reads either.
std::string sum_added(const Kernel &k, const For &loop, const Carry &c) {
    const Map *next = nullptr;
    for (const Stmt &s : loop.body) {
        const Map *m = s.as<Map>();
        next = m && m->dst == c.next ? m : next;
    }
    if (!next || !is_number(c.init, 0) || next->unless.defined()) {
        return "";
    }
    auto is_sum = [&](const std::string &tile) {
        return std::any_of(loop.body.begin(), loop.body.end(), [&](const Stmt &s) {
            const Reduce *r = s.as<Reduce>();
            return r && r->dst == tile && r->op == ReduceOp::Sum;
        });
    };
    std::string sum;
    for (const Term &t : terms(next->value)) {
        int linear = 0;
        for (const Expr &f : factors(t.value)) {
            const Variable *v = f.as<Variable>();
            if (v && v->name == c.name) {
                linear++;
            } else if (v && is_sum(v->name)) {
                if (!sum.empty() && sum != v->name) {
                    return "";
                }
                sum = v->name;
                linear++;
            } else if (k.tiles_of(f).count(c.name)) {
                return "";
            }
        }
        if (linear != 1) {
            return "";
        }
    }
    const bool alone = !sum.empty() && count_reads(k, loop.body, sum) == 1 &&
                       count_reads(k, loop.body, c.name) == 1 && count_reads(k, k.body, c.next) == 1;
    return alone ? sum : "";
}

/// Whether an outer loop takes the tile for its own next value.
bool is_carried_on(const Kernel &k, const std::string &tile) {
    bool found = false;
    walk(k.body, [&](const Stmt &s) {
        if (const For *f = s.as<For>()) {
            found |=
                std::any_of(f->carry.begin(), f->carry.end(), [&](const Carry &c) { return c.next == tile; });
        }
    });
    return found;
}

void defer(Kernel &k, Body &body) {
    for (size_t i = 0; i < body.size(); i++) {
        for (Body *inner : bodies_of(body[i])) {
            defer(k, *inner);
        }
        if (!body[i].as<For>()) {
            continue;
        }
        for (size_t at = 0; at < body[i].as<For>()->carry.size(); at++) {
            const Carry c = body[i].as<For>()->carry[at];
            const std::string sum = sum_added(k, *body[i].as<For>(), c);
            if (sum.empty() || is_carried_on(k, c.name)) {
                continue;
            }
            for (const std::string &t : {sum, c.name, c.next}) {
                k.tiles.at(t).partial = true;
            }
            const Tile carried = k.tile(c.name);
            const Tile &all = k.add_tile(carried.name + "_all", carried.type, carried.axes, carried.func);
            Body rest(std::make_move_iterator(body.begin() + static_cast<std::ptrdiff_t>(i) + 1),
                      std::make_move_iterator(body.end()));
            replace_reads(rest, carried.name, all.name);
            const std::string func = body[i].func;
            body.resize(i + 1);
            body.push_back({LaneReduce{all.name, carried.name, ReduceOp::Sum}, func});
            body.insert(body.end(), std::make_move_iterator(rest.begin()),
                        std::make_move_iterator(rest.end()));
            k.remarks.push_back(fmt::format("defer_lanes: `{}` is added up over threads after the loop `{}`",
                                            carried.name, body[i].as<For>()->var));
        }
    }
}

} // namespace

void defer_lanes(Kernel &k) {
    bool has_product = false;
    walk(k.body, [&](const Stmt &s) { has_product |= k.is_asynchronous(s); });
    // Elsewhere the threads of a row may lie in several warps, and meet in shared memory either way.
    if (has_product) {
        defer(k, k.body);
    }
}

} // namespace kiln::tile
