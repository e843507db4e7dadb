/** \file
 * Weights from samples. The members of the ensemble are trained one for one on two thirds of the operations each, so that
 * every operation was seen by none of a third of them: what those say of it is what the model would say of an operation
 * that is new, and by that the time scale, the sigma and the covariance of errors are calibrated.
 */
#pragma once

#include "dsl/search/model/Model.h"
#include "dsl/search/model/Trees.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace kiln::search {

struct TrainOptions {
    int members = 9; ///< a multiple of 3
    int first = 48, second = 16;
    int epochs = 120; ///< times that a member sees each of its samples
    float rate = 4e-3f;
    float decay = 2e-2f;
    /// Weights of the parts of the loss: see Loss.h.
    float rank_weight = 1, shape_weight = 0.5f, time_weight = 0.1f;
    TreeOptions trees;
    /// Share of the trees in what a member says; nothing: the share of 0, ¼, ½, ¾, 1 that orders held-out samples best.
    std::optional<double> mix;
    /// Samples above this many of a problem on a device are left out, evenly over the order of their times.
    int most_of_problem = 400;
    uint64_t seed = 1;
    int threads =
        0; ///< members trained at once; 0: as many as there are cores. Changes nothing in the result
    /// Finished members are kept here, and taken from here by a training of the same samples and options. Removed at
    /// the end.
    std::filesystem::path checkpoint;
    /// Called with members done, members in all, and what was done last. From one thread at a time.
    std::function<void(size_t, size_t, const std::string &)> progress;
    std::string description; ///< of the samples, stored with the weights
    std::string command;
};

struct Trained {
    Model model;
    /// Of each sample, by the members that had not seen its operation.
    std::vector<Prediction> held_out;
};

/// Throws Error K1353 where there are fewer than `least_samples` samples or they are of fewer than 3 problems.
Trained train(std::span<const Sample> samples, const TrainOptions &options);
constexpr size_t least_samples = 30;

} // namespace kiln::search
