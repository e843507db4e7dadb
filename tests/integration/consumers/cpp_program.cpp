// C++17 without exceptions: kernels for three targets and one under two names in one program, with threads.
#include "scale.h"
#include "scale_again.h"
#include "scale_cl.h"
#include "scale_cuda.h"

#include <kiln/kiln.hpp>

#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

using Kernel = int (*)(const kiln_call *, halide_buffer_t *, float, halide_buffer_t *);

static bool right(Kernel kernel, int64_t n, bool &absent) {
    std::vector<float> x(static_cast<size_t>(n)), y(static_cast<size_t>(n), -1.0f);
    for (size_t i = 0; i < x.size(); i++) {
        x[i] = static_cast<float>(i);
    }
    kiln::View<const float> vx(x.data(), {n});
    kiln::View<float> vy(y.data(), {n});
    int status = kernel(nullptr, vx, 2.0f, vy);
    if (status == KILN_NO_DEVICE) {
        absent = true;
        return kiln_last_message()[0] != 0 && y[0] == -1.0f;
    }
    if (status != KILN_OK || halide_copy_to_host(nullptr, vy) != 0) {
        std::fprintf(stderr, "%s\n", kiln_last_message());
        return false;
    }
    for (size_t i = 0; i < x.size(); i++) {
        if (y[i] != 2.0f * x[i]) {
            return false;
        }
    }
    return true;
}

int main() {
    struct Row {
        const char *name;
        Kernel kernel;
    };
    for (Row row : {Row{"scale", scale}, Row{"scale_again", scale_again}, Row{"scale_cl", scale_cl},
                    Row{"scale_cuda", scale_cuda}}) {
        bool ok[4] = {}, absent[4] = {};
        std::vector<std::thread> threads;
        for (int t = 0; t < 4; t++) {
            threads.emplace_back([&, t] { ok[t] = right(row.kernel, 100 + t, absent[t]); });
        }
        for (std::thread &t : threads) {
            t.join();
        }
        bool all = ok[0] && ok[1] && ok[2] && ok[3];
        std::printf("%s: %s\n", row.name, !all ? "wrong" : absent[0] ? "no device here" : "right");
        if (!all) {
            return 1;
        }
    }
    // Device buffers that are still alive at exit do no harm.
    static float data[16], result[16];
    static kiln_view x, y;
    int64_t n = 16;
    kiln_view_host(&x, KILN_FLOAT32, data, 1, &n, nullptr);
    kiln_view_host(&y, KILN_FLOAT32, result, 1, &n, nullptr);
    scale_cl(nullptr, &x.buffer, 1.0f, &y.buffer);
    return 0;
}
