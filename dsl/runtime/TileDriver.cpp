#include "TileDriver.h"

#include "Lock.h"

extern "C" void *halide_cuda_get_symbol(void *user_context, const char *name);

namespace kiln::runtime {

namespace {

static_assert(sizeof(LaunchAttribute) == 72 && sizeof(LaunchConfig) == 56 && sizeof(TensorMap) == 128);

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
TileDriver driver;
bool complete;

/// The first function that the driver lacks, or null.
const char *load() {
    struct Entry {
        void **function;
        const char *name;
    };
    const Entry entries[] = {
        {reinterpret_cast<void **>(&driver.GetErrorName), "cuGetErrorName"},
        {reinterpret_cast<void **>(&driver.CtxPushCurrent), "cuCtxPushCurrent_v2"},
        {reinterpret_cast<void **>(&driver.CtxPopCurrent), "cuCtxPopCurrent_v2"},
        {reinterpret_cast<void **>(&driver.CtxGetDevice), "cuCtxGetDevice"},
        {reinterpret_cast<void **>(&driver.DeviceGetAttribute), "cuDeviceGetAttribute"},
        {reinterpret_cast<void **>(&driver.ModuleLoadData), "cuModuleLoadData"},
        {reinterpret_cast<void **>(&driver.ModuleUnload), "cuModuleUnload"},
        {reinterpret_cast<void **>(&driver.ModuleGetFunction), "cuModuleGetFunction"},
        {reinterpret_cast<void **>(&driver.FuncSetAttribute), "cuFuncSetAttribute"},
        {reinterpret_cast<void **>(&driver.OccupancyMaxActiveBlocksPerMultiprocessor),
         "cuOccupancyMaxActiveBlocksPerMultiprocessor"},
        {reinterpret_cast<void **>(&driver.OccupancyMaxActiveClusters), "cuOccupancyMaxActiveClusters"},
        {reinterpret_cast<void **>(&driver.LaunchKernelEx), "cuLaunchKernelEx"},
        {reinterpret_cast<void **>(&driver.TensorMapEncodeTiled), "cuTensorMapEncodeTiled"},
        {reinterpret_cast<void **>(&driver.MemsetD32Async), "cuMemsetD32Async"},
        {reinterpret_cast<void **>(&driver.ThreadExchangeStreamCaptureMode),
         "cuThreadExchangeStreamCaptureMode"},
    };
    for (const Entry &e : entries) {
        *e.function = halide_cuda_get_symbol(nullptr, e.name);
        if (!*e.function) {
            return e.name;
        }
    }
    return nullptr;
}

} // namespace

const TileDriver *tile_driver(void *user_context) {
    Lock lock(mutex);
    if (!complete) {
        if (const char *missing = load()) {
            report(user_context, KILN_NO_DEVICE,
                   driver.GetErrorName
                       ? "tile kernels need a driver for CUDA 12.0 or later: this one has no %s"
                       : "the CUDA driver was not found: libcuda.so.1 could not be opened, or has no %s",
                   missing);
            return nullptr;
        }
        complete = true;
    }
    return &driver;
}

int tile_fault(void *user_context, const TileDriver &cu, const char *doing, int error) {
    const char *name = nullptr;
    if (cu.GetErrorName(error, &name) != 0 || !name) {
        name = "CUDA error";
    }
    char buffer[message_size];
    Text text(buffer, sizeof(buffer));
    text("CUDA: %s failed: %s (%d)", doing, name, error);
    halide_error(user_context, buffer);
    return error;
}

} // namespace kiln::runtime
