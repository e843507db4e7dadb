/** \file
 * What the programs of the tour share: run one problem through a kernel built for each target, check it, time it
 * beside a baseline, and print one line of JSON a target for tools/demo_table.py.
 */
#pragma once

#include <kiln/kiln.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tour {

/// A dense float array; extents innermost first.
struct Array {
    Array(std::string name, std::vector<int64_t> extents);
    /// Uniform in [-1, 1], the same in every run.
    Array &fill(uint32_t seed);

    std::string name;
    std::vector<int64_t> extents;
    std::vector<float> data;
};

/// One argument of a kernel: an array or a scalar.
struct Argument {
    Argument(Array &array) : array(&array) {}
    Argument(const float &scalar) : scalar(&scalar) {}
    Array *array = nullptr;
    const float *scalar = nullptr;
};

struct Problem {
    std::string work, shape;
    std::vector<Argument> arguments; ///< in the order of NAME.h
    Array *output;
    /// The right value of each element of `output`, and how far off it may be.
    std::vector<double> expected, bound;
    double flops; ///< of one call
    double bytes; ///< read and written at least by one call
    /// What is timed beside the kernel. Empty: a copy of `bytes` / 2 bytes, on the device where the kernel runs on one.
    std::string baseline_name;
    std::function<void()> baseline;
};

/// A kernel as built for one target.
struct Build {
    const char *target;
    int (*argv)(const kiln_call *, void **);
    /// Null for the CPU.
    const halide_device_interface_t *(*device)();
};

/// KERNEL as built for each target of the tour.
#define TOUR_BUILDS(KERNEL)                                                                                  \
    {                                                                                                        \
        {"cpu", KERNEL##_cpu_argv, nullptr},                                                                 \
            {"opencl", KERNEL##_opencl_argv, halide_opencl_device_interface}, {                              \
            "cuda", KERNEL##_cuda_argv, halide_cuda_device_interface                                         \
        }                                                                                                    \
    }

/// Half a unit in the last place of float32 at 1: what one rounding may be off by, relatively.
constexpr double epsilon = 1.0 / (1 << 24);

/// Runs all of them. Where a target has no device here, its line says so and that is no failure. Returns how many gave
/// a wrong result or an error.
int run(const Problem &problem, const std::vector<Build> &builds);

} // namespace tour
