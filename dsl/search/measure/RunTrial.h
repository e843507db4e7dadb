/** \file
 * A built candidate from its first call to its time, inside kiln-measure.
 */
#pragma once

#include "dsl/search/measure/Draw.h"
#include "dsl/search/measure/Trial.h"

#include <filesystem>
#include <map>

namespace kiln::search {

/// What is to be run: shared objects as link_shared makes them.
struct BuiltJob {
    int64_t number = 0;
    std::filesystem::path object, incumbent; ///< incumbent "": none
    uint64_t seed = 0;
};

class TrialRunner {
public:
    /// Throws as Draw does. `builds_root`: builds below this process are stopped during a timing on the CPU; 0: none.
    TrialRunner(const MeasureSetup &setup, pid_t builds_root);

    /// Never throws for the candidate's fault.
    Outcome run(const BuiltJob &job);

private:
    MeasureSetup setup_;
    Draw draw_;
    pid_t builds_root_;
    std::map<std::filesystem::path, double> known_s_; ///< seconds of a call, of incumbents

    nlohmann::json run_child(const BuiltJob &job, double call_s);
    void judge_after(bool has_incumbent, Outcome &outcome);
};

} // namespace kiln::search
