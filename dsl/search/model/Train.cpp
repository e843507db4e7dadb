#include "dsl/search/model/Train.h"
#include "dsl/search/model/Calibrate.h"
#include "dsl/search/model/Loss.h"
#include "dsl/search/model/Weights.h"
#include "dsl/support/Diagnostic.h"
#include "dsl/support/Files.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <fstream>
#include <map>
#include <mutex>
#include <numbers>
#include <set>
#include <thread>

namespace kiln::search {

namespace {

constexpr int folds = 3;

struct DataSet {
    std::vector<size_t> kept;             ///< samples in use, by their place in what was given
    Inputs inputs;                        ///< scaled
    Eigen::MatrixXf pooled;               ///< for trees
    Eigen::VectorXf estimate;             ///< log ms
    Eigen::VectorXf measured;             ///< log ms
    std::vector<std::vector<int>> groups; ///< of one problem and device
    std::vector<int> unit;                ///< of each sample: what is held out together
    int units = 0;
};

template<typename T>
void shuffle(std::vector<T> &v, uint64_t &state) {
    for (size_t i = v.size(); i > 1; i--) {
        std::swap(v[i - 1], v[next_random(state) % i]);
    }
}

/// Sample indices by problem and device, none with more than `most`.
std::vector<std::vector<size_t>> grouped(std::span<const Sample> samples, int most) {
    std::map<std::pair<std::string, std::string>, std::vector<size_t>> by_key;
    for (size_t i = 0; i < samples.size(); i++) {
        by_key[{samples[i].device, samples[i].problem}].push_back(i);
    }
    std::vector<std::vector<size_t>> out;
    for (auto &[key, members] : by_key) {
        auto wanted = static_cast<size_t>(most);
        if (members.size() > wanted) {
            std::stable_sort(members.begin(), members.end(),
                             [&](size_t a, size_t b) { return samples[a].ms < samples[b].ms; });
            std::vector<size_t> fewer;
            for (size_t i = 0; i < wanted; i++) {
                fewer.push_back(members[i * members.size() / wanted]);
            }
            members = std::move(fewer);
        }
        out.push_back(members);
    }
    return out;
}

/// What is held out together: operations where there are enough of them, otherwise problems.
std::vector<std::string> held_out_units(std::span<const Sample> samples) {
    std::vector<std::string> names;
    for (const Sample &s : samples) {
        names.push_back(s.operation.empty() ? s.problem : s.operation);
    }
    if (std::set<std::string>(names.begin(), names.end()).size() < folds) {
        for (size_t i = 0; i < samples.size(); i++) {
            names[i] = samples[i].problem;
        }
    }
    return names;
}

DataSet prepare(std::span<const Sample> samples, const TrainOptions &options, ModelData &data) {
    DataSet set;
    std::vector<std::string> names = held_out_units(samples);
    std::map<std::string, int> units;
    std::vector<const Features *> features;
    std::vector<float> measured;
    for (const std::vector<size_t> &group : grouped(samples, options.most_of_problem)) {
        set.groups.emplace_back();
        for (size_t i : group) {
            set.groups.back().push_back(static_cast<int>(set.kept.size()));
            set.kept.push_back(i);
            features.push_back(&samples[i].features);
            measured.push_back(static_cast<float>(std::log(samples[i].ms)));
            set.unit.push_back(units.emplace(names[i], static_cast<int>(units.size())).first->second);
        }
    }
    set.units = static_cast<int>(units.size());
    set.measured = Eigen::Map<Eigen::VectorXf>(measured.data(), static_cast<Eigen::Index>(measured.size()));
    data.features = feature_names();
    for (size_t c = 0; c < data.features.size(); c++) {
        data.columns.push_back(static_cast<int>(c));
    }
    set.inputs = inputs_of(features, data.columns);
    data.scaling = scaling_of(set.inputs);
    set.pooled = pool_rows(set.inputs);
    set.estimate = sum_rows(set.inputs, Eigen::VectorXf::Zero(set.inputs.log_estimate.size())).log_ms;
    apply(data.scaling, set.inputs);
    return set;
}

/// Which fold each unit is in, in the round that a member belongs to.
std::vector<int> fold_of_units(int units, int member, uint64_t seed) {
    std::vector<int> order(units), fold(units);
    for (int i = 0; i < units; i++) {
        order[i] = i;
    }
    uint64_t state = seed * 1000003 + static_cast<uint64_t>(member / folds);
    shuffle(order, state);
    for (int i = 0; i < units; i++) {
        fold[order[i]] = i % folds;
    }
    return fold;
}

/// Samples of one problem that a step looks at together.
std::vector<std::vector<int>> pieces(const DataSet &set, const std::vector<char> &seen, uint64_t &state) {
    constexpr size_t piece = 48;
    std::vector<std::vector<int>> out;
    for (const std::vector<int> &group : set.groups) {
        std::vector<int> mine;
        for (int i : group) {
            if (seen[i]) {
                mine.push_back(i);
            }
        }
        if (mine.size() < 2) {
            continue;
        }
        shuffle(mine, state);
        size_t parts = (mine.size() + piece - 1) / piece;
        for (size_t p = 0; p < parts; p++) {
            out.emplace_back(mine.begin() + static_cast<long>(p * mine.size() / parts),
                             mine.begin() + static_cast<long>((p + 1) * mine.size() / parts));
        }
    }
    shuffle(out, state);
    return out;
}

/// One step on a few pieces: returns the loss.
float step(Network &network, Adam &adam, const DataSet &set, std::span<const std::vector<int>> batch,
           const TrainOptions &options, float rate) {
    std::vector<int> all;
    for (const std::vector<int> &piece : batch) {
        all.insert(all.end(), piece.begin(), piece.end());
    }
    Inputs inputs = select(set.inputs, all);
    Network::Trace trace;
    network.forward(inputs.x, trace);
    Sums sums = sum_rows(inputs, trace.out);
    Eigen::VectorXf d_out = Eigen::VectorXf::Zero(inputs.x.rows());
    float loss = 0;
    int at = 0;
    for (const std::vector<int> &piece : batch) {
        auto n = static_cast<int>(piece.size());
        Eigen::VectorXf s = sums.log_ms.segment(at, n), y(n), gradient;
        for (int i = 0; i < n; i++) {
            y[i] = set.measured[piece[i]];
        }
        loss +=
            loss_of_problem(s, y, {options.rank_weight, options.shape_weight, options.time_weight}, gradient);
        for (int i = 0; i < n; i++) {
            for (int r = inputs.begin[at + i]; r < inputs.begin[at + i + 1]; r++) {
                d_out[r] = gradient[i] * sums.share[r] / static_cast<float>(batch.size());
            }
        }
        at += n;
    }
    adam.step(network.parameters, network.backward(trace, d_out), rate, options.decay);
    return loss / static_cast<float>(batch.size());
}

std::vector<char> seen_by(const DataSet &set, const TrainOptions &options, int member) {
    std::vector<int> fold = fold_of_units(set.units, member, options.seed);
    std::vector<char> seen(set.kept.size());
    for (size_t i = 0; i < seen.size(); i++) {
        seen[i] = fold[set.unit[i]] != member % folds;
    }
    return seen;
}

Trees grow_trees(const DataSet &set, const TrainOptions &options, int member) {
    std::vector<char> seen = seen_by(set, options, member);
    std::vector<Eigen::Index> rows;
    std::vector<float> weights;
    for (const std::vector<int> &group : set.groups) {
        for (int i : group) {
            if (seen[i]) {
                rows.push_back(i);
                // A problem counts as the root of its samples.
                weights.push_back(1 / std::sqrt(static_cast<float>(group.size())));
            }
        }
    }
    Eigen::VectorXf target = set.measured - set.estimate;
    return Trees::fit(set.pooled(rows, Eigen::all), target(rows),
                      Eigen::Map<Eigen::VectorXf>(weights.data(), static_cast<Eigen::Index>(weights.size())),
                      options.trees, options.seed * 104729 + static_cast<uint64_t>(member));
}

Network train_network(const DataSet &set, const TrainOptions &options, int member) {
    constexpr size_t batch = 4;
    std::vector<char> seen = seen_by(set, options, member);
    uint64_t state = options.seed * 7919 + static_cast<uint64_t>(member);
    Network network(static_cast<int>(set.inputs.x.cols()), options.first, options.second, next_random(state));
    Adam adam(network.parameters.size());
    for (int epoch = 0; epoch < options.epochs; epoch++) {
        std::vector<std::vector<int>> all = pieces(set, seen, state);
        double half_turn = std::numbers::pi * epoch / options.epochs;
        auto rate = static_cast<float>(options.rate * (0.02 + 0.49 * (1 + std::cos(half_turn))));
        for (size_t i = 0; i < all.size(); i += batch) {
            step(network, adam, set, std::span(all).subspan(i, std::min(batch, all.size() - i)), options,
                 rate);
        }
    }
    return network;
}

/// Finished members on disk.
class Checkpoint {
public:
    Checkpoint(std::filesystem::path path, std::string key) : path_(std::move(path)), key_(std::move(key)) {
        std::ifstream in(path_);
        nlohmann::json file = path_.empty() ? nlohmann::json() : nlohmann::json::parse(in, nullptr, false);
        if (file.is_object() && file.value("trained_on", "") == key_) {
            for (const auto &[member, content] : file.at("members").items()) {
                done_[std::stoi(member)] = content;
            }
        }
    }

    bool take(int member, int pooled, Network &network, Trees &trees) const {
        auto it = done_.find(member);
        if (it == done_.end()) {
            return false;
        }
        auto parameters = it->second.at("parameters").get<std::vector<float>>();
        if (static_cast<Eigen::Index>(parameters.size()) != network.parameters.size()) {
            return false;
        }
        network.parameters = Eigen::Map<const Eigen::VectorXf>(parameters.data(),
                                                               static_cast<Eigen::Index>(parameters.size()));
        trees = trees_from_json(it->second.at("trees"), pooled);
        return true;
    }

    void keep(int member, const Network &network, const Trees &trees) {
        if (path_.empty()) {
            return;
        }
        std::vector<float> parameters(network.parameters.begin(), network.parameters.end());
        done_[member] = {{"parameters", parameters}, {"trees", to_json(trees)}};
        nlohmann::json file = {{"trained_on", key_}, {"members", nlohmann::json::object()}};
        for (const auto &[m, content] : done_) {
            file["members"][std::to_string(m)] = content;
        }
        write_file_atomic(path_, file.dump());
    }

    void remove() const {
        if (!path_.empty()) {
            std::error_code none;
            std::filesystem::remove(path_, none);
        }
    }

private:
    std::filesystem::path path_;
    std::string key_;
    std::map<int, nlohmann::json> done_;
};

void train_members(ModelData &data, const DataSet &set, const TrainOptions &options) {
    data.members.assign(options.members, Network::shaped(static_cast<int>(set.inputs.x.cols()), options.first,
                                                         options.second));
    data.trees.resize(options.members);
    Checkpoint checkpoint(options.checkpoint, data.trained_on);
    std::vector<int> left;
    for (int m = 0; m < options.members; m++) {
        if (!checkpoint.take(m, static_cast<int>(set.pooled.cols()), data.members[m], data.trees[m])) {
            left.push_back(m);
        }
    }
    std::mutex mutex;
    std::atomic<size_t> next = 0;
    size_t done = options.members - left.size();
    auto report = [&](const std::string &what) {
        if (options.progress) {
            options.progress(done, options.members, what);
        }
    };
    report(done ? fmt::format("{} members taken from {}", done, options.checkpoint.string()) : "starting");
    std::exception_ptr failure;
    auto work = [&] {
        try {
            for (size_t i = next++; i < left.size(); i = next++) {
                Network trained = train_network(set, options, left[i]);
                Trees trees = grow_trees(set, options, left[i]);
                round_member(trained, trees);
                std::lock_guard lock(mutex);
                checkpoint.keep(left[i], trained, trees);
                data.members[left[i]] = std::move(trained);
                data.trees[left[i]] = std::move(trees);
                done++;
                report(fmt::format("member {} of {}", left[i] + 1, options.members));
            }
        } catch (...) {
            std::lock_guard lock(mutex);
            failure = std::current_exception();
        }
    };
    size_t threads =
        options.threads > 0 ? options.threads : std::max(1u, std::thread::hardware_concurrency());
    std::vector<std::thread> workers;
    for (size_t t = 1; t < std::min(threads, left.size()); t++) {
        workers.emplace_back(work);
    }
    work();
    for (std::thread &t : workers) {
        t.join();
    }
    if (failure) {
        std::rethrow_exception(failure);
    }
    checkpoint.remove();
}

/// What the members that had not seen them say of the samples.
std::vector<HeldOut> held_out(ModelData &data, const DataSet &set, std::span<const Sample> samples,
                              const TrainOptions &options) {
    Votes votes = vote(data, set.inputs, set.pooled);
    Eigen::RowVectorXf mean = votes.embedding.colwise().mean();
    Eigen::VectorXf variance =
        (votes.embedding.rowwise() - mean).array().square().colwise().mean().transpose();
    float columns = static_cast<float>(votes.embedding.cols());
    data.embedding_scale =
        variance.unaryExpr([&](float v) { return v > 1e-8f ? 1 / std::sqrt(v * columns) : 0.f; });
    std::vector<std::vector<int>> fold;
    for (int m = 0; m < options.members; m++) {
        fold.push_back(fold_of_units(set.units, m, options.seed));
    }
    std::vector<HeldOut> out;
    for (size_t i = 0; i < set.kept.size(); i++) {
        const Sample &sample = samples[set.kept[i]];
        auto row = static_cast<Eigen::Index>(i);
        HeldOut h;
        for (int m = 0; m < options.members; m++) {
            if (fold[m][set.unit[i]] == m % folds) {
                h.networks.push_back(votes.networks(row, m));
                h.trees.push_back(votes.trees(row, m));
            }
        }
        h.problem = sample.problem;
        h.device = sample.device;
        h.log_estimate = set.estimate[row];
        h.measured = set.measured[row];
        h.embedding = votes.embedding.row(row).transpose().cwiseProduct(data.embedding_scale);
        out.push_back(std::move(h));
    }
    return out;
}

std::string hash_of(std::span<const Sample> samples, const TrainOptions &o) {
    std::string text = fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {} {}", o.members, o.first, o.second,
                                   o.epochs, o.rate, o.decay, o.rank_weight, o.shape_weight, o.time_weight,
                                   o.most_of_problem, o.seed, o.trees.rounds, o.trees.depth, o.trees.rate);
    for (const Sample &s : samples) {
        text += fmt::format("{}\n{}\n{}\n{}\n", s.problem, s.device, s.operation, s.ms);
        for (const FeatureRow &row : s.features.rows) {
            text.append(reinterpret_cast<const char *>(row.values.data()), row.values.size() * sizeof(float));
            text.append(reinterpret_cast<const char *>(&row.estimate_ms), sizeof(double));
        }
    }
    return hash_text(text);
}

void require_enough(std::span<const Sample> samples) {
    std::set<std::string> problems;
    for (const Sample &s : samples) {
        problems.insert(s.problem);
    }
    if (samples.size() >= least_samples && problems.size() >= folds) {
        return;
    }
    Diagnostic d;
    d.code = "K1353";
    d.message = "too few samples to train a cost model";
    d.notes = {fmt::format("{} samples of {} problems; at least {} of {} are needed", samples.size(),
                           problems.size(), least_samples, folds)};
    d.helps = {"collect more: `kiln model collect --output DATA`"};
    throw Error(std::move(d));
}

} // namespace

Trained train(std::span<const Sample> samples, const TrainOptions &given) {
    require_enough(samples);
    TrainOptions options = given;
    options.members = std::max(1, (options.members + folds - 1) / folds) * folds;
    ModelData data;
    data.description = options.description;
    data.command = options.command;
    data.trained_on = hash_of(samples, options);
    DataSet set = prepare(samples, options, data);
    train_members(data, set, options);
    std::vector<HeldOut> unseen = held_out(data, set, samples, options);
    calibrate(data, unseen, options.mix);
    round_weights(data);
    const Correlation &c = data.correlation;
    std::vector<Prediction> predictions(samples.size());
    for (size_t i = 0; i < unseen.size(); i++) {
        const HeldOut &h = unseen[i];
        Prediction &p = predictions[set.kept[i]];
        double between = variance_between(c, h.variance);
        p.ms = std::exp(h.log_estimate + data.offset + data.slope * (h.log_ms - h.log_estimate));
        p.sigma = c.scale * std::sqrt(c.device + c.problem + between + c.noise);
        p.spread = c.scale * std::sqrt(between + c.noise);
    }
    return {Model(std::move(data)), std::move(predictions)};
}

} // namespace kiln::search
