#include "dsl/search/space/directives/DirectiveMoves.h"
#include "dsl/search/space/directives/Proposals.h"

#include "dsl/schedule/Canonical.h"
#include "dsl/schedule/CheckSchedule.h"
#include "dsl/schedule/Print.h"

namespace kiln::search {

namespace {

bool same_stage(const StageRef &a, const StageRef &b) {
    return a == b;
}

} // namespace

Schedule DirectiveStep::apply(const Schedule &schedule) const {
    Schedule out = schedule;
    if (remove) {
        for (Statement &s : out.statements) {
            for (size_t i = 0; same_stage(s.stage, stage) && i < s.calls.size(); i++) {
                if (s.calls[i] == call) {
                    s.calls.erase(s.calls.begin() + static_cast<long>(i));
                    std::erase_if(out.statements,
                                  [](const Statement &t) { return t.calls.empty() && !t.stage.is_wrapper; });
                    return out;
                }
            }
        }
        return out;
    }
    Statement s;
    s.stage = stage;
    s.binding = binding;
    if (!condition.empty()) {
        std::vector<Diagnostic> ignored;
        if (auto node = parse_condition(condition)) {
            DirectiveCall special;
            special.name = "specialize";
            special.args = {*node};
            s.calls.push_back(std::move(special));
        }
    }
    s.calls.push_back(call);
    out.statements.push_back(std::move(s));
    return out;
}

const std::vector<DirectiveMove> &directive_moves() {
    static const std::vector<DirectiveMove> moves = {
        {"loops", 3, propose_loops},
        {"kinds", 2, propose_kinds},
        {"places", 3, propose_places},
        {"storage", 1, propose_storage},
        {"reductions", 1, propose_reductions},
        {"ahead", 0.3, propose_ahead},
        {"specializations", 0.3, propose_specializations},
        {"tile kernels", 3, propose_tile_kernels},
        {"removals", 2, propose_removals},
    };
    return moves;
}

std::vector<DirectiveStep> directive_steps(const Problem &problem, const Schedule &schedule,
                                           const DirectiveMove &move, const std::string &only) {
    CanonicalResult canonical = canonicalize(schedule);
    ScheduleAnalysis analysis = analyse_schedule(canonical.schedule, problem.info, problem.target,
                                                 problem.device.limits, canonical.damaged);
    Proposals proposals{problem, canonical.schedule, analysis.nest, only, {}};
    move.propose(proposals);
    return std::move(proposals.steps);
}

} // namespace kiln::search
