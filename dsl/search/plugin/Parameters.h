/** \file
 * What `autoscheduler.NAME=VALUE` may set for `autoscheduler=Kiln`.
 */
#pragma once

#include <Halide.h>

#include <cstdint>
#include <string>
#include <vector>

namespace kiln::search {

struct PluginParameters {
    /// CPU: threads that the code will run on. 0: those of a common machine (nominal_device).
    int parallelism = 0;
    size_t beam_size = 8;    ///< schedules kept at each step of the beam
    double time_budget = 20; ///< seconds for the search; it ends before, where it finds nothing better
    /// Schedules looked at, at most: as long as the time suffices the result depends on nothing else.
    int64_t candidates = 4000;
    uint64_t seed = 1;
    std::string weights_path; ///< of the cost model; "": the weights that Kiln carries
};

/// Throws Error: K1354 there is no such parameter (with a list), K1355 it does not take that value.
PluginParameters plugin_parameters(const Halide::AutoschedulerParams &params);

/// Names with what they mean, in order: for messages and documentation.
std::vector<std::pair<std::string, std::string>> plugin_parameter_list();

} // namespace kiln::search
