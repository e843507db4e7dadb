#include "dsl/search/space/directives/Proposals.h"

#include "dsl/schedule/Print.h"

#include <algorithm>

namespace kiln::search {

namespace {

/// `acc` where one of its stages has the loop, `acc.update(1)` else, as compute_at takes it.
Node stage_node(const FuncNest &host, const StageNest &stage, const std::string &loop) {
    auto has = [&](const StageNest &s) { return s.find(loop) != nullptr; };
    std::string text = Proposals::ref_of(host).str();
    if (std::count_if(host.stages.begin(), host.stages.end(), has) > 1 && stage.update >= 0) {
        text += ".update(" + std::to_string(stage.update) + ")";
    }
    std::optional<Node> node = parse_condition(text);
    return node ? *node : Node::name(host.name);
}

void places_of(Proposals &p, const StageRef &ref, const std::string &self) {
    auto step = [&](const char *name, std::vector<Node> args) {
        DirectiveStep s;
        s.move = "place";
        s.stage = ref;
        s.call.name = name;
        s.call.args = std::move(args);
        p.steps.push_back(std::move(s));
    };
    step("compute_root", {});
    step("compute_inline", {});
    step("store_root", {});
    for (const FuncNest &host : p.nest.funcs) {
        if (host.is_input || host.name == self) {
            continue;
        }
        for (const StageNest &stage : host.stages) {
            for (const Loop &l : stage.loops) {
                step("compute_at", {stage_node(host, stage, l.name), Node::name(l.name)});
                step("store_at", {stage_node(host, stage, l.name), Node::name(l.name)});
            }
        }
    }
}

} // namespace

void propose_places(Proposals &p) {
    for (const FuncNest &f : p.nest.funcs) {
        if (f.is_extern || !p.wants(f)) {
            continue;
        }
        if (!f.is_input) {
            places_of(p, Proposals::ref_of(f), f.name);
        }
        if (f.is_wrapper || f.is_output) {
            continue;
        }
        // Copies for one reader, and for all.
        StageRef wrapper;
        wrapper.func = f.name;
        wrapper.is_wrapper = true;
        places_of(p, wrapper, f.name);
        for (const std::string &reader : f.callers) {
            const FuncNest *r = p.nest.find(reader);
            if (r && !r->is_wrapper) {
                wrapper.wrapper_for = {reader};
                places_of(p, wrapper, f.name);
            }
        }
    }
}

void propose_removals(Proposals &p) {
    for (const Statement &s : p.schedule.statements) {
        for (const DirectiveCall &call : s.calls) {
            DirectiveStep step;
            step.move = "remove";
            step.stage = s.stage;
            step.call = call;
            step.remove = true;
            p.steps.push_back(std::move(step));
        }
    }
}

} // namespace kiln::search
