#include "dsl/search/model/Calibrate.h"

#include <Eigen/Cholesky>

#include <algorithm>
#include <cmath>
#include <map>

namespace kiln::search {

namespace {

using Groups = std::map<std::pair<std::string, std::string>, std::vector<size_t>>; ///< (device, problem)

void mix_votes(std::vector<HeldOut> &samples, double mix) {
    for (HeldOut &s : samples) {
        size_t n = s.networks.size();
        std::vector<double> votes;
        s.log_ms = s.variance = 0;
        for (size_t i = 0; i < n; i++) {
            votes.push_back((1 - mix) * s.networks[i] + mix * s.trees[i]);
            s.log_ms += votes.back() / static_cast<double>(n);
        }
        for (double v : votes) {
            s.variance += (v - s.log_ms) * (v - s.log_ms) / std::max<double>(1, static_cast<double>(n) - 1);
        }
    }
}

/// Share of the pairs that differ by 10 % or more in the right order, mean over problems.
double share_in_order(const std::vector<HeldOut> &samples, const Groups &groups) {
    double sum = 0, problems = 0;
    for (const auto &[key, members] : groups) {
        double right = 0, pairs = 0;
        for (size_t i : members) {
            for (size_t j : members) {
                if (samples[j].measured - samples[i].measured >= std::log(1.1)) {
                    pairs++;
                    right += samples[i].log_ms < samples[j].log_ms;
                }
            }
        }
        if (pairs > 0) {
            sum += right / pairs;
            problems++;
        }
    }
    return problems > 0 ? sum / problems : 0;
}

void fit_mix(ModelData &data, std::vector<HeldOut> &samples, const Groups &groups) {
    double best = -1;
    for (double mix : {0.5, 0.25, 0.75, 0.0, 1.0}) {
        mix_votes(samples, mix);
        double share = share_in_order(samples, groups);
        if (share > best) {
            best = share;
            data.mix = mix;
        }
    }
}

void fit_time(ModelData &data, const std::vector<HeldOut> &samples, const Groups &groups) {
    double w = 0, x = 0, y = 0, xx = 0, xy = 0;
    for (const auto &[key, members] : groups) {
        double weight = 1 / std::sqrt(static_cast<double>(members.size()));
        for (size_t i : members) {
            double a = samples[i].log_ms - samples[i].log_estimate;
            double b = samples[i].measured - samples[i].log_estimate;
            w += weight;
            x += weight * a;
            y += weight * b;
            xx += weight * a * a;
            xy += weight * a * b;
        }
    }
    double spread = xx / w - (x / w) * (x / w);
    data.slope = spread > 1e-6 ? std::clamp((xy / w - (x / w) * (y / w)) / spread, 0.25, 2.0) : 1;
    data.offset = y / w - data.slope * x / w;
}

double variance_of(const std::vector<double> &v) {
    double mean = 0, sum = 0;
    for (double x : v) {
        mean += x / static_cast<double>(v.size());
    }
    for (double x : v) {
        sum += (x - mean) * (x - mean);
    }
    return v.size() > 1 ? sum / static_cast<double>(v.size() - 1) : 0;
}

/// Of devices, and of the problems within each.
void fit_common(Correlation &c, const std::map<std::pair<std::string, std::string>, double> &means) {
    std::map<std::string, std::vector<double>> by_device;
    for (const auto &[key, mean] : means) {
        by_device[key.first].push_back(mean);
    }
    std::vector<double> devices;
    double squares = 0;
    size_t freedom = 0;
    for (const auto &[device, v] : by_device) {
        double mean = 0;
        for (double x : v) {
            mean += x / static_cast<double>(v.size());
        }
        devices.push_back(mean);
        squares += variance_of(v) * static_cast<double>(v.size() - 1);
        freedom += v.size() - 1;
    }
    c.problem = std::max(0.01, freedom ? squares / static_cast<double>(freedom) : 0);
    // Members saw all devices: what a new one adds is at least what a new problem does.
    c.device = std::max(variance_of(devices), c.problem);
}

void fit_between(Correlation &c, const std::vector<HeldOut> &samples, const std::vector<double> &rest) {
    double n = static_cast<double>(samples.size()), x = 0, y = 0, xx = 0, xy = 0;
    for (size_t i = 0; i < samples.size(); i++) {
        double square = std::min(rest[i] * rest[i], 4.0);
        x += samples[i].variance / n;
        y += square / n;
        xx += samples[i].variance * samples[i].variance / n;
        xy += samples[i].variance * square / n;
    }
    double spread = xx - x * x;
    c.per_variance = spread > 1e-12 ? std::clamp((xy - x * y) / spread, 0.0, 4.0) : 0;
    c.between = y - c.per_variance * x;
    if (c.between < 0.1 * y) {
        c.between = 0.1 * y;
        c.per_variance = x > 0 ? 0.9 * y / x : 0;
    }
    c.between = std::max(c.between, 1e-4);
}

/// −2 log likelihood of the group's rest, without constants.
double unlikelihood(const Correlation &c, const std::vector<HeldOut> &samples,
                    const std::vector<double> &rest, const std::vector<size_t> &group) {
    auto n = static_cast<Eigen::Index>(group.size());
    Eigen::MatrixXd k(n, n);
    Eigen::VectorXd r(n);
    for (Eigen::Index i = 0; i < n; i++) {
        const HeldOut &a = samples[group[i]];
        double va = variance_between(c, a.variance);
        r[i] = rest[group[i]];
        for (Eigen::Index j = 0; j < i; j++) {
            const HeldOut &b = samples[group[j]];
            double distance = (a.embedding - b.embedding).squaredNorm();
            k(i, j) = k(j, i) = c.problem + std::sqrt(va * variance_between(c, b.variance)) * c.together *
                                                std::exp(-distance / (2 * c.length * c.length));
        }
        k(i, i) = c.problem + va + c.noise;
    }
    Eigen::LLT<Eigen::MatrixXd> llt(k);
    Eigen::VectorXd half = llt.matrixL().solve(r);
    return half.squaredNorm() + 2 * llt.matrixLLT().diagonal().array().log().sum();
}

void fit_near(Correlation &c, const std::vector<HeldOut> &samples, const std::vector<double> &rest,
              const Groups &groups) {
    constexpr size_t most = 60; // of a problem: the factor's cost grows with the cube
    std::vector<std::vector<size_t>> parts;
    std::vector<double> distances;
    for (const auto &[key, members] : groups) {
        std::vector<size_t> part;
        size_t step = (members.size() + most - 1) / most;
        for (size_t i = 0; i < members.size(); i += step) {
            part.push_back(members[i]);
        }
        for (size_t i = 1; i < part.size(); i++) {
            distances.push_back((samples[part[i]].embedding - samples[part[i - 1]].embedding).norm());
        }
        parts.push_back(std::move(part));
    }
    if (distances.empty() || samples.front().embedding.size() == 0) {
        return;
    }
    std::nth_element(distances.begin(), distances.begin() + static_cast<long>(distances.size() / 2),
                     distances.end());
    double median = std::max(distances[distances.size() / 2], 1e-3), best = 0;
    Correlation chosen = c;
    bool first = true;
    for (double length : {0.25, 0.5, 1.0, 2.0}) {
        for (double together : {0.3, 0.6, 0.8, 0.9, 0.97}) {
            Correlation trial = c;
            trial.length = length * median;
            trial.together = together;
            double sum = 0;
            for (const std::vector<size_t> &part : parts) {
                sum += unlikelihood(trial, samples, rest, part);
            }
            if (first || sum < best) {
                best = sum;
                chosen = trial;
                first = false;
            }
        }
    }
    c = chosen;
}

void fit_scale(Correlation &c, const std::vector<HeldOut> &samples, const std::vector<double> &errors,
               const Groups &groups) {
    std::vector<std::pair<double, double>> ratios; ///< |error| / sigma, and its weight
    double total = 0;
    for (const auto &[key, members] : groups) {
        for (size_t i : members) {
            double sigma =
                std::sqrt(c.device + c.problem + variance_between(c, samples[i].variance) + c.noise);
            ratios.emplace_back(std::fabs(errors[i]) / sigma, 1 / static_cast<double>(members.size()));
            total += ratios.back().second;
        }
    }
    std::sort(ratios.begin(), ratios.end());
    double sum = 0;
    for (const auto &[ratio, weight] : ratios) {
        sum += weight;
        if (sum >= 0.9 * total) {
            c.scale = std::max(ratio / 1.645, 0.05);
            return;
        }
    }
}

} // namespace

void calibrate(ModelData &data, std::vector<HeldOut> &samples, std::optional<double> mix) {
    Groups groups;
    for (size_t i = 0; i < samples.size(); i++) {
        groups[{samples[i].device, samples[i].problem}].push_back(i);
    }
    if (mix) {
        data.mix = *mix;
    } else {
        fit_mix(data, samples, groups);
    }
    mix_votes(samples, data.mix);
    fit_time(data, samples, groups);
    std::vector<double> errors, rest(samples.size());
    for (const HeldOut &s : samples) {
        errors.push_back(s.measured - s.log_estimate - data.offset -
                         data.slope * (s.log_ms - s.log_estimate));
    }
    std::map<std::pair<std::string, std::string>, double> means;
    for (const auto &[key, members] : groups) {
        double mean = 0;
        for (size_t i : members) {
            mean += errors[i] / static_cast<double>(members.size());
        }
        means[key] = mean;
        for (size_t i : members) {
            rest[i] = errors[i] - mean;
        }
    }
    Correlation &c = data.correlation;
    fit_common(c, means);
    fit_between(c, samples, rest);
    fit_near(c, samples, errors, groups);
    fit_scale(c, samples, errors, groups);
}

} // namespace kiln::search
