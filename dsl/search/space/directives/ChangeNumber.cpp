#include "dsl/search/space/directives/DirectiveMoves.h"

#include <algorithm>
#include <set>

namespace kiln::search {

namespace {

/// Integers of a chain that say how much, not which: the same value in statements of one Func is one decision (a tile's
/// rows in a stage and in its update).
void collect(Node &node, std::vector<Node *> &out) {
    if (node.kind == Node::Kind::Int && node.int_value > 0) {
        out.push_back(&node);
    }
    for (Node &arg : node.args) {
        collect(arg, out);
    }
}

} // namespace

std::optional<Schedule> change_number(const Schedule &schedule, Rng &rng) {
    Schedule changed = schedule;
    static const std::set<std::string> amounts = {
        "split",     "tile",       "vectorize",     "unroll",        "parallel",
        "stages",    "whole",      "persistent",    "warpgroups",    "gpu_tile",
        "registers", "specialize", "bound_storage", "align_storage", "fold_storage"};
    std::vector<std::pair<std::string, Node *>> numbers;
    for (Statement &s : changed.statements) {
        for (DirectiveCall &c : s.calls) {
            if (amounts.count(c.name)) {
                std::vector<Node *> found;
                for (Node &arg : c.args) {
                    collect(arg, found);
                }
                for (Node *n : found) {
                    numbers.emplace_back(s.stage.func, n);
                }
            }
        }
    }
    if (numbers.empty()) {
        return std::nullopt;
    }
    auto [func, node] = numbers[rng() % numbers.size()];
    int64_t old = node->int_value;
    std::vector<int64_t> near = {old * 2, old / 2, old + 8, old - 8, old * 3 / 2, old + 1, old - 1};
    std::erase_if(near, [&](int64_t v) { return v < 1 || v == old; });
    if (near.empty()) {
        return std::nullopt;
    }
    int64_t value = near[rng() % near.size()];
    bool everywhere = rng() % 2; // also in other Funcs: a tile and what is computed in it
    for (auto &[owner, n] : numbers) {
        if (n->int_value == old && (everywhere || owner == func)) {
            n->int_value = value;
        }
    }
    return changed;
}

} // namespace kiln::search
