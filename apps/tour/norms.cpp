// Row by row: softmax and the normalizations. Two or three passes over a row, of which one need reach memory.
#include "tour.h"

#include "layer_norm_cpu.h"
#include "layer_norm_cuda.h"
#include "layer_norm_opencl.h"
#include "rms_norm_cpu.h"
#include "rms_norm_cuda.h"
#include "rms_norm_opencl.h"
#include "softmax_cpu.h"
#include "softmax_cuda.h"
#include "softmax_opencl.h"

#include <algorithm>
#include <cmath>

namespace {

using tour::Array;
using tour::epsilon;
using tour::Problem;

constexpr int64_t n = 1024, m = 1024;
// A sum of n terms in any order is off by at most this share of the sum of their magnitudes.
constexpr double of_sum = (n + 2) * 2 * epsilon;

int softmax() {
    Array x("x", {n, m}), y("y", {n, m});
    x.fill(1);
    Problem problem{"softmax", "1024x1024", {x, y}, &y, {}, {}, 5.0 * n * m, 8.0 * n * m, "", {}};
    for (int64_t i = 0; i < m; i++) {
        const float *row = &x.data[i * n];
        double sum = 0, largest = *std::max_element(row, row + n);
        for (int64_t j = 0; j < n; j++) {
            sum += std::exp(row[j] - largest);
        }
        for (int64_t j = 0; j < n; j++) {
            problem.expected.push_back(std::exp(row[j] - largest) / sum);
            // The sum, twice an exp of an argument up to 2, a division.
            problem.bound.push_back((of_sum + 16 * epsilon) * problem.expected.back());
        }
    }
    return tour::run(problem, TOUR_BUILDS(softmax));
}

int layer_norm() {
    const float eps = 1e-5f;
    Array x("x", {n, m}), gamma("gamma", {n}), beta("beta", {n}), y("y", {n, m});
    x.fill(1), gamma.fill(2), beta.fill(3);
    Problem problem{"layer_norm", "1024x1024", {x, gamma, eps, beta, y}, &y, {}, {}, 8.0 * n * m, 8.0 * n * m,
                    "",           {}};
    for (int64_t i = 0; i < m; i++) {
        const float *row = &x.data[i * n];
        double mean = 0, magnitude = 0, square = 0;
        for (int64_t j = 0; j < n; j++) {
            mean += row[j] / double(n);
            magnitude += std::abs(row[j]) / double(n);
        }
        for (int64_t j = 0; j < n; j++) {
            square += (row[j] - mean) * (row[j] - mean) / double(n);
        }
        double inverse = 1 / std::sqrt(square + eps);
        for (int64_t j = 0; j < n; j++) {
            double scale = inverse * gamma.data[j], centered = (row[j] - mean) * scale;
            problem.expected.push_back(centered + beta.data[j]);
            // The mean is off by of_sum, the sum of squares too, of which the square root takes half.
            problem.bound.push_back(
                of_sum * magnitude * std::abs(scale) + (of_sum + 8 * epsilon) * std::abs(centered) +
                4 * epsilon * (std::abs(row[j] * scale) + std::abs(double(beta.data[j]))));
        }
    }
    return tour::run(problem, TOUR_BUILDS(layer_norm));
}

int rms_norm() {
    const float eps = 1e-5f;
    Array x("x", {n, m}), gamma("gamma", {n}), y("y", {n, m});
    x.fill(1), gamma.fill(2);
    Problem problem{"rms_norm", "1024x1024", {x, gamma, eps, y}, &y, {},
                    {},         5.0 * n * m, 8.0 * n * m,        "", {}};
    for (int64_t i = 0; i < m; i++) {
        const float *row = &x.data[i * n];
        double square = 0;
        for (int64_t j = 0; j < n; j++) {
            square += double(row[j]) * row[j] / n;
        }
        for (int64_t j = 0; j < n; j++) {
            problem.expected.push_back(row[j] / std::sqrt(square + eps) * gamma.data[j]);
            problem.bound.push_back((of_sum / 2 + 8 * epsilon) * std::abs(problem.expected.back()));
        }
    }
    return tour::run(problem, TOUR_BUILDS(rms_norm));
}

} // namespace

int main() {
    return softmax() + layer_norm() + rms_norm();
}
