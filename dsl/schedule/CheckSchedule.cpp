#include "dsl/schedule/CheckSchedule.h"
#include "dsl/schedule/CheckContext.h"
#include "dsl/schedule/TargetPattern.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln {

namespace {

void check_target(CheckContext &cx) {
    if (!cx.schedule.target) {
        return;
    }
    std::string reason;
    if (!matches(*cx.schedule.target, cx.target, &reason)) {
        cx.report("K0420",
                  fmt::format("the schedule is for `{}`, the target is `{}`", cx.schedule.target->str(),
                              cx.target.str()),
                  cx.schedule.target->span, reason)
            .helps.push_back(fmt::format("choose a schedule for `{}`, or build for `{}`", cx.target.str(),
                                         cx.schedule.target->str()));
    }
}

} // namespace

ScheduleAnalysis analyse_schedule(const Schedule &canonical, const PipelineInfo &pipeline,
                                  const Target &target, const DeviceLimits &limits,
                                  const std::set<std::string> &damaged) {
    CheckContext cx(canonical, pipeline, target, limits, damaged);
    check_target(cx);
    build_nest(cx);
    check_placement(cx);
    cx.nest.infer_extents();
    check_loop_kinds(cx);
    check_storage(cx);
    check_gpu(cx);
    check_tile(cx);
    std::stable_sort(cx.diagnostics.begin(), cx.diagnostics.end(),
                     [](const Diagnostic &a, const Diagnostic &b) {
                         return std::pair(a.span.line, a.span.column) < std::pair(b.span.line, b.span.column);
                     });
    // The parts of one shorthand may have the same fault.
    auto same = [](const Diagnostic &a, const Diagnostic &b) {
        return a.code == b.code && a.span == b.span && a.message == b.message;
    };
    cx.diagnostics.erase(std::unique(cx.diagnostics.begin(), cx.diagnostics.end(), same),
                         cx.diagnostics.end());
    return {std::move(cx.nest), std::move(cx.diagnostics)};
}

std::vector<Diagnostic> check_schedule(const Schedule &canonical, const PipelineInfo &pipeline,
                                       const Target &target, const DeviceLimits &limits,
                                       const std::set<std::string> &damaged) {
    return analyse_schedule(canonical, pipeline, target, limits, damaged).diagnostics;
}

} // namespace kiln
