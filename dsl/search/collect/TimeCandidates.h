/** \file
 * Rough times of many schedules of one problem, quickly: for data sets, not for decisions. What decides is measured by
 * measure/Measurer.h, which checks results and times in turn with the incumbent.
 */
#pragma once

#include "dsl/generator/Generator.h"
#include "dsl/schedule/Schedule.h"
#include "dsl/target/Target.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kiln::search {

struct TimeSetup {
    std::string generator;
    std::map<std::string, std::string> params; ///< with those of the workload
    Workload workload;
    Target target;
    int threads = 1;
    int jobs = 2;                   ///< candidates compiled at once
    double compile_s = 20;          ///< a candidate that takes longer is given up
    double run_s = 2;               ///< its longest call
    size_t bytes = size_t(6) << 30; ///< of address space of a child
};

/// Milliseconds of one call with warm caches, the lower quartile of 9 samples of at least 2 ms (of two calls above
/// 300 ms); nothing where it did not compile, run or end in time. Each candidate is compiled by Halide's JIT in a child of
/// its own. `jobs` at once compile; while one is timed, all others wait. Loops only: tile kernels have no JIT.
std::vector<std::optional<double>> time_candidates(const TimeSetup &setup,
                                                   const std::vector<Schedule> &canonical,
                                                   const std::function<void(size_t done)> &progress = {});

} // namespace kiln::search
