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
    double compile_s = 10;          ///< a candidate that takes longer is given up
    double run_s = 1;               ///< its longest call
    size_t bytes = size_t(6) << 30; ///< of address space of a child
};

struct Timed {
    double ms = 0;     ///< of one call with warm caches; 0: none
    std::string fault; ///< why there is none
};

/// Each candidate is compiled by Halide's JIT in a child of its own, `jobs` at once; while one is timed, all others wait.
/// Some candidates take turns, a round of about 15 ms each, until the two fastest of at least three rounds of a candidate
/// agree within 5 % (10 % after eight): the time is the fastest round's, and a candidate whose rounds never agree has none.
/// One CPU thread is timed by what it ran, so that a busy machine does little harm.
/// Loops only: tile kernels have no JIT.
std::vector<Timed> time_candidates(const TimeSetup &setup, const std::vector<Schedule> &canonical,
                                   const std::function<void(size_t done)> &progress = {});

} // namespace kiln::search
