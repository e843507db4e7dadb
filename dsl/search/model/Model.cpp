#include "dsl/search/model/Model.h"
#include "dsl/search/model/ModelData.h"
#include "dsl/search/model/Weights.h"

#include <cmath>

namespace kiln::search {

namespace {

std::vector<const Features *> pointers(std::span<const Features> candidates) {
    std::vector<const Features *> out;
    for (const Features &f : candidates) {
        out.push_back(&f);
    }
    return out;
}

ResidualPoint point_of(const ModelData &data, const Opinion &opinion, Eigen::Index i) {
    ResidualPoint p;
    p.problem = data.problem;
    p.device = data.device;
    p.embedding = opinion.embedding.row(i).transpose();
    p.variance = variance_between(data.correlation, opinion.variance[i]);
    return p;
}

} // namespace

double variance_between(const Correlation &c, double ensemble_variance) {
    return c.between + c.per_variance * ensemble_variance;
}

Eigen::MatrixXf Votes::mixed(double mix) const {
    return static_cast<float>(1 - mix) * networks + static_cast<float>(mix) * trees;
}

Votes vote(const ModelData &data, const Inputs &inputs, const Eigen::MatrixXf &pooled) {
    const std::vector<Network> &members = data.members;
    Votes votes;
    int n = inputs.candidates();
    Eigen::Index width = 0;
    for (const Network &m : members) {
        width += m.second();
    }
    votes.networks.resize(n, static_cast<Eigen::Index>(members.size()));
    votes.trees.resize(n, static_cast<Eigen::Index>(members.size()));
    // The sum of the estimates: the last but two of the pooled columns.
    Eigen::VectorXf estimate = pooled.col(pooled.cols() - 3);
    votes.embedding = Eigen::MatrixXf::Zero(n, width);
    Eigen::Index at = 0;
    Network::Trace trace;
    for (size_t m = 0; m < members.size(); m++) {
        members[m].forward(inputs.x, trace);
        Sums sums = sum_rows(inputs, trace.out);
        votes.networks.col(static_cast<Eigen::Index>(m)) = sums.log_ms;
        votes.trees.col(static_cast<Eigen::Index>(m)) = estimate + data.trees[m].predict(pooled);
        for (int c = 0; c < n; c++) {
            for (int r = inputs.begin[c]; r < inputs.begin[c + 1]; r++) {
                votes.embedding.row(c).segment(at, trace.a2.cols()) += sums.share[r] * trace.a2.row(r);
            }
        }
        at += members[m].second();
    }
    return votes;
}

Opinion opinion(const ModelData &data, std::span<const Features *const> candidates) {
    Inputs inputs = inputs_of(candidates, data.columns);
    Eigen::VectorXd estimate =
        sum_rows(inputs, Eigen::VectorXf::Zero(inputs.log_estimate.size())).log_ms.cast<double>();
    Opinion o;
    auto n = static_cast<Eigen::Index>(candidates.size());
    if (data.members.empty()) {
        o.log_ms = estimate.array() + data.offset;
        o.variance = Eigen::VectorXd::Zero(n);
        o.embedding.resize(n, 0);
        return o;
    }
    Eigen::MatrixXf pooled = pool_rows(inputs);
    apply(data.scaling, inputs);
    Votes votes = vote(data, inputs, pooled);
    Eigen::MatrixXd logs = votes.mixed(data.mix).cast<double>();
    Eigen::VectorXd mean = logs.rowwise().mean();
    o.log_ms = estimate.array() + data.offset + data.slope * (mean - estimate).array();
    o.variance = (logs.colwise() - mean).rowwise().squaredNorm() / std::max<double>(1, logs.cols() - 1);
    o.embedding = votes.embedding.array().rowwise() * data.embedding_scale.transpose().array();
    return o;
}

Model::Model(ModelData data) : data_(std::make_unique<ModelData>(std::move(data))) {
    data_->residual = Residual(data_->correlation);
}
Model::Model(const Model &other) : data_(std::make_unique<ModelData>(*other.data_)) {}
Model::Model(Model &&) noexcept = default;
Model &Model::operator=(Model other) noexcept {
    data_.swap(other.data_);
    return *this;
}
Model::~Model() = default;

Model Model::analytic() {
    return Model(ModelData{});
}

Model Model::load(const std::filesystem::path &path) {
    return Model(read_weights(path));
}

Model Model::shipped() {
    return Model(parse_weights(shipped_weights(), "weights/shipped.json"));
}

void Model::save(const std::filesystem::path &path) const {
    write_weights(*data_, path);
}

Prediction Model::predict(const Features &features) const {
    return predict(std::span(&features, 1)).front();
}

std::vector<Prediction> Model::predict(std::span<const Features> candidates) const {
    std::vector<Prediction> out(candidates.size());
    if (candidates.empty()) {
        return out;
    }
    Opinion o = opinion(*data_, pointers(candidates));
    for (size_t i = 0; i < candidates.size(); i++) {
        auto at = static_cast<Eigen::Index>(i);
        Residual::Posterior p = data_->residual.at(point_of(*data_, o, at));
        double scale = data_->correlation.scale;
        out[i].ms = std::exp(o.log_ms[at] + p.mean);
        out[i].sigma = scale * std::sqrt(p.variance + data_->correlation.noise);
        out[i].spread = scale * std::sqrt(p.between + data_->correlation.noise);
    }
    return out;
}

void Model::learn(std::span<const Sample> samples) {
    if (samples.empty()) {
        return;
    }
    std::vector<const Features *> features;
    for (const Sample &s : samples) {
        features.push_back(&s.features);
    }
    Opinion o = opinion(*data_, features);
    for (size_t i = 0; i < samples.size(); i++) {
        focus(samples[i].problem, samples[i].device);
        auto at = static_cast<Eigen::Index>(i);
        data_->residual.add(point_of(*data_, o, at), std::log(samples[i].ms) - o.log_ms[at]);
    }
    data_->residual.solve();
}

void Model::focus(const std::string &problem, const std::string &device) {
    data_->problem = problem;
    data_->device = device;
}

size_t Model::learned() const {
    return data_->residual.size();
}

const std::string &Model::data_description() const {
    return data_->description;
}

const std::string &Model::command() const {
    return data_->command;
}

std::string Model::fingerprint() const {
    return hash_text(weights_text(*data_));
}

} // namespace kiln::search
