#include "dsl/search/model/Metrics.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>

namespace kiln::search {

namespace {

constexpr size_t least_of_problem = 8;
constexpr double least_ratio = 1.1;

std::vector<std::vector<size_t>> problems_of(std::span<const Sample> samples) {
    std::map<std::pair<std::string, std::string>, std::vector<size_t>> by_key;
    for (size_t i = 0; i < samples.size(); i++) {
        by_key[{samples[i].device, samples[i].problem}].push_back(i);
    }
    std::vector<std::vector<size_t>> out;
    for (auto &[key, members] : by_key) {
        if (members.size() >= least_of_problem) {
            out.push_back(std::move(members));
        }
    }
    return out;
}

struct Pairs {
    double right = 0;
    size_t all = 0;
};

Pairs count_pairs(const std::vector<size_t> &problem, std::span<const Sample> samples,
                  std::span<const Prediction> predictions) {
    Pairs p;
    for (size_t i : problem) {
        for (size_t j : problem) {
            if (samples[j].ms < samples[i].ms * least_ratio) {
                continue;
            }
            p.all++;
            p.right += predictions[i].ms < predictions[j].ms    ? 1
                       : predictions[i].ms == predictions[j].ms ? 0.5
                                                                : 0;
        }
    }
    return p;
}

} // namespace

Metrics metrics_of(std::span<const Sample> samples, std::span<const Prediction> predictions) {
    Metrics m;
    std::vector<std::vector<size_t>> problems = problems_of(samples);
    double right = 0, problems_with_pairs = 0, top[3] = {}, count = static_cast<double>(problems.size());
    std::vector<double> factors;
    for (std::vector<size_t> &problem : problems) {
        m.samples += problem.size();
        Pairs pairs = count_pairs(problem, samples, predictions);
        m.pairs += pairs.all;
        right += pairs.right;
        if (pairs.all > 0) {
            m.pairwise += pairs.right / static_cast<double>(pairs.all);
            problems_with_pairs++;
        }
        std::stable_sort(problem.begin(), problem.end(),
                         [&](size_t a, size_t b) { return predictions[a].ms < predictions[b].ms; });
        double best = INFINITY, so_far = INFINITY;
        for (size_t i : problem) {
            best = std::min(best, samples[i].ms);
        }
        size_t widths[3] = {1, 5, 16};
        for (size_t k = 0, w = 0; w < 3; w++) {
            for (; k < std::min(widths[w], problem.size()); k++) {
                so_far = std::min(so_far, samples[problem[k]].ms);
            }
            top[w] += std::log(so_far / best) / count;
        }
        m.top16_within_3_percent += (so_far <= 1.03 * best) / count;
        for (size_t i : problem) {
            double error = std::fabs(std::log(samples[i].ms / predictions[i].ms));
            double share = 1 / static_cast<double>(problem.size()) / count;
            m.within_50 += (error <= 0.6745 * predictions[i].sigma) * share;
            m.within_90 += (error <= 1.645 * predictions[i].sigma) * share;
            factors.push_back(error);
        }
    }
    m.problems = problems.size();
    if (m.problems == 0) {
        return m;
    }
    m.pairwise = problems_with_pairs > 0 ? m.pairwise / problems_with_pairs : 0;
    m.pairwise_pooled = m.pairs ? right / static_cast<double>(m.pairs) : 0;
    m.top1 = std::exp(top[0]);
    m.top5 = std::exp(top[1]);
    m.top16 = std::exp(top[2]);
    std::nth_element(factors.begin(), factors.begin() + static_cast<long>(factors.size() / 2), factors.end());
    m.median_factor = std::exp(factors[factors.size() / 2]);
    return m;
}

Metrics metrics_of_chance(std::span<const Sample> samples) {
    Metrics m;
    double top[3] = {};
    for (std::vector<size_t> &problem : problems_of(samples)) {
        m.problems++;
        m.samples += problem.size();
        std::vector<double> ms;
        for (size_t i : problem) {
            ms.push_back(samples[i].ms);
        }
        std::sort(ms.begin(), ms.end());
        auto n = static_cast<double>(ms.size());
        int widths[3] = {1, 5, 16};
        for (int w = 0; w < 3; w++) {
            // P(the best drawn is the i-th) = C(n − i − 1, k − 1) / C(n, k), built up from one i to the next.
            double k = std::min<double>(widths[w], n), p = k / n;
            for (size_t i = 0; i < ms.size() && p > 0; i++) {
                top[w] += p * std::log(ms[i] / ms[0]);
                if (w == 2 && ms[i] <= 1.03 * ms[0]) {
                    m.top16_within_3_percent += p;
                }
                double left = n - static_cast<double>(i) - 1;
                p = left > 0 ? p * (left - k + 1) / left : 0;
            }
        }
    }
    m.pairwise = m.pairwise_pooled = 0.5;
    auto count = static_cast<double>(std::max<size_t>(1, m.problems));
    m.top1 = std::exp(top[0] / count);
    m.top5 = std::exp(top[1] / count);
    m.top16 = std::exp(top[2] / count);
    m.top16_within_3_percent /= count;
    return m;
}

nlohmann::ordered_json to_json(const Metrics &m) {
    auto round3 = [](double v) { return std::round(v * 1000) / 1000; };
    return {{"samples", m.samples},
            {"problems", m.problems},
            {"pairs", m.pairs},
            {"pairwise", round3(m.pairwise)},
            {"pairwise_pooled", round3(m.pairwise_pooled)},
            {"top1", round3(m.top1)},
            {"top5", round3(m.top5)},
            {"top16", round3(m.top16)},
            {"top16_within_3_percent", round3(m.top16_within_3_percent)},
            {"within_50", round3(m.within_50)},
            {"within_90", round3(m.within_90)},
            {"median_factor", round3(m.median_factor)}};
}

} // namespace kiln::search
