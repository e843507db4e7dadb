/** \file
 * Every version of a schedule that `kiln watch` tried, with its result, in the cache: NNNN.sched and NNNN.json.
 */
#pragma once

#include "apps/kiln/watch/Trial.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace kiln::cli {

struct HistoryEntry {
    int number = 0;        ///< from 1
    std::string time;      ///< ISO 8601, local
    std::string failed_at; ///< as in TrialResult
    std::string fault;     ///< the first error's code and message, or ""
    std::vector<TrialRow> rows;
    bool ok() const { return failed_at.empty(); }
};

class History {
public:
    /// Of one schedule file for one generator and one target; `key` says which.
    History(const std::filesystem::path &schedule_file, const std::string &key);

    const std::vector<HistoryEntry> &entries() const { return entries_; }
    const HistoryEntry *find(int number) const;
    /// The fastest of those that passed, by the geometric mean of the workloads that it shares with the last one.
    const HistoryEntry *best() const;
    const HistoryEntry *last_good() const;
    std::string text_of(int number) const;

    /// Keeps it under the next number.
    HistoryEntry add(const std::string &text, const TrialResult &result);

    const std::filesystem::path &folder() const { return folder_; }

private:
    std::filesystem::path folder_;
    std::vector<HistoryEntry> entries_;
};

/// Geometric mean over the workloads that both have of a's time over b's: how many times as fast b is. 0: none.
double speed_up(const std::vector<TrialRow> &a, const std::vector<TrialRow> &b);

nlohmann::ordered_json to_json(const HistoryEntry &entry);

} // namespace kiln::cli
