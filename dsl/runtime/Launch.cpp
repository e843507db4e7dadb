#include "Cuda.h"
#include "Frame.h"
#include "OpenCL.h"

#include <cstdio>
#include <cstring>

using namespace kiln::runtime;

namespace {

/// `y` out of Halide's `_kernel_y_s0_i_io_block_id_x`: the Func whose kernel it is.
class Func {
public:
    explicit Func(const char *entry) {
        static const char prefix[] = "_kernel_";
        if (strncmp(entry, prefix, sizeof(prefix) - 1) == 0) {
            entry += sizeof(prefix) - 1;
        }
        snprintf(text_, sizeof(text_), "%s", entry);
        for (char *at = strstr(text_, "_s"); at; at = strstr(at + 2, "_s")) {
            size_t digits = strspn(at + 2, "0123456789");
            if (digits > 0 && at[2 + digits] == '_') {
                *at = 0;
                return;
            }
        }
    }
    const char *c_str() const { return text_; }

private:
    char text_[128];
};

struct Launch {
    const char *entry;
    int64_t grid[3], block[3], shared_bytes;

    int64_t threads() const { return block[0] * block[1] * block[2]; }
    /// Loops without an iteration: drivers refuse an empty grid.
    bool empty() const {
        for (int d = 0; d < 3; d++) {
            if (grid[d] <= 0 || block[d] <= 0) {
                return true;
            }
        }
        return false;
    }
    bool within(const LaunchLimits &limits) const {
        bool fits = threads() <= limits.threads && shared_bytes <= limits.shared_bytes;
        for (int d = 0; d < 3; d++) {
            fits &= grid[d] <= limits.grid[d] && block[d] <= limits.block[d];
        }
        return fits;
    }
};

int refuse(void *user_context, const Launch &launch, const LaunchLimits &limits) {
    Func func(launch.entry);
    static const char axes[] = {'x', 'y', 'z'};
    auto say = [&](const char *what, int64_t value, int64_t limit, const char *way_out) {
        report(user_context, KILN_UNSUPPORTED, "the kernel of `%s` needs %lld %s, `%s` allows %lld: %s",
               func.c_str(), static_cast<long long>(value), what, limits.device,
               static_cast<long long>(limit), way_out);
        return halide_error_code_gpu_device_error;
    };
    if (launch.threads() > limits.threads) {
        return say("threads in a block", launch.threads(), limits.threads,
                   "split the thread loops of its schedule by less");
    }
    for (int d = 0; d < 3; d++) {
        char what[64];
        if (launch.block[d] > limits.block[d]) {
            snprintf(what, sizeof(what), "threads along %c", axes[d]);
            return say(what, launch.block[d], limits.block[d], "split that thread loop by less");
        }
        if (launch.grid[d] > limits.grid[d]) {
            snprintf(what, sizeof(what), "blocks along %c", axes[d]);
            return say(what, launch.grid[d], limits.grid[d],
                       "make the longest loop the first of gpu_blocks, or fuse loops");
        }
    }
    return say("bytes of shared memory in a block", launch.shared_bytes, limits.shared_bytes,
               "keep less in GPUShared, or split by less");
}

/// What every CUDA device since capability 3.0 allows (CUDA C programming guide, technical specifications).
const LaunchLimits every_cuda_device = {
    1024, {1024, 1024, 64}, {2147483647, 65535, 65535}, 49152, "a CUDA device"};
/// Local memory of every device of OpenCL 1.2's full profile.
constexpr int64_t every_opencl_local = 32768;

} // namespace

extern "C" {

int kiln_original_cuda_run(void *user_context, void *state, const char *entry, int blocks_x, int blocks_y,
                           int blocks_z, int threads_x, int threads_y, int threads_z, int shared_bytes,
                           size_t sizes[], void *arguments[], int8_t is_buffer[]);
int kiln_original_opencl_run(void *user_context, void *state, const char *entry, int blocks_x, int blocks_y,
                             int blocks_z, int threads_x, int threads_y, int threads_z, int shared_bytes,
                             size_t sizes[], void *arguments[], int8_t is_buffer[]);

int halide_cuda_run(void *user_context, void *state, const char *entry, int blocks_x, int blocks_y,
                    int blocks_z, int threads_x, int threads_y, int threads_z, int shared_bytes,
                    size_t sizes[], void *arguments[], int8_t is_buffer[]) {
    Launch launch = {entry, {blocks_x, blocks_y, blocks_z}, {threads_x, threads_y, threads_z}, shared_bytes};
    if (launch.empty()) {
        return 0;
    }
    if (!launch.within(every_cuda_device)) {
        LaunchLimits limits;
        if (cuda_limits(call_of(user_context), limits) && !launch.within(limits)) {
            return refuse(user_context, launch, limits);
        }
    }
    return kiln_original_cuda_run(user_context, state, entry, blocks_x, blocks_y, blocks_z, threads_x,
                                  threads_y, threads_z, shared_bytes, sizes, arguments, is_buffer);
}

int halide_opencl_run(void *user_context, void *state, const char *entry, int blocks_x, int blocks_y,
                      int blocks_z, int threads_x, int threads_y, int threads_z, int shared_bytes,
                      size_t sizes[], void *arguments[], int8_t is_buffer[]) {
    Launch launch = {entry, {blocks_x, blocks_y, blocks_z}, {threads_x, threads_y, threads_z}, shared_bytes};
    if (launch.empty()) {
        return 0;
    }
    // Threads and blocks the driver checks itself: CL_INVALID_WORK_GROUP_SIZE and its kin are explained.
    if (shared_bytes > every_opencl_local) {
        LaunchLimits limits;
        if (opencl_limits(call_of(user_context), limits) && shared_bytes > limits.shared_bytes) {
            return refuse(user_context, launch, limits);
        }
    }
    return kiln_original_opencl_run(user_context, state, entry, blocks_x, blocks_y, blocks_z, threads_x,
                                    threads_y, threads_z, shared_bytes, sizes, arguments, is_buffer);
}
}
