/** \file
 * All trials of all searches, in one SQLite file. A trial is one transaction: whatever ends the program, what was
 * measured stays. Several programs may use one file.
 */
#pragma once

#include "dsl/search/database/Facts.h"
#include "dsl/search/measure/Trial.h"

#include <nlohmann/json_fwd.hpp>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kiln::search {

enum class Regime { Sustained, Cool };

/// A question: what a search was asked.
struct Entry {
    int64_t id = 0;
    std::string key;              ///< Facts::key
    std::string work;             ///< Problem::name, for people
    Facts facts;                  ///< the loose ones as of its last trial
    std::string created, changed; ///< ISO 8601, UTC
    int64_t trials = 0, ok = 0;
    double best_ms = 0, best_cool_ms = 0; ///< 0: none
};

/// One search: interrupted or finished.
struct Run {
    int64_t id = 0, entry = 0;
    std::string started, state; ///< "open", "done"
    std::string space;          ///< "pipeline", or the hash of a family's text
    double budget_s = 0;        ///< 0: none
    int64_t trial_limit = 0;    ///< 0: none
    double spent_s = 0;         ///< up to its last trial
    uint64_t seed = 0;
    int64_t trials = 0;
};

struct StoredTrial {
    int64_t id = 0, entry = 0, run = 0;
    Job job;
    Outcome outcome;
    /// Comparable within an entry: the time against the incumbent's, in ms of the run's first right candidate.
    double score_ms = 0, cool_score_ms = 0;
    double predicted_ms = 0, predicted_sigma = 0; ///< before it was measured; 0: not predicted
    std::string loose_key;                        ///< of the loose facts that it was measured under
    std::string date;
    double at_s = 0; ///< of its run
    double score(Regime regime) const { return regime == Regime::Cool ? cool_score_ms : score_ms; }
};

class Database {
public:
    /// Opens or makes it. Throws Error: K1310 it cannot be opened or written, K1311 it is no database of Kiln's or of a
    /// later Kiln.
    explicit Database(const std::filesystem::path &path);
    ~Database();
    Database(const Database &) = delete;
    Database &operator=(const Database &) = delete;

    /// KILN_DATABASE, else tune.db in the cache.
    static std::filesystem::path standard_path();
    const std::filesystem::path &path() const;

    /// Finds the question or notes it down.
    Entry entry_for(const Facts &facts, const std::string &work);
    std::optional<Entry> find(const Facts &facts) const;
    /// By the start of its key or by its number; throws Error K1312 where none or several fit.
    Entry entry_by_name(const std::string &name) const;
    std::vector<Entry> entries() const;

    Run begin_run(const Run &run);
    /// The last run of the entry in that space that is open.
    std::optional<Run> open_run(int64_t entry, const std::string &space) const;
    void end_run(int64_t run);

    /// One transaction. Returns its number.
    int64_t add(const StoredTrial &trial);
    std::vector<StoredTrial> trials(int64_t entry) const;
    /// Throws Error K1312.
    StoredTrial trial(int64_t id) const;
    /// Right ones, the fastest first, each schedule once (its last measurement); only those of `loose_key` if it is
    /// given.
    std::vector<StoredTrial> best(int64_t entry, size_t most, Regime regime = Regime::Sustained,
                                  const std::string &loose_key = "") const;

    /// Entries with all their trials as one JSON document; of `only`, or all.
    nlohmann::json export_json(const std::vector<int64_t> &only = {}) const;
    /// Adds what is not there yet. Returns the number of new trials. Throws Error K1313 where the document is none of
    /// export_json's.
    int64_t import_json(const nlohmann::json &document);
    /// Keeps the `keep` best of each entry, over all and under its last loose facts; returns how many trials went. An
    /// entry that keeps none goes as a whole.
    int64_t prune(const std::vector<int64_t> &only, size_t keep);

private:
    struct State;
    std::unique_ptr<State> state_;
};

} // namespace kiln::search
