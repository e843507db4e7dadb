/** \file
 * A candidate compiled and linked to a shared object that kiln-measure opens.
 */
#pragma once

#include "dsl/lower/BuildLibrary.h"
#include "dsl/search/measure/Measurer.h"

#include <filesystem>

namespace kiln::search {

struct BuiltTrial {
    std::filesystem::path object; ///< "" where it failed; then `outcome` says why
    Outcome outcome;              ///< build_s, diagnostics, registers and so on
};

/// In `folder`, under a name that depends on schedule and knobs alone: a second call for the same finds it there.
BuiltTrial build_trial(const MeasureSetup &setup, const std::string &schedule,
                       const std::map<std::string, std::string> &knobs, const std::filesystem::path &folder);

/// The request that a trial's library is built by, without a folder; also for the library at the end of a search.
BuildRequest build_request(const MeasureSetup &setup, const std::string &schedule,
                           const std::map<std::string, std::string> &knobs);

} // namespace kiln::search
