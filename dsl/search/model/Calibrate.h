/** \file
 * From predictions of samples that the networks had not seen: the scale of time, and how far to trust it.
 */
#pragma once

#include "dsl/search/model/ModelData.h"

#include <string>
#include <vector>

namespace kiln::search {

/// A sample with what was predicted for it by members that had not seen its operation.
struct HeldOut {
    std::string problem, device;
    double log_estimate = 0, log_ms = 0; ///< the roofline's, and the members' mean
    double variance = 0;                 ///< of the members'
    double measured = 0;                 ///< log ms
    Eigen::VectorXf embedding;           ///< by the whole ensemble, scaled
};

/// Sets offset and slope (least squares, each problem counting as the root of its samples) and correlation:
/// common factors by the scatter of the problems' and devices' means, the variance between candidates by regression of the
/// squared rest on the ensemble's variance, `together` and `length` by the likelihood of the rest on a grid, and the
/// scale so that 90 % of the intervals exp(±1.645 sigma) hold over all problems alike.
void calibrate(ModelData &data, const std::vector<HeldOut> &samples);

} // namespace kiln::search
