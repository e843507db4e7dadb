#include "dsl/check/Statistics.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace kiln {

namespace {

/// P(Binomial(n, 1/2) <= k)
double binomial_cdf(int n, int k) {
    double log_half = -n * std::log(2.0), sum = 0;
    for (int i = 0; i <= k; i++) {
        sum += std::exp(std::lgamma(n + 1.0) - std::lgamma(i + 1.0) - std::lgamma(n - i + 1.0) + log_half);
    }
    return sum;
}

} // namespace

double quantile(std::vector<double> values, double q) {
    if (values.empty()) {
        return 0;
    }
    std::sort(values.begin(), values.end());
    double at = q * static_cast<double>(values.size() - 1);
    auto low = static_cast<size_t>(std::floor(at));
    size_t high = std::min(low + 1, values.size() - 1);
    return values[low] + (at - static_cast<double>(low)) * (values[high] - values[low]);
}

double median(std::vector<double> values) {
    return quantile(std::move(values), 0.5);
}

Interval median_interval(const std::vector<double> &values) {
    std::vector<double> sorted = values;
    std::sort(sorted.begin(), sorted.end());
    int n = static_cast<int>(sorted.size());
    if (n == 0) {
        return {};
    }
    // The largest k with P(fewer than k values below the median) <= 2.5 %.
    int k = 0;
    while (k < n / 2 && binomial_cdf(n, k) <= 0.025) {
        k++;
    }
    int low = std::max(0, k - 1);
    return {median(sorted), sorted[low], sorted[n - 1 - low]};
}

Interval paired_ratio(const std::vector<double> &candidate, const std::vector<double> &baseline,
                      uint64_t seed, int resamples) {
    size_t n = std::min(candidate.size(), baseline.size());
    if (n == 0) {
        return {};
    }
    std::vector<double> ratios(n);
    for (size_t i = 0; i < n; i++) {
        ratios[i] = baseline[i] / candidate[i];
    }
    auto block = static_cast<size_t>(std::max(1.0, std::cbrt(static_cast<double>(n))));
    std::mt19937_64 rng(seed);
    std::uniform_int_distribution<size_t> start(0, n - block);
    std::vector<double> medians(resamples), sample(n);
    for (double &m : medians) {
        for (size_t i = 0; i < n;) {
            size_t from = start(rng);
            for (size_t j = 0; j < block && i < n; j++) {
                sample[i++] = ratios[from + j];
            }
        }
        std::nth_element(sample.begin(), sample.begin() + n / 2, sample.end());
        m = sample[n / 2];
    }
    return {median(ratios), quantile(medians, 0.025), quantile(medians, 0.975)};
}

double drift(const std::vector<double> &values) {
    size_t third = values.size() / 3;
    if (third < 3) {
        return 0;
    }
    double first = median({values.begin(), values.begin() + third});
    double last = median({values.end() - third, values.end()});
    return first > 0 ? std::abs(last / first - 1) : 0;
}

double spread(const std::vector<double> &values) {
    double m = median(values);
    return m > 0 ? (quantile(values, 0.75) - quantile(values, 0.25)) / m : 0;
}

double geometric_mean(const std::vector<double> &values) {
    double sum = 0;
    for (double v : values) {
        sum += std::log(v);
    }
    return values.empty() ? 0 : std::exp(sum / static_cast<double>(values.size()));
}

} // namespace kiln
