/** \file
 * Gradient-boosted regression trees (Friedman 2001) over histograms, for a few thousand samples of a few hundred columns.
 */
#pragma once

#include <Eigen/Core>

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <vector>

namespace kiln::search {

struct TreeOptions {
    int rounds = 150, depth = 4;
    float rate = 0.1f;
    float samples = 0.8f, columns = 0.4f; ///< share that a tree sees
    float least_weight = 3;               ///< of the samples in a leaf, of a mean weight of 1
    float shrink = 1;                     ///< added to a leaf's weight: pulls its value towards 0
    int bins = 48;                        ///< of a column's values, by quantiles
};

class Trees {
public:
    /// x: a row a sample. Minimizes the weighted sum of (value − y)², each taken linearly beyond `clip`. Deterministic.
    static Trees fit(const Eigen::MatrixXf &x, const Eigen::VectorXf &y, const Eigen::VectorXf &weight,
                     const TreeOptions &options, uint64_t seed);
    static constexpr float clip = 1.5f;

    Eigen::VectorXf predict(const Eigen::MatrixXf &x) const;

    /// Goes to `left` where x[column] <= threshold, else to left + 1; a leaf has column -1 and its value in `threshold`.
    struct Node {
        int column = -1;
        float threshold = 0;
        int left = -1;
    };
    float base = 0;
    std::vector<Node> nodes;
    std::vector<int> roots;
};

/// {"base", "roots", "columns", "thresholds", "left"}, thresholds of six digits.
nlohmann::ordered_json to_json(const Trees &trees);
/// Throws nlohmann::json::exception, or std::runtime_error where a place lies outside of the trees or of `columns`.
Trees trees_from_json(const nlohmann::json &json, int columns);

} // namespace kiln::search
