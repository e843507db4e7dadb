/** \file
 * The checker: everything that can be said about a schedule without Halide, all faults of a file at once. What Halide
 * accepts in silence is refused here; what only Halide finds comes from halide_faults (apply/Apply.h).
 */
#pragma once

#include "dsl/schedule/LoopNest.h"
#include "dsl/target/Device.h"

#include <set>

namespace kiln {

/// The loops that a schedule makes and what is wrong with it. Directives that are faulty are left out of the nest.
struct ScheduleAnalysis {
    LoopNest nest;
    std::vector<Diagnostic> diagnostics; ///< in the order of the file
};

/// `canonical` is what canonicalize gives; `damaged` its Funcs that lost a faulty call, about whose loops nothing is
/// said. Codes: K01xx names and loops, K02xx legality of loops, splits and tails, K03xx placement and storage, K04xx
/// GPUs and targets. `nest` points into `pipeline`, which must outlive it.
ScheduleAnalysis analyse_schedule(const Schedule &canonical, const PipelineInfo &pipeline,
                                  const Target &target, const DeviceLimits &limits,
                                  const std::set<std::string> &damaged = {});
/// The nest points into `pipeline`.
ScheduleAnalysis analyse_schedule(const Schedule &canonical, PipelineInfo &&pipeline, const Target &target,
                                  const DeviceLimits &limits,
                                  const std::set<std::string> &damaged = {}) = delete;

std::vector<Diagnostic> check_schedule(const Schedule &canonical, const PipelineInfo &pipeline,
                                       const Target &target, const DeviceLimits &limits,
                                       const std::set<std::string> &damaged = {});

} // namespace kiln
