#include "dsl/search/space/Accept.h"

#include "dsl/schedule/Canonical.h"
#include "dsl/search/space/Alternatives.h"

#include <fmt/format.h>

namespace kiln::search {

namespace {

std::string reason_of(const Diagnostic &d) {
    std::string out = d.code + " ";
    bool quoted = false, digits = false;
    for (char c : d.message) {
        if (c == '`') {
            quoted = !quoted;
            out += quoted ? "`…`" : "";
            continue;
        }
        bool digit = isdigit(static_cast<unsigned char>(c));
        if (!quoted && !(digit && digits)) {
            out += digit ? 'N' : c;
        }
        digits = digit;
    }
    return out;
}

const Diagnostic *first_fault(const std::vector<Diagnostic> &diagnostics) {
    for (const Diagnostic &d : diagnostics) {
        if (d.severity == Severity::Error) {
            return &d;
        }
    }
    return nullptr;
}

/// A tile that is to span a whole loop and is shorter than it: a library would be right all the same, since it runs another
/// schedule for such calls, and that is the one that would be timed.
bool serves_other_sizes(const LoopNest &sized) {
    for (const FuncNest &f : sized.funcs) {
        for (const StageNest &stage : f.stages) {
            for (const Loop &loop : stage.loops) {
                auto whole = stage.tile.find("whole " + loop.name);
                if (whole != stage.tile.end() && loop.extent &&
                    *loop.extent > whole->second.args.at(1).int_value) {
                    return true;
                }
            }
        }
    }
    return false;
}

} // namespace

std::string reject_reason(const Problem &asked, const Schedule &schedule, const KnobValues &knobs) {
    const Problem &problem = problem_of_schedule(asked, schedule, knobs);
    CanonicalResult canonical = canonicalize(schedule, knobs);
    if (const Diagnostic *d = first_fault(canonical.diagnostics)) {
        return reason_of(*d);
    }
    {
        ScheduleAnalysis general = analyse_schedule(canonical.schedule, problem.info, problem.target,
                                                    problem.device.limits, canonical.damaged);
        if (const Diagnostic *d = first_fault(general.diagnostics)) {
            return reason_of(*d);
        }
    }
    ScheduleAnalysis sized = analyse_schedule(canonical.schedule, problem.sized, problem.target,
                                              problem.device.limits, canonical.damaged);
    if (const Diagnostic *d = first_fault(sized.diagnostics)) {
        return reason_of(*d);
    }
    if (serves_other_sizes(sized.nest)) {
        return "a tile that spans a `whole` loop is shorter than the loop";
    }
    return over_device_limits(problem, sized.nest);
}

} // namespace kiln::search
