#include "dsl/search/model/Trees.h"
#include "dsl/search/model/Random.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace kiln::search {

namespace {

/// Columns as small integers: bin b holds values above edges[b - 1], up to edges[b].
struct Binned {
    std::vector<std::vector<float>> edges;  ///< of each column; a column that never varies has none
    std::vector<std::vector<uint8_t>> bins; ///< of each column
};

Binned bin_columns(const Eigen::MatrixXf &x, int most) {
    Binned out;
    for (Eigen::Index c = 0; c < x.cols(); c++) {
        std::vector<float> values(x.col(c).begin(), x.col(c).end());
        std::sort(values.begin(), values.end());
        std::vector<float> edges;
        for (int b = 1; b < most; b++) {
            float v = values[(values.size() - 1) * static_cast<size_t>(b) / static_cast<size_t>(most)];
            if (v < values.back() && (edges.empty() || v > edges.back())) {
                edges.push_back(v);
            }
        }
        std::vector<uint8_t> bins;
        for (float v : x.col(c)) {
            bins.push_back(
                static_cast<uint8_t>(std::lower_bound(edges.begin(), edges.end(), v) - edges.begin()));
        }
        out.edges.push_back(std::move(edges));
        out.bins.push_back(std::move(bins));
    }
    return out;
}

struct Sum {
    double pull = 0, weight = 0;
    void add(double p, double w) {
        pull += p;
        weight += w;
    }
};

struct Split {
    double gain = 1e-6;
    int column = -1;
    size_t bin = 0;
};

class Grower {
public:
    Grower(const Binned &binned, const TreeOptions &options, Trees &trees)
        : binned_(binned), options_(options), trees_(trees) {}

    /// One tree on `rows`: pull = weight · (y − value so far).
    void grow(std::vector<int> rows, const std::vector<int> &columns, const std::vector<double> &pull,
              const std::vector<double> &weight) {
        columns_ = &columns;
        pull_ = &pull;
        weight_ = &weight;
        trees_.roots.push_back(static_cast<int>(trees_.nodes.size()));
        trees_.nodes.emplace_back();
        divide(trees_.roots.back(), rows.begin(), rows.end(), options_.depth);
    }

private:
    using Rows = std::vector<int>::iterator;
    const Binned &binned_;
    const TreeOptions &options_;
    Trees &trees_;
    const std::vector<int> *columns_ = nullptr;
    const std::vector<double> *pull_ = nullptr, *weight_ = nullptr;
    std::vector<Sum> histogram_;

    double score(const Sum &s) const { return s.pull * s.pull / (s.weight + options_.shrink); }

    Split best_split(Rows begin, Rows end, const Sum &all) {
        Split best;
        for (int c : *columns_) {
            const std::vector<uint8_t> &bins = binned_.bins[c];
            size_t count = binned_.edges[c].size();
            if (count == 0) {
                continue;
            }
            histogram_.assign(count + 1, {});
            for (Rows r = begin; r != end; ++r) {
                histogram_[bins[*r]].add((*pull_)[*r], (*weight_)[*r]);
            }
            Sum left;
            for (size_t b = 0; b < count; b++) {
                left.add(histogram_[b].pull, histogram_[b].weight);
                Sum right{all.pull - left.pull, all.weight - left.weight};
                if (left.weight < options_.least_weight || right.weight < options_.least_weight) {
                    continue;
                }
                double gain = score(left) + score(right) - score(all);
                if (gain > best.gain) {
                    best = {gain, c, b};
                }
            }
        }
        return best;
    }

    void divide(int node, Rows begin, Rows end, int depth) {
        Sum all;
        for (Rows r = begin; r != end; ++r) {
            all.add((*pull_)[*r], (*weight_)[*r]);
        }
        Split split = depth > 0 ? best_split(begin, end, all) : Split();
        if (split.column < 0) {
            trees_.nodes[node] = {
                -1, static_cast<float>(options_.rate * all.pull / (all.weight + options_.shrink)), -1};
            return;
        }
        const std::vector<uint8_t> &bins = binned_.bins[split.column];
        Rows middle = std::stable_partition(begin, end, [&](int r) { return bins[r] <= split.bin; });
        auto left = static_cast<int>(trees_.nodes.size());
        trees_.nodes[node] = {split.column, binned_.edges[split.column][split.bin], left};
        trees_.nodes.resize(trees_.nodes.size() + 2);
        divide(left, begin, middle, depth - 1);
        divide(left + 1, middle, end, depth - 1);
    }
};

float value_of(const Trees &trees, int root, const Eigen::MatrixXf &x, Eigen::Index row) {
    const Trees::Node *n = &trees.nodes[root];
    while (n->column >= 0) {
        n = &trees.nodes[n->left + (x(row, n->column) <= n->threshold ? 0 : 1)];
    }
    return n->threshold;
}

/// `share` of 0 … n - 1, in order; at least one.
std::vector<int> draw(int n, float share, uint64_t &state) {
    std::vector<int> out;
    for (int i = 0; i < n; i++) {
        if (next_uniform(state) < share) {
            out.push_back(i);
        }
    }
    if (out.empty()) {
        out.push_back(static_cast<int>(next_random(state) % static_cast<uint64_t>(n)));
    }
    return out;
}

} // namespace

Trees Trees::fit(const Eigen::MatrixXf &x, const Eigen::VectorXf &y, const Eigen::VectorXf &weight,
                 const TreeOptions &options, uint64_t seed) {
    Trees trees;
    auto n = static_cast<int>(x.rows());
    double mean_weight = weight.mean();
    trees.base = static_cast<float>(y.dot(weight) / weight.sum());
    Eigen::VectorXf value = Eigen::VectorXf::Constant(n, trees.base);
    Binned binned = bin_columns(x, options.bins);
    Grower grower(binned, options, trees);
    std::vector<double> pull(n), weights(n);
    for (int i = 0; i < n; i++) {
        weights[i] = weight[i] / mean_weight;
    }
    for (int round = 0; round < options.rounds; round++) {
        for (int i = 0; i < n; i++) {
            pull[i] = weights[i] * std::clamp(y[i] - value[i], -clip, clip);
        }
        std::vector<int> rows = draw(n, options.samples, seed);
        std::vector<int> columns = draw(static_cast<int>(x.cols()), options.columns, seed);
        grower.grow(std::move(rows), columns, pull, weights);
        for (int i = 0; i < n; i++) {
            value[i] += value_of(trees, trees.roots.back(), x, i);
        }
    }
    return trees;
}

nlohmann::ordered_json to_json(const Trees &trees) {
    nlohmann::ordered_json j;
    auto rounded = [](float v) { return std::stod(fmt::format("{:.6g}", v)); };
    j["base"] = rounded(trees.base);
    j["roots"] = trees.roots;
    for (const char *list : {"columns", "thresholds", "left"}) {
        j[list] = nlohmann::ordered_json::array();
    }
    for (const Trees::Node &n : trees.nodes) {
        j["columns"].push_back(n.column);
        j["thresholds"].push_back(rounded(n.threshold));
        j["left"].push_back(n.left);
    }
    return j;
}

Trees trees_from_json(const nlohmann::json &json, int columns) {
    Trees trees;
    trees.base = json.at("base").get<float>();
    trees.roots = json.at("roots").get<std::vector<int>>();
    auto column = json.at("columns").get<std::vector<int>>(), left = json.at("left").get<std::vector<int>>();
    auto threshold = json.at("thresholds").get<std::vector<float>>();
    auto count = static_cast<int>(column.size());
    bool whole = left.size() == column.size() && threshold.size() == column.size();
    for (int i = 0; whole && i < count; i++) {
        // Children come after their parent: so no walk is endless.
        whole = column[i] < columns && (column[i] < 0 || (left[i] > i && left[i] + 1 < count));
        trees.nodes.push_back({column[i], threshold[i], left[i]});
    }
    for (int root : trees.roots) {
        whole = whole && root >= 0 && root < count;
    }
    if (!whole) {
        throw std::runtime_error(
            fmt::format("a tree leads out of its {} nodes or {} columns", count, columns));
    }
    return trees;
}

Eigen::VectorXf Trees::predict(const Eigen::MatrixXf &x) const {
    Eigen::VectorXf out = Eigen::VectorXf::Constant(x.rows(), base);
    for (Eigen::Index i = 0; i < x.rows(); i++) {
        for (int root : roots) {
            out[i] += value_of(*this, root, x, i);
        }
    }
    return out;
}

} // namespace kiln::search
