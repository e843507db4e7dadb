/** \file
 * The schedule that the model thinks best, found without measuring anything.
 */
#pragma once

#include "dsl/search/model/Model.h"
#include "dsl/search/space/Space.h"

#include <cstdint>

namespace kiln::search {

struct PredictOptions {
    double seconds = 20;       ///< an upper bound
    int64_t candidates = 4000; ///< looked at, at most: within `seconds` the result depends on nothing else
    size_t beam = 8;           ///< kept at each step
    size_t depth = 12;         ///< steps of the beam
    size_t expand = 96;        ///< neighbours looked at from each
    uint64_t seed = 1;
    /// Candidates are ranked by log(ms) + caution · spread: nobody will correct a wrong guess.
    double caution = 0.5;
};

struct BestPredicted {
    Candidate candidate;
    Prediction prediction, plain; ///< of it, and of the plain schedule
    int64_t looked_at = 0;
};

/// A beam from the space's seeds, then evolution from the best of all. The plain schedule at least, whatever happens.
BestPredicted best_predicted(const Problem &problem, Space &space, const Model &model,
                             const PredictOptions &options);

} // namespace kiln::search
