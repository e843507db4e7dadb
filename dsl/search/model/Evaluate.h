/** \file
 * Cross-validation: what the model is worth on operations, shapes or devices that it was not trained on.
 */
#pragma once

#include "dsl/search/model/Metrics.h"
#include "dsl/search/model/Train.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace kiln::search {

/// What is held out together.
enum class HoldOut {
    Operation, ///< all sizes of an operation
    Shape,     ///< one problem; the same operation at other sizes is trained on
    Device     ///< all that was measured on a device; the same problems on others are trained on
};

/// Throws Error K1358 for another name than operation, shape, device.
HoldOut hold_out_of(const std::string &name);
const char *hold_out_name(HoldOut mode);

/// The part that each sample is held out with, 0 … parts - 1. Devices give a part each, whatever `parts` says.
std::vector<int> parts_of(std::span<const Sample> samples, HoldOut mode, int parts, uint64_t seed);

struct Evaluation {
    HoldOut mode = HoldOut::Operation;
    int parts = 0;
    std::vector<int> part_of;                      ///< of each sample
    std::vector<Prediction> predictions, roofline; ///< of each sample, by what had not seen its part
    Metrics model, analytic, chance;
    /// The model with its trials: 16 candidates of each problem in batches of 4, each batch taken by
    /// log(ms) − spread after learning from those before. As Metrics::top16 and top16_within_3_percent.
    double searched16 = 0, searched16_within_3_percent = 0;
    /// After the first 8 of them: pairwise accuracy over the others of the problem.
    double pairwise_after_8 = 0;
};

/// Trains once for each part. Throws Error K1359 where nothing can be held out (one device, one operation).
Evaluation evaluate(std::span<const Sample> samples, HoldOut mode, int parts, const TrainOptions &options);

nlohmann::ordered_json to_json(const Evaluation &evaluation);

} // namespace kiln::search
