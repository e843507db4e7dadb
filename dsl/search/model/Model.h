/** \file
 * How long will a candidate take, and how sure is that? The analytic roofline of each kernel or loop nest
 * (features/Roofline.h) times a learned correction:
 *
 *     ms = sum over rows of estimate_ms · exp(correction(row))
 *
 * The correction is the mean of several small networks (Network.h) that were trained on different parts of one data
 * set (Train.h), so that their disagreement says where the model does not know. What was measured of the problem at
 * hand corrects both further (Residual.h), without training. See docs/cost_model.md.
 */
#pragma once

#include "dsl/search/features/Features.h"

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace kiln::search {

/// A candidate that was measured.
struct Sample {
    Features features;
    double ms = 0;
    /// What was computed: algorithm, shapes and types. Only samples of one problem and device compare with each other.
    std::string problem;
    std::string device; ///< Device::key(), or any name of the hardware
    /// The kind of algorithm ("gemm", "random/17"): what is held out together. Empty: the problem.
    std::string operation;
};

struct Prediction {
    double ms = 0;
    /// Standard deviation of log(ms), calibrated: the time is within exp(±1.645 · sigma) of ms in 90 % of the cases.
    double sigma = 0;
    /// The part of it that differs between candidates of one problem (an unknown common factor moves all of them
    /// alike): what a search should explore by.
    double spread = 0;
};

struct ModelData; ///< networks, scaling, calibration, and what was learned of the problem at hand

/// A value: copies share nothing that changes. Reading from several threads is safe, learning is not.
class Model {
public:
    /// The weights that come with Kiln.
    static Model shipped();
    /// The roofline alone, with a sigma that says how rough it is: for comparison, and where features changed.
    static Model analytic();
    /// Throws Error: K1350 no such file or not a file of weights, K1351 made for other features or another version.
    static Model load(const std::filesystem::path &path);
    void save(const std::filesystem::path &path) const;

    explicit Model(ModelData data);
    Model(const Model &);
    Model(Model &&) noexcept;
    Model &operator=(Model other) noexcept;
    ~Model();

    Prediction predict(const Features &features) const;
    /// As quick as it gets: one matrix product a layer for all of them.
    std::vector<Prediction> predict(std::span<const Features> candidates) const;

    /// Takes in what was measured: predictions for the problem and device of the last sample follow, near the measured
    /// candidates most. Cheap (no training): 300 trials take some milliseconds. Samples of other problems on this
    /// device count for the device. Call it with each batch; what was taken in earlier stays.
    void learn(std::span<const Sample> samples);
    /// Predictions are for this problem and device from now on; without it, for those of the last sample learned.
    void focus(const std::string &problem, const std::string &device);
    size_t learned() const; ///< samples taken in by learn()

    /// What the weights were trained on, in words, and the command that made them.
    const std::string &data_description() const;
    const std::string &command() const;
    /// Changes when the weights do: a part of the key of whatever depends on predictions.
    std::string fingerprint() const;

    const ModelData &data() const { return *data_; }

private:
    std::unique_ptr<ModelData> data_;
};

} // namespace kiln::search
