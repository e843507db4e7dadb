#include "OpenCL.h"

#include "DriverLibrary.h"
#include "Lock.h"
#include "TileLaunch.h"

#include <cstdlib>
#include <cstring>

using namespace kiln::runtime;

extern "C" void *halide_opencl_get_symbol(void *user_context, const char *name);
extern "C" int kiln_original_load_opencl(void *user_context);
extern "C" int halide_opencl_device_release(void *user_context);

// The few of OpenCL 1.2's functions and numbers that are used here (Khronos' CL/cl.h).
namespace {

using Id = void *;
constexpr int platform_name = 0x0902, context_devices = 0x1081;
constexpr int queue_context = 0x1090, queue_device = 0x1091, context_platform = 0x1084;
constexpr int device_vector_width = 0x103A, device_type = 0x1000, device_local_memory = 0x1023,
              device_name = 0x102B;
constexpr uint64_t type_cpu = 2, type_gpu = 4, type_accelerator = 8, type_all = 0xFFFFFFFF;

struct Driver {
    int (*GetPlatformIDs)(uint32_t, Id *, uint32_t *);
    int (*GetPlatformInfo)(Id, uint32_t, size_t, void *, size_t *);
    int (*GetDeviceInfo)(Id, uint32_t, size_t, void *, size_t *);
    int (*GetDeviceIDs)(Id, uint64_t, uint32_t, Id *, uint32_t *);
    Id (*CreateContext)(const intptr_t *, uint32_t, const Id *, void *, void *, int *);
    int (*GetContextInfo)(Id, uint32_t, size_t, void *, size_t *);
    int (*ReleaseContext)(Id);
    Id (*CreateCommandQueue)(Id, Id, uint64_t, int *);
    int (*GetCommandQueueInfo)(Id, uint32_t, size_t, void *, size_t *);
    int (*ReleaseCommandQueue)(Id);
    int (*Finish)(Id);
    int (*BuildProgram)(Id, uint32_t, const Id *, const char *, void *, void *);
    bool loaded;        ///< the above
    bool halide_loaded; ///< Halide's own
};

struct Entry {
    Id context, queue;
    int device;   ///< ordinal, for contexts that are ours
    bool is_ours; ///< the context too, not only the queue
    Entry *next;
};

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
Driver cl;
void *library;
Entry *entries; ///< contexts that we made, and callers' contexts that came without a queue

template<typename F>
bool load(F &f, const char *name) {
    f = reinterpret_cast<F>(opencl_symbol(name));
    return f != nullptr;
}

/// Halide ends the program where two threads load its functions at once, or one loads them twice.
int load_halides(void *user_context) {
    if (cl.halide_loaded) {
        return 0;
    }
    int code = kiln_original_load_opencl(user_context);
    cl.halide_loaded = code == 0;
    return code;
}

bool ensure_driver() {
    if (!cl.loaded) {
        cl.loaded =
            load(cl.GetPlatformIDs, "clGetPlatformIDs") && load(cl.GetPlatformInfo, "clGetPlatformInfo") &&
            load(cl.GetDeviceInfo, "clGetDeviceInfo") && load(cl.GetDeviceIDs, "clGetDeviceIDs") &&
            load(cl.CreateContext, "clCreateContext") && load(cl.GetContextInfo, "clGetContextInfo") &&
            load(cl.ReleaseContext, "clReleaseContext") &&
            load(cl.CreateCommandQueue, "clCreateCommandQueue") &&
            load(cl.GetCommandQueueInfo, "clGetCommandQueueInfo") &&
            load(cl.ReleaseCommandQueue, "clReleaseCommandQueue") && load(cl.Finish, "clFinish") &&
            load(cl.BuildProgram, "clBuildProgram") && load_halides(nullptr) == 0;
    }
    return cl.loaded;
}

/// Halide builds for a context's first device and keeps that program for every queue of the context, which may be on another
/// device. Where not all take it, those that were asked for.
int build_for_all_devices(Id program, uint32_t count, const Id *devices, const char *options, void *notify,
                          void *data) {
    const int error = cl.BuildProgram(program, 0, nullptr, options, notify, data);
    return error == 0 ? 0 : cl.BuildProgram(program, count, devices, options, notify, data);
}

/// Halide has room for one device of a context, and OpenCL gives all or none: here as many as there is room for.
int devices_of_context(Id context, uint32_t what, size_t room, void *value, size_t *bytes) {
    if (what != context_devices || !value) {
        return cl.GetContextInfo(context, what, room, value, bytes);
    }
    Id devices[64];
    size_t all = 0;
    const int error = cl.GetContextInfo(context, what, sizeof(devices), devices, &all);
    if (error == 0) {
        const size_t some = all < room ? all : room;
        memcpy(value, devices, some);
        if (bytes) {
            *bytes = some;
        }
    }
    return error;
}

uint64_t wanted_type(const char *text) {
    uint64_t type = 0;
    type |= text && strstr(text, "cpu") ? type_cpu : 0;
    type |= text && strstr(text, "gpu") ? type_gpu : 0;
    type |= text && strstr(text, "acc") ? type_accelerator : 0;
    return type ? type : type_all;
}

/// Makes a context and a queue for the device that the call and the environment ask for.
int make_default(const kiln_call *call, Entry &entry, Text &why) {
    void *uc = const_cast<kiln_call *>(call);
    Id platforms[16];
    uint32_t platform_count = 0;
    if (cl.GetPlatformIDs(16, platforms, &platform_count) != 0 || platform_count == 0) {
        why("OpenCL's loader finds no platform: no driver is installed (see /etc/OpenCL/vendors)");
        return KILN_NO_DEVICE;
    }
    platform_count = platform_count > 16 ? 16 : platform_count;
    const char *name = halide_opencl_get_platform_name(uc);
    const char *type = halide_opencl_get_device_type(uc);
    char found_buffer[512];
    Text found(found_buffer, sizeof(found_buffer));
    uint32_t seen = 0;
    bool named = false;
    for (uint32_t p = 0; p < platform_count; p++) {
        char text[256] = "";
        cl.GetPlatformInfo(platforms[p], platform_name, sizeof(text), text, nullptr);
        found("%s`%s`", found.empty() ? "" : ", ", text);
        if (name && *name && !strstr(text, name)) {
            continue;
        }
        named = true;
        Id devices[64];
        uint32_t count = 0;
        if (cl.GetDeviceIDs(platforms[p], wanted_type(type), 64, devices, &count) != 0) {
            continue;
        }
        count = count > 64 ? 64 : count;
        if (static_cast<uint32_t>(call->device) >= seen + count) {
            seen += count;
            continue;
        }
        Id device = devices[static_cast<uint32_t>(call->device) - seen];
        intptr_t properties[] = {context_platform, reinterpret_cast<intptr_t>(platforms[p]), 0};
        int error = 0;
        entry.context = cl.CreateContext(properties, 1, &device, nullptr, nullptr, &error);
        if (error == 0) {
            entry.queue = cl.CreateCommandQueue(entry.context, device, 0, &error);
        }
        if (error != 0) {
            why("platform `%s` makes no context or queue for device %d (OpenCL error %d)", text, call->device,
                error);
            return KILN_DEVICE_ERROR;
        }
        entry.device = call->device;
        entry.is_ours = true;
        return KILN_OK;
    }
    if (!named) {
        why("no OpenCL platform is named like `%s` (HL_OCL_PLATFORM_NAME), there are %s", name,
            found.c_str());
    } else if (seen == 0) {
        why("no OpenCL device of type `%s` (HL_OCL_DEVICE_TYPE) on platforms %s",
            type && *type ? type : "all", found.c_str());
    } else {
        why("OpenCL device %d was asked for, but platforms %s have %u", call->device, found.c_str(), seen);
    }
    return KILN_NO_DEVICE;
}

/// A queue for a caller's context that came without one.
int make_queue(Id context, Entry &entry, Text &why) {
    Id devices[64];
    size_t bytes = 0;
    int error = cl.GetContextInfo(context, context_devices, sizeof(devices), devices, &bytes);
    if (error == 0 && bytes >= sizeof(Id)) {
        entry.queue = cl.CreateCommandQueue(context, devices[0], 0, &error);
    }
    if (error != 0 || !entry.queue) {
        why("the cl_context of the call takes no queue (OpenCL error %d)", error);
        return KILN_INVALID_ARGUMENT;
    }
    entry.context = context;
    entry.is_ours = false;
    return KILN_OK;
}

int acquire(const kiln_call *call, Id *context, Id *queue, bool create, Text &why) {
    *context = *queue = nullptr;
    Lock lock(mutex);
    if (!create && !cl.loaded) {
        return KILN_OK;
    }
    if (!ensure_driver()) {
        why("OpenCL's loader was not found: libOpenCL.so.1 could not be opened");
        return KILN_NO_DEVICE;
    }
    if (call->cl_queue) {
        *queue = call->cl_queue;
        *context = call->cl_context;
        if (!*context && cl.GetCommandQueueInfo(*queue, queue_context, sizeof(Id), context, nullptr) != 0) {
            why("the cl_queue of the call is not valid");
            return KILN_INVALID_ARGUMENT;
        }
        return KILN_OK;
    }
    for (Entry *e = entries; e; e = e->next) {
        if (call->cl_context ? e->context == call->cl_context : e->is_ours && e->device == call->device) {
            *context = e->context;
            *queue = e->queue;
            return KILN_OK;
        }
    }
    if (!create) {
        return KILN_OK;
    }
    Entry made = {};
    int status = call->cl_context ? make_queue(call->cl_context, made, why) : make_default(call, made, why);
    if (status != KILN_OK) {
        return status;
    }
    Entry *kept = static_cast<Entry *>(malloc(sizeof(Entry)));
    if (!kept) {
        why("no memory");
        return KILN_OUT_OF_MEMORY;
    }
    *kept = made;
    kept->next = entries;
    entries = kept;
    *context = kept->context;
    *queue = kept->queue;
    return KILN_OK;
}

/// 0 where it cannot be asked.
template<typename T>
T device_fact(const kiln_call *call, uint32_t which) {
    char buffer[message_size];
    Text why(buffer, sizeof(buffer));
    Id context, queue, device = nullptr;
    T fact = 0;
    const bool known = acquire(call, &context, &queue, true, why) == KILN_OK &&
                       cl.GetCommandQueueInfo(queue, queue_device, sizeof(device), &device, nullptr) == 0 &&
                       cl.GetDeviceInfo(device, which, sizeof(fact), &fact, nullptr) == 0;
    return known ? fact : 0;
}

bool is_empty(const halide_buffer_t *buffer) {
    for (int i = 0; i < buffer->dimensions; i++) {
        if (buffer->dim[i].extent <= 0) {
            return true;
        }
    }
    return false;
}

} // namespace

namespace kiln::runtime {

void *opencl_symbol(const char *name) {
    return driver_symbol(&library, "libOpenCL.so.1", "libOpenCL.so", name);
}

bool opencl_fits(const kiln_call *call, Text &why) {
    Id context, queue;
    return acquire(call, &context, &queue, true, why) == KILN_OK;
}

int opencl_queue(const kiln_call *call, void **context, void **queue, Text &why) {
    return acquire(call, context, queue, true, why);
}

bool opencl_limits(const kiln_call *call, LaunchLimits &limits) {
    char buffer[message_size];
    Text why(buffer, sizeof(buffer));
    Id context, queue, device = nullptr;
    uint64_t bytes = 0;
    if (acquire(call, &context, &queue, true, why) != KILN_OK ||
        cl.GetCommandQueueInfo(queue, queue_device, sizeof(device), &device, nullptr) != 0 ||
        cl.GetDeviceInfo(device, device_local_memory, sizeof(bytes), &bytes, nullptr) != 0 ||
        cl.GetDeviceInfo(device, device_name, sizeof(limits.device), limits.device, nullptr) != 0) {
        return false;
    }
    limits.threads = INT64_MAX;
    for (int d = 0; d < 3; d++) {
        limits.block[d] = limits.grid[d] = INT64_MAX;
    }
    limits.shared_bytes = static_cast<int64_t>(bytes);
    return true;
}

uint64_t opencl_device_kind(const kiln_call *call) {
    return device_fact<uint64_t>(call, device_type);
}

uint32_t opencl_device_vector(const kiln_call *call) {
    return device_fact<uint32_t>(call, device_vector_width);
}

void opencl_release_own() {
    kiln_call call = {};
    call.size = sizeof(call);
    for (bool found = true; found;) {
        {
            Lock lock(mutex);
            Entry *e = entries;
            while (e && !e->is_ours) {
                e = e->next;
            }
            found = e != nullptr;
            call.device = found ? e->device : 0;
        }
        if (found) {
            halide_opencl_device_release(&call);
        }
    }
}

} // namespace kiln::runtime

// Stands in for Halide's function of this name.
namespace Halide::Runtime::Internal::OpenCL {
int load_libopencl(void *user_context);
int load_libopencl(void *user_context) {
    Lock lock(mutex);
    return load_halides(user_context);
}
} // namespace Halide::Runtime::Internal::OpenCL

extern "C" {

int kiln_original_opencl_device_malloc(void *user_context, halide_buffer_t *buffer);
int kiln_original_opencl_device_free(void *user_context, halide_buffer_t *buffer);
int kiln_original_opencl_buffer_copy(void *user_context, halide_buffer_t *from,
                                     const halide_device_interface_t *to_interface, halide_buffer_t *to);
int kiln_original_opencl_device_release(void *user_context);

void *halide_opencl_get_symbol(void *user_context, const char *name) {
    void *symbol = opencl_symbol(name);
    if (symbol && strcmp(name, "clBuildProgram") == 0) {
        return reinterpret_cast<void *>(&build_for_all_devices);
    }
    if (symbol && strcmp(name, "clGetContextInfo") == 0) {
        return reinterpret_cast<void *>(&devices_of_context);
    }
    return symbol;
}

/// Halide holds its own lock from here to the release, which a nested call would wait for for ever: we hold none.
/// Kernels and copies of one queue are in order; programs are kept for each context.
int halide_acquire_cl_context(void *user_context, Id *context, Id *queue, bool create) {
    char buffer[message_size];
    Text why(buffer, sizeof(buffer));
    int status = acquire(call_of(user_context), context, queue, create, why);
    if (status != KILN_OK) {
        report(user_context, status, "%s", why.c_str());
        return halide_error_code_no_device_interface;
    }
    return 0;
}

int halide_release_cl_context(void *user_context) {
    return 0;
}

int halide_opencl_device_malloc(void *user_context, halide_buffer_t *buffer) {
    for (int i = 0; i < buffer->dimensions && !buffer->device; i++) {
        if (buffer->dim[i].stride < 0) {
            report(user_context, KILN_INVALID_ARGUMENT,
                   "a buffer with stride %d in dimension %d has no device form", buffer->dim[i].stride, i);
            return halide_error_code_device_malloc_failed;
        }
    }
    if (!is_empty(buffer)) {
        return kiln_original_opencl_device_malloc(user_context, buffer);
    }
    // OpenCL has no empty buffers, and Halide ends the program over one, also where it has its memory already.
    if (buffer->device) {
        return 0;
    }
    halide_dimension_t dim(0, 64, 1);
    halide_buffer_t some = *buffer;
    some.dimensions = 1;
    some.dim = &dim;
    int code = kiln_original_opencl_device_malloc(user_context, &some);
    buffer->device = some.device;
    buffer->device_interface = some.device_interface;
    return code;
}

/// Halide ends the program over a crop.
int halide_opencl_device_free(void *user_context, halide_buffer_t *buffer) {
    if (buffer->device && reinterpret_cast<ClHandle *>(buffer->device)->offset != 0) {
        report(
            user_context, KILN_INVALID_ARGUMENT,
            "a crop's memory belongs to the buffer that it was made of: use halide_device_release_crop, not "
            "halide_device_free");
        return halide_error_code_device_free_failed;
    }
    return kiln_original_opencl_device_free(user_context, buffer);
}

/// OpenCL copies no zero bytes.
int halide_opencl_buffer_copy(void *user_context, halide_buffer_t *from,
                              const halide_device_interface_t *to_interface, halide_buffer_t *to) {
    return is_empty(to) ? 0 : kiln_original_opencl_buffer_copy(user_context, from, to_interface, to);
}

/// Stands in for the destructor in Halide's runtime, which waits for the device. Unloading a library holds the dynamic
/// loader's lock, and a driver that must load what it compiled (PoCL) waits for that: neither would end. What is left
/// goes with the process; who unloads a library earlier calls kiln_release_context first.
void halide_opencl_cleanup() {}

int halide_opencl_device_release(void *user_context) {
    if (!cl.halide_loaded) {
        return 0;
    }
    const kiln_call *call = call_of(user_context);
    char buffer[message_size];
    Text why(buffer, sizeof(buffer));
    Id context, queue;
    if (acquire(call, &context, &queue, false, why) == KILN_OK && context) {
        release_opencl_tiles(context);
    }
    int code = kiln_original_opencl_device_release(user_context);
    Lock lock(mutex);
    for (Entry **at = &entries; *at;) {
        Entry *e = *at;
        bool match =
            call->cl_context ? e->context == call->cl_context : e->is_ours && e->device == call->device;
        if (!match || call->cl_queue) {
            at = &e->next;
            continue;
        }
        cl.ReleaseCommandQueue(e->queue);
        if (e->is_ours) {
            cl.ReleaseContext(e->context);
        }
        *at = e->next;
        free(e);
    }
    return code;
}
}
