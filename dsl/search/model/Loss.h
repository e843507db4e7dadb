/** \file
 * What a member is trained to make small: mostly the order of candidates of one problem, a little their times.
 */
#pragma once

#include <Eigen/Core>

namespace kiln::search {

struct LossWeights {
    float rank = 1, shape = 0.5f, time = 0.1f;
};

/// For candidates of one problem on one device, s = predicted log ms, y = measured:
///   rank:  mean over pairs with y_i < y_j of w_ij · log(1 + exp(−sharpness (s_j − s_i))) (Burges et al. 2005), with
///          w_ij = min(1, (y_j − y_i) / log 2) · (0.1 + sqrt(best ms / ms_i)): pairs that differ much, and fast ones
///   shape: mean of ((s − mean s) − (y − mean y))², each taken linearly beyond 1 (Huber)
///   time:  mean of (s − y)², the same
/// Returns the loss and writes d loss / d s.
float loss_of_problem(const Eigen::VectorXf &s, const Eigen::VectorXf &y, const LossWeights &weights,
                      Eigen::VectorXf &gradient);

} // namespace kiln::search
