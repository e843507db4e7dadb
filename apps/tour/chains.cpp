// Elementwise chains: one pass over memory, so a copy of as many bytes is what they are measured by.
#include "tour.h"

#include "chain_relu_cpu.h"
#include "chain_relu_cuda.h"
#include "chain_relu_opencl.h"

#include <algorithm>
#include <cmath>

namespace {

constexpr double epsilon = 1.0 / (1 << 24); // half a unit in the last place of float32

int chain_relu() {
    const int64_t n = int64_t(1) << 22;
    const float a = 1.5f, b = -0.25f;
    tour::Array x("x", {n}), y("y", {n});
    x.fill(1);
    tour::Problem problem{"chain_relu", "2^22", {x, a, b, y}, &y, {}, {}, 3.0 * n, 8.0 * n, "", {}};
    for (float value : x.data) {
        problem.expected.push_back(std::max(0.0, double(a) * value + b));
        // A product and a sum, each rounded once.
        problem.bound.push_back(2 * epsilon * (std::abs(double(a) * value) + std::abs(double(b))));
    }
    return tour::run(problem, {{"cpu", chain_relu_cpu_argv, nullptr},
                               {"opencl", chain_relu_opencl_argv, halide_opencl_device_interface},
                               {"cuda", chain_relu_cuda_argv, halide_cuda_device_interface}});
}

} // namespace

int main() {
    return chain_relu();
}
