/** \file
 * From predictions of samples that the networks had not seen: the scale of time, and how far to trust it.
 */
#pragma once

#include "dsl/search/model/ModelData.h"

#include <optional>
#include <string>
#include <vector>

namespace kiln::search {

/// A sample with what was predicted for it by members that had not seen its operation.
struct HeldOut {
    std::string problem, device;
    double log_estimate = 0;
    std::vector<double> networks, trees; ///< log ms, by each member that had not seen it
    double log_ms = 0, variance = 0;     ///< of the members' mixed votes, mean and variance: set by calibrate
    double measured = 0;                 ///< log ms
    Eigen::VectorXf embedding;           ///< by the whole ensemble, scaled
};

/// Sets mix, unless it is given: the share of the trees that orders most pairs of a problem, which differ by 10 % or more,
/// right, counting all problems alike. Sets offset and slope (least squares, each problem counting as the root of its samples) and correlation:
/// common factors by the scatter of the problems' and devices' means, the variance between candidates by regression of the
/// squared rest on the ensemble's variance, `together` and `length` by the likelihood of the rest on a grid, and the
/// scale so that 90 % of the intervals exp(±1.645 sigma) hold over all problems alike.
void calibrate(ModelData &data, std::vector<HeldOut> &samples, std::optional<double> mix);

} // namespace kiln::search
