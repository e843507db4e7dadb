/** \file
 * Timing a candidate in turn with the incumbent: short where it is clearly slower, longer where it may be the new best.
 */
#pragma once

#include "dsl/check/Measure.h"
#include "dsl/search/measure/Trial.h"

#include <functional>
#include <string>
#include <vector>

namespace kiln::search {

struct RaceOptions {
    double seconds = 0.25;        ///< for both; three times as long where the candidate may be the faster one
    double min_sample_s = 500e-6; ///< a sample repeats its work until it lasts this long
    int min_rounds = 5, max_rounds = 60;
    double give_up = 2; ///< so many times slower: a few samples are enough
    double idle_s = 0;  ///< before each sample: for the cool regime
    uint64_t seed = 1;  ///< of the order in each round
    /// Called once, before a round that nobody can foretell, whose candidate sample is then left out: outputs are
    /// poisoned there, so that what is found at the end was written by a timed call.
    std::function<void()> surprise = [] {};
};

struct Race {
    Times times;
    std::vector<double> ours, theirs; ///< seconds of one call; of one index: from one round
    std::vector<std::string> flags;   ///< "clock drift", "noisy"
};

/// `incumbent` may have no `queue`. `clock` gives seconds; for tests.
Race race(const Work &candidate, const Work &incumbent, const RaceOptions &options,
          const std::function<double()> &clock = {});

} // namespace kiln::search
