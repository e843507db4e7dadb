/** \file
 * The insides of Model: what Train makes, Weights stores and Model computes with.
 */
#pragma once

#include "dsl/search/model/Inputs.h"
#include "dsl/search/model/Network.h"
#include "dsl/search/model/Residual.h"
#include "dsl/search/model/Trees.h"

#include <string>
#include <vector>

namespace kiln::search {

struct ModelData {
    std::string description = "nothing: the roofline alone"; ///< of the data set
    std::string command;                                     ///< that made the weights
    std::string trained_on; ///< hash of the data set and the options of the training

    std::vector<std::string> features; ///< columns by name, in the networks' order
    std::vector<int> columns;          ///< their places in feature_names()
    Scaling scaling;
    std::vector<Network> members; ///< none: the roofline alone
    std::vector<Trees> trees; ///< beside each member, of the same samples: log(ms / estimate) of pool_rows
    /// What a member says is (1 − mix) of its network and mix of its trees.
    double mix = 0;

    /// log ms = log estimate + offset + slope · (the members' mean log ms − log estimate)
    double offset = 0, slope = 1;
    Eigen::VectorXf embedding_scale; ///< 1 / deviation of each column of the embedding
    Correlation correlation;

    Residual residual; ///< what was learned since
    std::string problem, device;
};

/// What the networks say of candidates, before anything learned since.
struct Opinion {
    Eigen::VectorXd log_ms;    ///< calibrated
    Eigen::VectorXd variance;  ///< of the members' log ms
    Eigen::MatrixXf embedding; ///< a row a candidate
};
Opinion opinion(const ModelData &data, std::span<const Features *const> candidates);

/// The members' own log ms, a column a member, and the embedding before scaling.
struct Votes {
    Eigen::MatrixXf networks, trees;
    Eigen::MatrixXf embedding;
    Eigen::MatrixXf mixed(double mix) const;
};
/// `pooled`: of the inputs before scaling.
Votes vote(const ModelData &data, const Inputs &scaled, const Eigen::MatrixXf &pooled);

/// v of Residual.h.
double variance_between(const Correlation &correlation, double ensemble_variance);

} // namespace kiln::search
