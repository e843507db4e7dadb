#include "Cuda.h"

#include "DriverLibrary.h"
#include "Lock.h"
#include "TileModule.h"

#include <cstring>

using namespace kiln::runtime;

extern "C" void *halide_cuda_get_symbol(void *user_context, const char *name);

// The few functions and numbers of the CUDA driver API that are used here (cuda.h).
namespace {

using Context = void *;
using Stream = void *;
using Pointer = unsigned long long;

constexpr int attribute_threads = 1, attribute_block_x = 2, attribute_grid_x = 5, attribute_shared = 8;
constexpr int attribute_major = 75, attribute_minor = 76, attribute_memory_pools = 115;

struct Driver {
    int (*Init)(unsigned);
    int (*DriverGetVersion)(int *);
    int (*DeviceGetCount)(int *);
    int (*DeviceGet)(int *, int);
    int (*DeviceGetName)(char *, int, int);
    int (*DeviceGetAttribute)(int *, int, int);
    int (*DevicePrimaryCtxRetain)(Context *, int);
    int (*DevicePrimaryCtxRelease)(int);
    int (*CtxPushCurrent)(Context);
    int (*CtxPopCurrent)(Context *);
    int (*CtxGetDevice)(int *);
    int (*StreamGetCtx)(Stream, Context *);
    int (*StreamSynchronize)(Stream);
    int (*MemAlloc)(Pointer *, size_t);
    int (*MemFree)(Pointer);
    int (*MemAllocAsync)(Pointer *, size_t, Stream); ///< null before CUDA 11.2
    int (*MemFreeAsync)(Pointer, Stream);
    int (*GetErrorName)(int, const char **);
    bool loaded;
};

constexpr int max_devices = 64;
constexpr int error_invalid_value = 1;

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
Driver cu;
void *library;
Context primary[max_devices];

template<typename F>
bool load(F &f, const char *name) {
    f = reinterpret_cast<F>(halide_cuda_get_symbol(nullptr, name));
    return f != nullptr;
}

bool ensure_driver() {
    if (!cu.loaded) {
        cu.loaded = load(cu.Init, "cuInit") && load(cu.DriverGetVersion, "cuDriverGetVersion") &&
                    load(cu.DeviceGetCount, "cuDeviceGetCount") && load(cu.DeviceGet, "cuDeviceGet") &&
                    load(cu.DeviceGetName, "cuDeviceGetName") &&
                    load(cu.DeviceGetAttribute, "cuDeviceGetAttribute") &&
                    load(cu.DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain") &&
                    load(cu.DevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2") &&
                    load(cu.CtxPushCurrent, "cuCtxPushCurrent_v2") &&
                    load(cu.CtxPopCurrent, "cuCtxPopCurrent_v2") && load(cu.CtxGetDevice, "cuCtxGetDevice") &&
                    load(cu.StreamGetCtx, "cuStreamGetCtx") &&
                    load(cu.StreamSynchronize, "cuStreamSynchronize") && load(cu.MemAlloc, "cuMemAlloc_v2") &&
                    load(cu.MemFree, "cuMemFree_v2") && load(cu.GetErrorName, "cuGetErrorName");
        if (cu.loaded &&
            !(load(cu.MemAllocAsync, "cuMemAllocAsync") && load(cu.MemFreeAsync, "cuMemFreeAsync"))) {
            cu.MemAllocAsync = nullptr;
        }
    }
    return cu.loaded;
}

const char *error_name(int error) {
    const char *name = nullptr;
    return cu.GetErrorName && cu.GetErrorName(error, &name) == 0 && name ? name : "CUDA error";
}

int acquire(const kiln_call *call, Context *context, bool create, Text &why) {
    *context = nullptr;
    Lock lock(mutex);
    if (!create && !cu.loaded) {
        return KILN_OK;
    }
    if (!ensure_driver()) {
        why("the CUDA driver was not found: libcuda.so.1 could not be opened");
        return KILN_NO_DEVICE;
    }
    if (call->cuda_context) {
        *context = call->cuda_context;
        return KILN_OK;
    }
    if (call->cuda_stream) {
        // 1 and 2 are CUDA's names for the default streams: they belong to whichever context is current.
        if (reinterpret_cast<uintptr_t>(call->cuda_stream) > 2) {
            int error = cu.StreamGetCtx(call->cuda_stream, context);
            if (error != 0) {
                why("the cuda_stream of the call is not valid (%s)", error_name(error));
                return KILN_INVALID_ARGUMENT;
            }
            return KILN_OK;
        }
    }
    if (call->device < 0 || call->device >= max_devices) {
        why("CUDA device %d was asked for, devices are 0 to %d", call->device, max_devices - 1);
        return KILN_INVALID_ARGUMENT;
    }
    if (!primary[call->device] && create) {
        int error = cu.Init(0), count = 0, device = 0;
        if (error != 0) {
            why("the CUDA driver does not start: cuInit gave %s (%d)", error_name(error), error);
            return KILN_NO_DEVICE;
        }
        error = cu.DeviceGetCount(&count);
        if (error != 0 || call->device >= count) {
            why("CUDA device %d was asked for, the driver finds %d", call->device, count);
            return KILN_NO_DEVICE;
        }
        error = cu.DeviceGet(&device, call->device);
        error = error ? error : cu.DevicePrimaryCtxRetain(&primary[call->device], device);
        if (error != 0) {
            primary[call->device] = nullptr;
            why("CUDA device %d gives no context: %s (%d)", call->device, error_name(error), error);
            return KILN_NO_DEVICE;
        }
    }
    *context = primary[call->device];
    return KILN_OK;
}

/// A context made current for a while.
class Current {
public:
    Current(const kiln_call *call, Text &why) {
        Context context = nullptr;
        status_ = acquire(call, &context, true, why);
        if (status_ == KILN_OK) {
            int error = cu.CtxPushCurrent(context);
            if (error != 0) {
                why("the CUDA context of the call is not valid: %s (%d)", error_name(error), error);
                status_ = KILN_INVALID_ARGUMENT;
            }
        }
    }
    ~Current() {
        Context old;
        if (status_ == KILN_OK) {
            cu.CtxPopCurrent(&old);
        }
    }
    int status() const { return status_; }

private:
    int status_;
};

bool has_pools() {
    int device = 0, yes = 0;
    return cu.MemAllocAsync && cu.CtxGetDevice(&device) == 0 &&
           cu.DeviceGetAttribute(&yes, attribute_memory_pools, device) == 0 && yes;
}

/// Memory for intermediate values goes through the caller's allocator; buffers of arguments outlive the call and
/// do not.
bool is_callers(const Frame *frame, const halide_buffer_t *buffer) {
    return frame && frame->call.alloc && frame->call.free && !frame->is_argument(buffer);
}

size_t bytes_of(const halide_buffer_t *buffer) {
    size_t bytes = buffer->size_in_bytes();
    return bytes ? bytes : KILN_DEVICE_BYTES_OF_EMPTY; // Empty buffers need an address too.
}

} // namespace

namespace kiln::runtime {

bool cuda_fits(const kiln_call *call, const kiln_entry_variant &variant, Text &why) {
    Current current(call, why);
    if (current.status() != KILN_OK) {
        return false;
    }
    int device = 0, major = 0, minor = 0;
    cu.CtxGetDevice(&device);
    cu.DeviceGetAttribute(&major, attribute_major, device);
    cu.DeviceGetAttribute(&minor, attribute_minor, device);
    int have = 10 * major + minor;
    if (variant.exact ? have == variant.cuda_capability : have >= variant.cuda_capability) {
        return true;
    }
    char name[128] = "the device";
    cu.DeviceGetName(name, sizeof(name), device);
    why("needs compute capability %d.%d%s, `%s` has %d.%d", variant.cuda_capability / 10,
        variant.cuda_capability % 10, variant.exact ? " exactly" : "", name, major, minor);
    return false;
}

void describe_cuda(const kiln_call *call, Text &text) {
    char buffer[message_size];
    Text why(buffer, sizeof(buffer));
    Current current(call, why);
    int version = 0, device = 0, major = 0, minor = 0;
    if (current.status() != KILN_OK || cu.DriverGetVersion(&version) != 0 || cu.CtxGetDevice(&device) != 0) {
        return;
    }
    char name[128] = "the device";
    cu.DeviceGetName(name, sizeof(name), device);
    cu.DeviceGetAttribute(&major, attribute_major, device);
    cu.DeviceGetAttribute(&minor, attribute_minor, device);
    text("; here is a driver for CUDA %d.%d, and `%s` of compute capability %d.%d", version / 1000,
         version % 1000 / 10, name, major, minor);
}

bool cuda_limits(const kiln_call *call, LaunchLimits &limits) {
    char buffer[message_size];
    Text why(buffer, sizeof(buffer));
    Current current(call, why);
    int device = 0;
    if (current.status() != KILN_OK || cu.CtxGetDevice(&device) != 0) {
        return false;
    }
    int error = cu.DeviceGetName(limits.device, sizeof(limits.device), device);
    int threads = 0, shared = 0;
    error |= cu.DeviceGetAttribute(&threads, attribute_threads, device);
    error |= cu.DeviceGetAttribute(&shared, attribute_shared, device);
    for (int d = 0; d < 3; d++) {
        int block = 0, grid = 0;
        error |= cu.DeviceGetAttribute(&block, attribute_block_x + d, device);
        error |= cu.DeviceGetAttribute(&grid, attribute_grid_x + d, device);
        limits.block[d] = block;
        limits.grid[d] = grid;
    }
    limits.threads = threads;
    limits.shared_bytes = shared;
    return error == 0;
}

} // namespace kiln::runtime

extern "C" {

int kiln_original_cuda_device_release(void *user_context);

void *halide_cuda_get_symbol(void *user_context, const char *name) {
    return driver_symbol(&library, "libcuda.so.1", "libcuda.so", name);
}

int halide_default_cuda_acquire_context(void *user_context, Context *context, bool create) {
    char buffer[message_size];
    Text why(buffer, sizeof(buffer));
    int status = acquire(call_of(user_context), context, create, why);
    if (status != KILN_OK) {
        report(user_context, status, "%s", why.c_str());
        return halide_error_code_gpu_device_error;
    }
    return 0;
}

int halide_default_cuda_release_context(void *user_context) {
    return 0;
}

int halide_default_cuda_get_stream(void *user_context, Context context, Stream *stream) {
    *stream = call_of(user_context)->cuda_stream;
    return 0;
}

int halide_cuda_device_malloc(void *user_context, halide_buffer_t *buffer) {
    if (buffer->device) {
        return 0;
    }
    for (int i = 0; i < buffer->dimensions; i++) {
        if (buffer->dim[i].stride < 0) {
            report(user_context, KILN_INVALID_ARGUMENT,
                   "a buffer with stride %d in dimension %d has no device form", buffer->dim[i].stride, i);
            return halide_error_code_device_malloc_failed;
        }
    }
    Frame *frame = frame_of(user_context);
    const kiln_call *call = call_of(user_context);
    size_t bytes = bytes_of(buffer);
    Pointer p = 0;
    if (is_callers(frame, buffer)) {
        p = reinterpret_cast<Pointer>(call->alloc(call, bytes, 256, KILN_SPACE_CUDA));
        if (!p) {
            report(user_context, KILN_OUT_OF_MEMORY, "the caller's allocator gave no %zu bytes on the device",
                   bytes);
            return halide_error_code_device_malloc_failed;
        }
    } else {
        char text[message_size];
        Text why(text, sizeof(text));
        Current current(call, why);
        if (current.status() != KILN_OK) {
            report(user_context, current.status(), "%s", why.c_str());
            return halide_error_code_device_malloc_failed;
        }
        int error = has_pools() ? cu.MemAllocAsync(&p, bytes, call->cuda_stream) : cu.MemAlloc(&p, bytes);
        if (error != 0) {
            report(user_context, error == 2 ? KILN_OUT_OF_MEMORY : KILN_DEVICE_ERROR,
                   "the device gave no %zu bytes: %s (%d)", bytes, error_name(error), error);
            return halide_error_code_device_malloc_failed;
        }
    }
    buffer->device = p;
    buffer->device_interface = halide_cuda_device_interface();
    return 0;
}

int halide_cuda_device_free(void *user_context, halide_buffer_t *buffer) {
    if (!buffer->device) {
        return 0;
    }
    Frame *frame = frame_of(user_context);
    const kiln_call *call = call_of(user_context);
    Pointer p = buffer->device;
    if (is_callers(frame, buffer)) {
        call->free(call, reinterpret_cast<void *>(p), bytes_of(buffer), KILN_SPACE_CUDA);
    } else {
        char text[message_size];
        Text why(text, sizeof(text));
        Current current(call, why);
        if (current.status() != KILN_OK) {
            return halide_error_code_device_free_failed;
        }
        int error = has_pools() ? cu.MemFreeAsync(p, call->cuda_stream) : cu.MemFree(p);
        if (error != 0) {
            // A crop's address is no allocation's beginning: the driver refuses it.
            report(user_context, error == error_invalid_value ? KILN_INVALID_ARGUMENT : KILN_DEVICE_ERROR,
                   "the device does not free the memory at %#llx: %s (%d)%s", p, error_name(error), error,
                   error == error_invalid_value
                       ? "; a crop's memory belongs to the buffer that it was made of: use "
                         "halide_device_release_crop"
                       : "");
            return halide_error_code_device_free_failed;
        }
    }
    buffer->device = 0;
    buffer->device_interface = nullptr;
    return 0;
}

int halide_cuda_device_release(void *user_context) {
    // At exit the driver or the application may have destroyed the context already; Halide would abort over it.
    char text[message_size];
    Text why(text, sizeof(text));
    Context context = nullptr, old = nullptr;
    const kiln_call *call = call_of(user_context);
    if (acquire(call, &context, false, why) != KILN_OK || !context || cu.CtxPushCurrent(context) != 0) {
        return 0;
    }
    release_tile_modules(context);
    cu.CtxPopCurrent(&old);
    int code = kiln_original_cuda_device_release(user_context);
    Lock lock(mutex);
    for (int i = 0; i < max_devices; i++) {
        int device = 0;
        if (primary[i] == context && cu.DeviceGet(&device, i) == 0) {
            cu.DevicePrimaryCtxRelease(device);
            primary[i] = nullptr;
        }
    }
    return code;
}
}
