/** \file
 * Random schedules that the checker accepts, reproducible from a seed.
 */
#pragma once

#include "dsl/schedule/PipelineInfo.h"
#include "dsl/target/Target.h"

#include <map>
#include <random>
#include <string>

namespace kiln::test {

struct RandomSchedule {
    std::string text;
    /// How often a directive was tried and how often the checker took it.
    std::map<std::string, int> tried, kept;
};

/// Adds `attempts` random statements one after another and keeps those after which check_schedule finds no error (and
/// no dependence on sizes, K0220, or on luck, K0211).
RandomSchedule random_schedule(const PipelineInfo &pipeline, const Target &target, unsigned seed,
                               int attempts);

} // namespace kiln::test
