/** \file
 * Which of a generator's problems a command runs.
 */
#pragma once

#include "apps/kiln/Generators.h"

namespace kiln::cli {

/// Those that a library built with `params` can run: the parameters that they need are given or are the default.
/// checking_workloads: without those for timing (all, when there are no others). timing_workloads: a few of those for
/// timing that are not too large to wait for.
std::vector<Workload> checking_workloads(const std::string &generator, const Params &params);
std::vector<Workload> timing_workloads(const std::string &generator, const Params &params);

/// All those for timing; also those that need other parameters, where none are given and the library is yet to be built.
std::vector<Workload> bench_workloads(const std::string &generator, const Params &params, bool can_build);

/// By name; throws Error K0805 with those that exist.
std::vector<Workload> workloads_by_name(const std::string &generator, const std::vector<std::string> &names);

/// Of sizes in a user's words, `x=512x256` for each buffer, innermost first. Throws K1330 for one that says nothing or names
/// no buffer, and where one is missing.
Workload shaped_workload(const std::string &generator, const Params &params,
                         const std::vector<std::string> &shapes);

/// Bytes of all buffers of a workload whose elements have 4 bytes: to tell a large one from a small one.
double rough_bytes(const Workload &workload);

} // namespace kiln::cli
