/** \file
 * How good predictions are for a search: the order of candidates of one problem, what its first choices lose, and
 * whether intervals hold.
 */
#pragma once

#include "dsl/search/model/Model.h"

#include <nlohmann/json_fwd.hpp>

#include <span>

namespace kiln::search {

struct Metrics {
    size_t samples = 0, problems = 0, pairs = 0;
    /// Share of the pairs of one problem and device, whose times differ by 10 % or more, that are in the right order;
    /// equal predictions count half. Mean over problems, so that a problem with many samples counts as one.
    double pairwise = 0;
    double pairwise_pooled = 0; ///< the same over all pairs alike
    /// Geometric mean over problems of best time among the first 1, 5, 16 by prediction / best time of all samples.
    double top1 = 0, top5 = 0, top16 = 0;
    double top16_within_3_percent =
        0; ///< share of the problems whose 16 first hold one within 3 % of the best
    double within_50 = 0,
           within_90 = 0;     ///< share of the samples inside the 50 % and 90 % intervals, mean over problems
    double median_factor = 0; ///< half of the samples are predicted within this factor of their time
};

/// `predictions` are of `samples`, one each. Problems with fewer than 8 samples are left out.
Metrics metrics_of(std::span<const Sample> samples, std::span<const Prediction> predictions);

/// What random choice gives, exactly: pairwise 0.5, and the expected regret of 1, 5 and 16 draws.
Metrics metrics_of_chance(std::span<const Sample> samples);

nlohmann::ordered_json to_json(const Metrics &metrics);

} // namespace kiln::search
