/** \file
 * Features as the networks see them.
 */
#pragma once

#include "dsl/search/features/Features.h"

#include <Eigen/Core>

#include <span>
#include <vector>

namespace kiln::search {

/// Columns of a row before scaling: sign(v)·log(1 + |v|) of the features with these indices, then the logarithm of the
/// row's estimate in ms, the row's share of the candidate's estimate, and the logarithm of the number of rows.
int input_count(std::span<const int> features);

/// Where the columns of the training set lie; scaled columns have mean 0 and deviation 1 there, and are kept within
/// ±clip elsewhere. A column that never varied stays 0 everywhere.
struct Scaling {
    static constexpr float clip = 4;
    Eigen::VectorXf mean, inverse_deviation;
};

/// The rows of several candidates under each other.
struct Inputs {
    Eigen::MatrixXf x;
    Eigen::VectorXf log_estimate; ///< of each row, of milliseconds
    std::vector<int> begin;       ///< of each candidate's rows, and at last the number of rows
    int candidates() const { return static_cast<int>(begin.size()) - 1; }
};

/// Unscaled.
Inputs inputs_of(std::span<const Features *const> candidates, std::span<const int> features);
Scaling scaling_of(const Inputs &inputs);
void apply(const Scaling &scaling, Inputs &inputs);
/// What trees see, a row a candidate: of each column the logarithm of the rows' sum, the largest, and that of the row with
/// the largest estimate; then the logarithm of the estimates' sum, the number of rows, the largest estimate's share.
Eigen::MatrixXf pool_rows(const Inputs &unscaled);
int pooled_count(int inputs);
/// The rows of these candidates, in this order.
Inputs select(const Inputs &inputs, std::span<const int> candidates);

/// log of sum over a candidate's rows of exp(log_estimate + correction), and each row's share of that sum.
struct Sums {
    Eigen::VectorXf log_ms; ///< one a candidate
    Eigen::VectorXf share;  ///< one a row
};
Sums sum_rows(const Inputs &inputs, const Eigen::VectorXf &correction);

} // namespace kiln::search
