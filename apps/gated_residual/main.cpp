// Calls the kernel on each target that this machine has and compares it with the formula in double.
#include "gated_residual_cpu.h"
#include "gated_residual_cuda.h"
#include "gated_residual_opencl.h"

#include <kiln/kiln.hpp>

#include <cmath>
#include <cstdio>
#include <vector>

int main() {
    const int64_t width = 1000, height = 513, n = width * height;
    std::vector<float> value(n), gate(n), residual(n), out(n);
    for (int64_t i = 0; i < n; i++) {
        value[i] = float(i % 29) - 14;
        gate[i] = float(i % 31) / 8 - 2;
        residual[i] = float(i % 37) / 4;
    }
    struct {
        const char *target;
        int (*kernel)(const kiln_call *, halide_buffer_t *, halide_buffer_t *, halide_buffer_t *,
                      halide_buffer_t *);
    } builds[] = {
        {"cpu", gated_residual_cpu}, {"opencl", gated_residual_opencl}, {"cuda", gated_residual_cuda}};
    int wrong = 0;
    for (auto [target, kernel] : builds) {
        kiln::View<const float> v(value.data(), {width, height}), g(gate.data(), {width, height}),
            r(residual.data(), {width, height});
        kiln::View<float> o(out.data(), {width, height});
        int status = kernel(nullptr, v, g, r, o);
        if (status == KILN_OK) {
            status = halide_copy_to_host(nullptr, o); // does nothing after a CPU kernel
        }
        if (status != KILN_OK) {
            std::printf("%-8s not run: %s\n", target, kiln_last_message());
            wrong += status != KILN_NO_DEVICE;
            continue;
        }
        double worst = 0;
        for (int64_t i = 0; i < n; i++) {
            double right = residual[i] + double(value[i]) / (1 + std::exp(-double(gate[i])));
            worst = std::fmax(worst, std::abs(out[i] - right) / std::fmax(1, std::abs(right)));
        }
        std::printf("%-8s off by at most %.1e\n", target, worst);
        wrong += !(worst < 1e-6);
    }
    return wrong;
}
