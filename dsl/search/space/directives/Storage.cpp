#include "dsl/search/space/directives/Proposals.h"

#include <algorithm>
#include <set>

namespace kiln::search {

void propose_storage(Proposals &p) {
    for (const FuncNest &f : p.nest.funcs) {
        if (f.is_input || f.is_extern || !p.wants(f)) {
            continue;
        }
        for (const char *memory : {"Heap", "Stack", "Register", "GPUShared", "AMXTile"}) {
            p.add("storage", f, "store_in", {Node::name(memory)});
        }
        for (const std::string &dim : f.args) {
            for (int64_t size : step_sizes()) {
                p.add("storage", f, "bound_extent", {Node::name(dim), Node::integer(size)});
                p.add("storage", f, "bound_storage", {Node::name(dim), Node::integer(size)});
                p.add("storage", f, "align_storage", {Node::name(dim), Node::integer(size)});
                p.add("storage", f, "fold_storage",
                      {Node::name(dim), Node::integer(size), Node::name("true")});
            }
        }
        // One dimension somewhere else, and two dimensions in the other order.
        std::set<std::vector<std::string>> orders;
        for (size_t from = 0; from < f.args.size(); from++) {
            for (size_t to = 0; to < f.args.size(); to++) {
                std::vector<std::string> order = f.args;
                std::string dim = order[from];
                order.erase(order.begin() + static_cast<long>(from));
                order.insert(order.begin() + static_cast<long>(to), dim);
                if (from != to) {
                    orders.insert(order);
                }
                order = f.args;
                std::swap(order[from], order[to]);
                if (from != to) {
                    orders.insert(order);
                }
            }
        }
        for (const std::vector<std::string> &order : orders) {
            std::vector<Node> args;
            for (const std::string &dim : order) {
                args.push_back(Node::name(dim));
            }
            p.add("storage", f, "reorder_storage", std::move(args));
        }
    }
}

void propose_reductions(Proposals &p) {
    for (const Proposals::At &at : p.stages()) {
        const StageNest &stage = *at.loops;
        if (stage.update < 0 || !at.condition.empty()) {
            continue;
        }
        if (stage.is_associative) {
            p.add("reduction", at, "atomic", {Node::name("false")});
        }
        for (const Loop &l : stage.loops) {
            if (!l.is_rvar || !stage.is_associative) {
                continue;
            }
            std::string part = at.func->name + "_part";
            for (int i = 1; p.nest.find(part); i++) {
                part = at.func->name + "_part" + std::to_string(i);
            }
            DirectiveStep step;
            step.move = "reduction";
            step.stage = at.stage;
            step.binding = part;
            step.call.name = "rfactor";
            step.call.args = {Node::list({Node::list({Node::name(l.name), Node::name("u")})})};
            p.steps.push_back(std::move(step));
        }
    }
}

} // namespace kiln::search
