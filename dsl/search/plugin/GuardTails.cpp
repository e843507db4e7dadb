#include "dsl/search/plugin/GuardTails.h"

#include <functional>
#include <set>

namespace kiln::search {

namespace {

/// Funcs that have loops of their own.
std::set<std::string> computed_by(const Schedule &schedule, const PipelineInfo &info) {
    std::set<std::string> computed(info.outputs.begin(), info.outputs.end());
    for (const Statement &s : schedule.statements) {
        for (const DirectiveCall &c : s.calls) {
            if (c.name == "compute_root" || c.name == "compute_at") {
                computed.insert(s.stage.func);
            }
        }
    }
    return computed;
}

} // namespace

Schedule guard_tails(Schedule schedule, const PipelineInfo &info) {
    std::set<std::string> computed = computed_by(schedule, info);
    std::function<bool(const std::string &)> reads_input = [&](const std::string &name) {
        const FuncInfo *f = info.find(name);
        for (const std::string &callee : f ? f->callees : std::vector<std::string>()) {
            const FuncInfo *read = info.find(callee);
            if (read && callee != name &&
                (read->is_input || (!computed.count(callee) && reads_input(callee)))) {
                return true;
            }
        }
        return false;
    };
    for (Statement &s : schedule.statements) {
        const FuncInfo *f = info.find(s.stage.func);
        // A wrapper reads what it wraps.
        bool reaches_out = f && (f->is_output || reads_input(f->name) || (s.stage.is_wrapper && f->is_input));
        for (DirectiveCall &c : s.calls) {
            if (!reaches_out || c.name != "split" || c.args.size() < 4) {
                continue;
            }
            c.args.resize(4);
            c.args.push_back(Node::name("GuardWithIf"));
        }
    }
    return schedule;
}

} // namespace kiln::search
