// Samples whose times follow a known law of their features, which the roofline misses: what a cost model should find.
#pragma once

#include "dsl/search/model/Model.h"

#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace kiln::search::testing {

/// `operations` kinds of algorithm with 3 problems each, `of_problem` candidates a problem. Seeded: the same every time.
inline std::vector<Sample> made_samples(int operations, int of_problem, uint64_t seed, double noise = 0.02) {
    std::mt19937_64 rng(seed);
    auto uniform = [&](double low, double high) {
        return low + (high - low) * static_cast<double>(rng() >> 11) * 0x1p-53;
    };
    std::vector<Sample> samples;
    for (int o = 0; o < operations; o++) {
        for (int p = 0; p < 3; p++) {
            double size = std::exp(uniform(std::log(1e5), std::log(1e8)));
            // What no feature shows: it is common to all candidates of the problem.
            double unseen = uniform(-0.2, 0.2);
            for (int c = 0; c < of_problem; c++) {
                Sample s;
                s.operation = "operation " + std::to_string(seed) + "/" + std::to_string(o);
                s.problem = s.operation + " size " + std::to_string(p);
                s.device = "made";
                double ms = 0;
                for (int r = 0; r < 1 + o % 3; r++) {
                    FeatureRow row;
                    double points = size * uniform(0.5, 1.0), lanes = std::exp2(std::floor(uniform(0, 5)));
                    double spilled = std::max(0.0, uniform(-30, 30)),
                           tasks = std::exp2(std::floor(uniform(0, 8)));
                    row[Feature::points] = static_cast<float>(points);
                    row[Feature::flops] = static_cast<float>(2 * points);
                    row[Feature::lanes] = static_cast<float>(lanes);
                    row[Feature::spilled] = static_cast<float>(spilled);
                    row[Feature::tasks] = static_cast<float>(tasks);
                    row.estimate_ms = points * 1e-6 / std::min(lanes, 8.0);
                    ms += row.estimate_ms * (1 + spilled / 10) * (tasks < 8 ? 8 / tasks : 1) *
                          (lanes > 8 ? 1.5 : 1);
                    s.features.rows.push_back(row);
                }
                s.ms = ms * std::exp(unseen + noise * uniform(-1, 1));
                samples.push_back(std::move(s));
            }
        }
    }
    return samples;
}

inline std::vector<Features> features_of(const std::vector<Sample> &samples) {
    std::vector<Features> out;
    for (const Sample &s : samples) {
        out.push_back(s.features);
    }
    return out;
}

} // namespace kiln::search::testing
