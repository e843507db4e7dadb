// Products: bound by arithmetic, measured beside OpenBLAS.
#include "tour.h"

#include "gemm_cpu.h"
#include "gemm_cuda.h"
#include "gemm_opencl.h"

#include <cblas.h>

#include <cmath>

namespace {

int gemm() {
    const int64_t n = 512;
    tour::Array x("x", {n, n}), w("w", {n, n}), y("y", {n, n}), z("z", {n, n});
    x.fill(1);
    w.fill(2);
    tour::Problem problem{"gemm", "512x512x512",   {x, w, y},       &y, {},
                          {},     2.0 * n * n * n, 3.0 * 4 * n * n, "", {}};
    for (int64_t i = 0; i < n; i++) {
        std::vector<double> row(n), magnitude(n);
        for (int64_t k = 0; k < n; k++) {
            for (int64_t j = 0; j < n; j++) {
                double product = double(x.data[i * n + k]) * w.data[k * n + j];
                row[j] += product;
                magnitude[j] += std::abs(product);
            }
        }
        problem.expected.insert(problem.expected.end(), row.begin(), row.end());
        // n products and sums in any order: (n + 2) units of 2^-23 of the sum of magnitudes.
        for (double m : magnitude) {
            problem.bound.push_back((n + 2) * std::ldexp(m, -23));
        }
    }
    problem.baseline_name = "OpenBLAS";
    problem.baseline = [&] {
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1, x.data.data(), n, w.data.data(), n,
                    0, z.data.data(), n);
    };
    return tour::run(problem, {{"cpu", gemm_cpu_argv, nullptr},
                               {"opencl", gemm_opencl_argv, halide_opencl_device_interface},
                               {"cuda", gemm_cuda_argv, halide_cuda_device_interface}});
}

} // namespace

int main() {
    return gemm();
}
