/** \file
 * Pipelines for tests of the search space: forms that searchers are known to fail on. Integers from coordinates, so that
 * every right schedule gives the same values.
 */
#pragma once

#include "tests/correctness/schedule_apply_pipelines.h"

#include "dsl/search/space/Problem.h"

namespace kiln::test {

/// Chains of 40 stages, deep graphs, gathers, scatters, scans, updates of several kinds, Tuples, several outputs, extent 1,
/// layers of convolutions, reads at borders.
std::vector<TestPipeline> hard_pipelines();

/// A pipeline at its test's sizes on a nominal device of the target.
search::Problem problem_of_test(const TestPipeline &pipeline, const Target &target);

} // namespace kiln::test
