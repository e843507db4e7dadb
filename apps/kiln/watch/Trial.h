/** \file
 * One try of a schedule in `kiln watch`: check, build, verify, time. The engine knows only this interface.
 */
#pragma once

#include "dsl/support/Diagnostic.h"

#include <nlohmann/json_fwd.hpp>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace kiln::cli {

/// The time of one workload. Milliseconds; the interval holds the median with 95 %.
struct TrialRow {
    std::string work;
    double ms = 0, ms_low = 0, ms_high = 0;
    double roofline = 0; ///< share of what the device's ceilings allow, 0…1; 0: the device is not calibrated
    double error = 0,
           bound = 0; ///< largest error against its tolerance, as a share of it in the worst element
    /// Time of the schedule it is compared with over its own, timed by turns in the same run; 0: there is none.
    double gain = 0, gain_low = 0, gain_high = 0;
    std::vector<std::string> flags; ///< what to doubt: "noisy", "above the roofline"
};

struct TrialResult {
    /// The step that it did not pass: "check", "build", "verify" or "time"; "" when it passed all.
    std::string failed_at;
    std::vector<Diagnostic> diagnostics;
    std::map<std::string, std::string> sources; ///< texts that the diagnostics point into
    std::vector<TrialRow> rows;
    double build_s = 0, verify_s = 0, time_s = 0;
    bool ok() const { return failed_at.empty(); }
};

class TrialRunner {
public:
    virtual ~TrialRunner() = default;
    /// Tries `text`, the content of `file`. Throws nothing: whatever goes wrong is in the result. Once it passes, it
    /// is what the next ones are compared with.
    virtual TrialResult run(const std::string &file, const std::string &text) = 0;
};

nlohmann::ordered_json to_json(const TrialRow &row);
TrialRow trial_row_from_json(const nlohmann::json &json);

} // namespace kiln::cli
