/** \file
 * What `kiln tune` and `kiln db` say of trials and searches.
 */
#pragma once

#include "apps/kiln/Report.h"
#include "apps/kiln/tune/TuneSetup.h"

#include <string>

namespace kiln::cli {

/// `best 1.23 ms (plain 4.56, roofline 0.98), 12 trials, 3 wrong, 140 rejected, 31 s left`
std::string progress_text(const search::SearchProgress &progress);

/// One line: number, status, time, origin, message, and what reruns it.
std::string trial_text(const search::StoredTrial &trial);
nlohmann::ordered_json trial_json(const search::StoredTrial &trial);
nlohmann::ordered_json progress_json(const search::SearchProgress &progress);

/// K1317: why a schedule that was right when it was measured is not the one that is delivered.
Diagnostic not_delivered(const search::StoredTrial &trial, const std::vector<Diagnostic> &faults);

/// K1318: the library has the default schedule, since no measured one is there or passes a full check.
Diagnostic plain_delivered(const std::string &work, const search::SearchResult &result);

/// The whole result: times, where they stand, the schedule as text and C++, why it is good, what was rejected.
void add_result(Report &report, const TuneSetup &setup, const search::SearchResult &result,
                search::Regime regime);

} // namespace kiln::cli
