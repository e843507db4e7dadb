/** \file
 * Candidates with what is thought of them, and how a batch is chosen among drafts.
 */
#pragma once

#include "dsl/search/search/Search.h"

#include <set>
#include <string>
#include <vector>

namespace kiln::search {

struct Ranked {
    Candidate candidate;
    Features features;
    bool has_features = false; ///< false: nothing is known of it (it is from elsewhere, and features failed)
    double estimate_ms = 0;
    Prediction prediction;
    double key = 0; ///< the smaller, the sooner
};

/// What tells a schedule from others: its text and knobs.
std::string identity(const Candidate &candidate);

class Ranker {
public:
    Ranker(const Problem &problem, const Model &model, const SearchOptions &options)
        : problem_(problem), model_(model), options_(options) {}

    /// Features and estimate. False where they cannot be computed: the reason is counted.
    bool rate(Ranked &ranked);
    /// The model's view of those with features; sets `key`.
    void predict(std::vector<Ranked> &candidates) const;
    /// The roofline's best and a few others, as many as `survivors`; then the model's best, and by chance among the rest,
    /// `count` in all. The order is that of measuring.
    std::vector<Ranked> choose(std::vector<Ranked> drafts, size_t count, Rng &rng) const;

    const std::map<std::string, int64_t> &failed() const { return failed_; }

private:
    const Problem &problem_;
    const Model &model_;
    const SearchOptions &options_;
    std::map<std::string, int64_t> failed_;
};

/// Steps from `start` that roofline and model like best, level by level; all that was on the beam, best first, at most
/// `most`. Ends after `seconds`.
std::vector<Ranked> beam(Space &space, Ranker &ranker, const std::vector<Candidate> &start,
                         const SearchOptions &options, double seconds, size_t most);

/// One generation: legal candidates made from `parents` (best first) by mutation, crossing and chance, none of them in
/// `seen`; at most `count`, and no longer than `seconds`.
std::vector<Ranked> breed(Space &space, Ranker &ranker, const std::vector<Candidate> &parents,
                          const std::set<std::string> &seen, size_t count, double seconds, Rng &rng);

} // namespace kiln::search
