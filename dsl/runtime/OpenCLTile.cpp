/** \file
 * Tile kernels on OpenCL: one program a kernel, context and device, built by the driver from its source at the first launch
 * there or at kiln_tile_prepare. A tile is a work-group.
 */
#include "Lock.h"
#include "OpenCL.h"
#include "TileLaunch.h"

#include <cstdlib>

using namespace kiln::runtime;

// Of OpenCL 1.2 (Khronos' CL/cl.h).
namespace {

using Id = void *;
constexpr uint32_t queue_device = 0x1091, device_local_memory = 0x1023, memory_size = 0x1102;
constexpr uint32_t device_base_alignment = 0x1019, device_name = 0x102B;
constexpr int misaligned_offset = -13;
constexpr uint32_t program_build_log = 0x1183, kernel_work_group_size = 0x11B0, create_region = 0x1220;

struct Driver {
    int (*GetCommandQueueInfo)(Id, uint32_t, size_t, void *, size_t *);
    int (*GetDeviceInfo)(Id, uint32_t, size_t, void *, size_t *);
    Id (*CreateProgramWithSource)(Id, uint32_t, const char **, const size_t *, int *);
    int (*BuildProgram)(Id, uint32_t, const Id *, const char *, void *, void *);
    int (*GetProgramBuildInfo)(Id, Id, uint32_t, size_t, void *, size_t *);
    int (*ReleaseProgram)(Id);
    Id (*CreateKernel)(Id, const char *, int *);
    int (*ReleaseKernel)(Id);
    int (*GetKernelWorkGroupInfo)(Id, Id, uint32_t, size_t, void *, size_t *);
    int (*SetKernelArg)(Id, uint32_t, size_t, const void *);
    int (*EnqueueNDRangeKernel)(Id, Id, uint32_t, const size_t *, const size_t *, const size_t *, uint32_t,
                                const Id *, Id *);
    int (*GetMemObjectInfo)(Id, uint32_t, size_t, void *, size_t *);
    Id (*CreateSubBuffer)(Id, uint64_t, uint32_t, const void *, int *);
    int (*ReleaseMemObject)(Id);
    bool loaded;
};

struct Program {
    uint32_t id;
    Id context, device, program, kernel;
    Program *next;
};

/// Guards all below, and a kernel's arguments until it is queued: OpenCL keeps them in the kernel.
pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
Driver cl;
// Kernels have numbers, since another library may lie at a closed one's address.
uint32_t last_id;
Program *programs;

template<typename F>
bool load(F &f, const char *name) {
    f = reinterpret_cast<F>(opencl_symbol(name));
    return f != nullptr;
}

bool ensure_driver() {
    if (!cl.loaded) {
        cl.loaded = load(cl.GetCommandQueueInfo, "clGetCommandQueueInfo") &&
                    load(cl.GetDeviceInfo, "clGetDeviceInfo") &&
                    load(cl.CreateProgramWithSource, "clCreateProgramWithSource") &&
                    load(cl.BuildProgram, "clBuildProgram") &&
                    load(cl.GetProgramBuildInfo, "clGetProgramBuildInfo") &&
                    load(cl.ReleaseProgram, "clReleaseProgram") && load(cl.CreateKernel, "clCreateKernel") &&
                    load(cl.ReleaseKernel, "clReleaseKernel") &&
                    load(cl.GetKernelWorkGroupInfo, "clGetKernelWorkGroupInfo") &&
                    load(cl.SetKernelArg, "clSetKernelArg") &&
                    load(cl.EnqueueNDRangeKernel, "clEnqueueNDRangeKernel") &&
                    load(cl.GetMemObjectInfo, "clGetMemObjectInfo") &&
                    load(cl.CreateSubBuffer, "clCreateSubBuffer") &&
                    load(cl.ReleaseMemObject, "clReleaseMemObject");
    }
    return cl.loaded;
}

struct Queue {
    Id context = nullptr, queue = nullptr, device = nullptr;
};

int find_queue(void *user_context, Queue &q) {
    char buffer[message_size];
    Text why(buffer, sizeof(buffer));
    int status = opencl_queue(call_of(user_context), &q.context, &q.queue, why);
    if (status == KILN_OK &&
        (!ensure_driver() ||
         cl.GetCommandQueueInfo(q.queue, queue_device, sizeof(q.device), &q.device, nullptr) != 0)) {
        status = KILN_NO_DEVICE;
        why("OpenCL lacks functions that tile kernels need");
    }
    return status == KILN_OK ? status : report(user_context, status, "%s", why.c_str());
}

int fail(void *user_context, const kiln_tile_kernel &kernel, const char *what, int error) {
    return report(user_context, KILN_DEVICE_ERROR, "%s for the tile kernel of `%s` failed: OpenCL error %d",
                  what, kernel.name, error);
}

int build(void *user_context, const kiln_tile_kernel &kernel, const Queue &q, Program &p) {
    uint64_t local = 0;
    if (cl.GetDeviceInfo(q.device, device_local_memory, sizeof(local), &local, nullptr) == 0 &&
        static_cast<uint64_t>(kernel.shared_bytes) > local) {
        return report(user_context, KILN_UNSUPPORTED,
                      "the tile kernel of `%s` needs %d bytes of local memory a work-group, the device has "
                      "%llu",
                      kernel.name, kernel.shared_bytes, static_cast<unsigned long long>(local));
    }
    const char *source = static_cast<const char *>(kernel.image);
    const size_t length = static_cast<size_t>(kernel.image_bytes);
    int error = 0;
    p.program = cl.CreateProgramWithSource(q.context, 1, &source, &length, &error);
    if (error != 0) {
        return fail(user_context, kernel, "clCreateProgramWithSource", error);
    }
    error = cl.BuildProgram(p.program, 1, &q.device, "-cl-denorms-are-zero", nullptr, nullptr);
    if (error != 0) {
        char log[4096] = "";
        cl.GetProgramBuildInfo(p.program, q.device, program_build_log, sizeof(log), log, nullptr);
        return report(user_context, KILN_DEVICE_ERROR,
                      "the driver does not compile the tile kernel of `%s` (OpenCL error %d): %.600s",
                      kernel.name, error, log);
    }
    p.kernel = cl.CreateKernel(p.program, kernel.function, &error);
    if (error != 0) {
        return fail(user_context, kernel, "clCreateKernel", error);
    }
    size_t most = 0;
    if (cl.GetKernelWorkGroupInfo(p.kernel, q.device, kernel_work_group_size, sizeof(most), &most, nullptr) ==
            0 &&
        most > 0 && static_cast<size_t>(kernel.threads) > most) {
        return report(user_context, KILN_UNSUPPORTED,
                      "the tile kernel of `%s` needs %d work items a work-group, the device allows %llu",
                      kernel.name, kernel.threads, static_cast<unsigned long long>(most));
    }
    return 0;
}

void drop(Program *p) {
    if (p->kernel) {
        cl.ReleaseKernel(p->kernel);
    }
    if (p->program) {
        cl.ReleaseProgram(p->program);
    }
    free(p);
}

/// The kernel's program for the queue's device and context: null after a report. Under the lock.
Program *program_of(void *user_context, const kiln_tile_kernel &kernel, const Queue &q, int &code) {
    if (*kernel.id == 0) {
        *kernel.id = ++last_id;
    }
    for (Program *p = programs; p; p = p->next) {
        if (p->id == *kernel.id && p->context == q.context && p->device == q.device) {
            return p;
        }
    }
    Program *p = static_cast<Program *>(calloc(1, sizeof(Program)));
    if (!p) {
        code = report(user_context, KILN_OUT_OF_MEMORY, "no memory for the program of `%s`", kernel.name);
        return nullptr;
    }
    p->id = *kernel.id;
    p->context = q.context;
    p->device = q.device;
    code = build(user_context, kernel, q, *p);
    if (code != 0) {
        drop(p);
        return nullptr;
    }
    p->next = programs;
    programs = p;
    return p;
}

int refuse_offset(const TileCall &call, const char *name, uint64_t offset, Id device) {
    uint32_t bits = 0;
    char device_text[128] = "";
    cl.GetDeviceInfo(device, device_base_alignment, sizeof(bits), &bits, nullptr);
    cl.GetDeviceInfo(device, device_name, sizeof(device_text), device_text, nullptr);
    return report(
        call.user_context, KILN_INVALID_ARGUMENT,
        "`%s` of the tile kernel of `%s` begins %llu bytes into its cl_mem, where `%s` addresses multiples "
        "of %u bytes: let it begin at one, or copy it into memory of its own",
        name, call.kernel.name, static_cast<unsigned long long>(offset), device_text, bits / 8);
}

/// Views that begin inside a buffer, for as long as their arguments are set.
class Memory {
public:
    explicit Memory(Id device) : device_(device) {}
    ~Memory() {
        for (int i = 0; i < count_; i++) {
            cl.ReleaseMemObject(parts_[i]); // the queue keeps what its commands still need
        }
    }
    /// The cl_mem whose first byte is the view's first element; null for none.
    int of(const TileCall &call, const kiln_tile_view &view, Id &mem) {
        mem = nullptr;
        if (!view.buffer->device) {
            return 0;
        }
        const ClHandle &handle = *reinterpret_cast<const ClHandle *>(view.buffer->device);
        mem = handle.mem;
        if (handle.offset == 0) {
            return 0;
        }
        size_t all = 0;
        int error = cl.GetMemObjectInfo(handle.mem, memory_size, sizeof(all), &all, nullptr);
        const size_t region[] = {static_cast<size_t>(handle.offset),
                                 all - static_cast<size_t>(handle.offset)};
        if (error == 0) {
            mem = cl.CreateSubBuffer(handle.mem, 0, create_region, region, &error);
        }
        if (error == misaligned_offset) {
            return refuse_offset(call, view.name, handle.offset, device_);
        }
        if (error != 0) {
            return fail(call.user_context, call.kernel, "clCreateSubBuffer", error);
        }
        parts_[count_++] = mem;
        return 0;
    }

private:
    Id device_;
    Id parts_[KILN_TILE_MAX_PARAMS];
    int count_ = 0;
};

int set_arguments(const TileCall &call, Id kernel, Memory &memory) {
    for (int32_t i = 0; i < call.param_count; i++) {
        const kiln_tile_param &p = call.params[i];
        const void *at = &p.value;
        size_t bytes = p.bytes ? p.bytes : sizeof(int32_t);
        int32_t narrow = 0;
        uint64_t reciprocal = 0;
        Id mem = nullptr;
        switch (p.kind) {
        case KILN_TILE_POINTER:
            if (int code = memory.of(call, call.views[p.view], mem)) {
                return code;
            }
            at = &mem;
            bytes = sizeof(mem);
            break;
        case KILN_TILE_INT:
            if (int code = check_tile_int(call, p)) {
                return code;
            }
            narrow = static_cast<int32_t>(p.value);
            at = &narrow;
            bytes = sizeof(narrow);
            break;
        case KILN_TILE_RECIPROCAL:
            reciprocal = tile_reciprocal(p);
            at = &reciprocal;
            bytes = sizeof(reciprocal);
            break;
        case KILN_TILE_VALUE:
            break;
        default:
            return report(call.user_context, KILN_INTERNAL_ERROR,
                          "parameter %d of the tile kernel of `%s` has no form in OpenCL", i,
                          call.kernel.name);
        }
        if (int error = cl.SetKernelArg(kernel, static_cast<uint32_t>(i), bytes, at)) {
            return fail(call.user_context, call.kernel, "clSetKernelArg", error);
        }
    }
    return 0;
}

} // namespace

namespace kiln::runtime {

int opencl_tile_prepare(void *user_context, const kiln_tile_kernel &kernel) {
    Lock lock(mutex);
    Queue q;
    int code = find_queue(user_context, q);
    if (code == 0) {
        program_of(user_context, kernel, q, code);
    }
    return code;
}

int opencl_tile_launch(const TileCall &call) {
    const kiln_tile_kernel &kernel = call.kernel;
    if (call.tiles < 0 || call.tiles > INT32_MAX) {
        return refuse_tile_grid(call, INT32_MAX);
    }
    if (int code = give_tile_memory(call)) {
        return code;
    }
    Lock lock(mutex);
    Queue q;
    int code = find_queue(call.user_context, q);
    const Program *p = code == 0 ? program_of(call.user_context, kernel, q, code) : nullptr;
    Memory memory(q.device);
    if (!p || (code = set_arguments(call, p->kernel, memory)) != 0) {
        return code;
    }
    const size_t local = static_cast<size_t>(kernel.threads), all = static_cast<size_t>(call.tiles) * local;
    int error = cl.EnqueueNDRangeKernel(q.queue, p->kernel, 1, nullptr, &all, &local, 0, nullptr, nullptr);
    if (error == 0) {
        return 0;
    }
    return report(call.user_context, KILN_DEVICE_ERROR,
                  "clEnqueueNDRangeKernel for the tile kernel of `%s` (%lld work-groups of %d work items) "
                  "failed: OpenCL error %d",
                  kernel.name, static_cast<long long>(call.tiles), kernel.threads, error);
}

void release_opencl_tiles(void *context) {
    Lock lock(mutex);
    for (Program **at = &programs; *at;) {
        Program *p = *at;
        if (p->context != context) {
            at = &p->next;
            continue;
        }
        *at = p->next;
        drop(p);
    }
}

} // namespace kiln::runtime
