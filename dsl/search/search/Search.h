/** \file
 * The search: drafts from the space, ranked by the roofline, the survivors by the model, a batch of them measured; what
 * was learned ranks the next ones. Every trial goes into the database before anything else happens.
 */
#pragma once

#include "dsl/search/database/Database.h"
#include "dsl/search/measure/Measurer.h"
#include "dsl/search/model/Model.h"
#include "dsl/search/space/Space.h"

#include <functional>
#include <string>
#include <vector>

namespace kiln::search {

struct SearchOptions {
    double budget_s = 60;  ///< of wall clock, all included; 0: no limit
    int64_t trials = 0;    ///< 0: no limit
    int batch = 8;         ///< trials between two looks of the model
    size_t drafts = 192;   ///< made for each batch
    size_t survivors = 48; ///< of the roofline's ranking, shown to the model
    /// Of each batch: chosen by chance among the survivors, so that a wrong model cannot hide the best one.
    double chance = 0.125;
    double explore = 1.0; ///< candidates are ranked by log(ms) - explore * spread
    size_t beam_width = 6, beam_depth = 6;
    Regime regime = Regime::Sustained;
    uint64_t seed = 1;
    bool resume = false;
    std::string space = "pipeline"; ///< Run::space
    std::vector<Candidate> hand;    ///< schedules to start from beside the space's own seeds
    int threads = 0;                ///< of a CPU kernel: a fact of the result
    double roofline_ms = 0;         ///< for progress; 0: unknown
    /// What candidates are ranked by before the model sees them; for tests.
    std::function<Features(const Problem &, const Schedule &)> features =
        [](const Problem &p, const Schedule &s) { return search::features(p, s); };
};

/// Where a search is.
struct SearchProgress {
    int64_t done = 0, left = -1; ///< trials; left -1: the clock decides
    double spent_s = 0, left_s = -1;
    double best_ms = 0, baseline_ms = 0, roofline_ms = 0; ///< baseline: the plain schedule; 0: unknown
    std::string best_origin;
    std::map<std::string, int64_t> rejected; ///< by the space, by reason, before any compile
    std::map<std::string, int64_t> failed;   ///< trials that were not Ok, by status
    std::string doing;                       ///< "measuring", "drafting"
};

/// Called on the thread of search(): for each trial, and a few times a second.
struct SearchObserver {
    std::function<void(const SearchProgress &)> progress = [](const SearchProgress &) {};
    std::function<void(const StoredTrial &)> trial = [](const StoredTrial &) {};
    /// Asked often: true ends the search as if its time were over.
    std::function<bool()> stop = [] { return false; };
};

struct SearchResult {
    Entry entry;
    Run run;
    /// Empty where nothing was right in time: then `plain` is what to use.
    std::vector<StoredTrial> best; ///< up to 4, fastest first, in the regime asked for
    StoredTrial plain;             ///< the default schedule's trial; id 0: it was not measured
    SearchProgress progress;
    std::string ended;      ///< "budget", "trials", "space exhausted", "stopped", "nothing to search"
    double model_error = 0; ///< median of |log(predicted / measured)| over the trials that were predicted
};

/// `measurer` was set up for the problem. Never throws for a trial's fault; throws Error K1315 where nothing could be
/// measured, not even the plain schedule, and K1316 where whoever measures is gone time and again.
SearchResult search(const Problem &problem, Space &space, Model model, Measurer &measurer, Database &database,
                    const SearchOptions &options, const SearchObserver &observer = {});

/// The candidate that model and roofline think best, without measuring: a beam and some generations of evolution, within
/// `seconds`. `predicted` (may be null) gets its time.
Candidate predict_best(const Problem &problem, Space &space, const Model &model, const SearchOptions &options,
                       double seconds, Prediction *predicted = nullptr);

} // namespace kiln::search
