// Elementwise chains: one pass over memory, so a copy of as many bytes is what they are measured by.
#include "tour.h"

#include "chain_relu_cpu.h"
#include "chain_relu_cuda.h"
#include "chain_relu_opencl.h"
#include "gelu_residual_cpu.h"
#include "gelu_residual_cuda.h"
#include "gelu_residual_opencl.h"
#include "swiglu_cpu.h"
#include "swiglu_cuda.h"
#include "swiglu_opencl.h"

#include <algorithm>
#include <cmath>

namespace {

using tour::Array;
using tour::epsilon;
using tour::Problem;

int chain_relu() {
    const int64_t n = int64_t(1) << 22;
    const float a = 1.5f, b = -0.25f;
    Array x("x", {n}), y("y", {n});
    x.fill(1);
    Problem problem{"chain_relu", "2^22", {x, a, b, y}, &y, {}, {}, 3.0 * n, 8.0 * n, "", {}};
    for (double value : x.data) {
        problem.expected.push_back(std::max(0.0, a * value + b));
        // A product and a sum, each rounded once.
        problem.bound.push_back(2 * epsilon * (std::abs(a * value) + std::abs(b)));
    }
    return tour::run(problem, TOUR_BUILDS(chain_relu));
}

int gelu_residual() {
    const int64_t n = 1024, m = 1024;
    Array x("x", {n, m}), w("w", {n}), b("b", {n}), r("r", {n, m}), y("y", {n, m});
    x.fill(1), w.fill(2), b.fill(3), r.fill(4);
    Problem problem{
        "gelu_residual", "1024x1024", {x, w, b, r, y}, &y, {}, {}, 8.0 * n * m, 12.0 * n * m, "", {}};
    for (int64_t i = 0; i < n * m; i++) {
        double scaled = double(x.data[i]) * w.data[i % n], t = scaled + b.data[i % n];
        double gelu = t / 2 * (1 + std::erf(t / std::sqrt(2.0)));
        problem.expected.push_back(gelu + r.data[i]);
        // t's own roundings, the 1e-7 of erf's approximation, and one rounding each of gelu's steps and the sum.
        problem.bound.push_back(2 * epsilon * (std::abs(scaled) + std::abs(double(b.data[i % n]))) +
                                std::abs(t) / 2 * 1e-7 +
                                6 * epsilon * (std::abs(t) + std::abs(double(r.data[i]))));
    }
    return tour::run(problem, TOUR_BUILDS(gelu_residual));
}

int swiglu() {
    const int64_t n = 1024, m = 1024;
    Array gate("gate", {n, m}), up("up", {n, m}), y("y", {n, m});
    gate.fill(1), up.fill(2);
    Problem problem{"swiglu", "1024x1024", {gate, up, y}, &y, {}, {}, 5.0 * n * m, 12.0 * n * m, "", {}};
    for (int64_t i = 0; i < n * m; i++) {
        double g = gate.data[i];
        problem.expected.push_back(g / (1 + std::exp(-g)) * up.data[i]);
        // Four roundings, and an exp that is right to a few units.
        problem.bound.push_back(8 * epsilon * std::abs(problem.expected.back()));
    }
    return tour::run(problem, TOUR_BUILDS(swiglu));
}

} // namespace

int main() {
    return chain_relu() + gelu_residual() + swiglu();
}
