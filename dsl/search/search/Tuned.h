/** \file
 * A schedule for when somebody says `--schedule auto`: the database's best, else what the model thinks best.
 */
#pragma once

#include "dsl/lower/BuildLibrary.h"
#include "dsl/search/search/Search.h"

#include <filesystem>
#include <string>
#include <vector>

namespace kiln::search {

struct TunedSchedule {
    std::string text; ///< canonical; one schedule
    /// Where it is from: `the best of 57 trials …, measured 2026-12-01`, or `predicted …, not measured`.
    std::string source;
    bool measured = false;
    double ms = 0; ///< measured or predicted
    /// K1335: measured under another driver or compiler; K1336: only predicted.
    std::vector<Diagnostic> warnings;
};

/// For the problem's sizes on its device. `tune` is the command that would measure, for messages; `seconds`: how long the
/// model may be asked where nothing was measured. A database that is not there is none.
TunedSchedule tuned_schedule(const Problem &problem, const std::string &tune,
                             const std::filesystem::path &database, int threads = 0, double seconds = 3);

/// A schedule as the variants of a library that is right for all calls: where a split of an output shifts its tail inwards,
/// the code wants that output to be at least as long as the tile, so it runs only then, and the default schedule serves
/// the rest.
std::vector<VariantRequest> variants_of(const Problem &problem, const std::string &schedule);

/// The schedule of a trial with its knobs filled in, canonical, so that it stands alone.
Schedule schedule_of(const StoredTrial &trial);

} // namespace kiln::search
