#include "OpenCLStage.h"

#include "Lock.h"

using namespace kiln::runtime;

// Of OpenCL 1.2 (Khronos' CL/cl.h).
namespace {

using Id = void *;
constexpr uint32_t queue_device = 0x1091, device_base_alignment = 0x1019, memory_parent = 0x1107;
constexpr uint64_t read_write = 1;
constexpr int allocation_failure = -4, out_of_resources = -5, out_of_host_memory = -6, invalid_size = -61;

struct Driver {
    Id (*CreateBuffer)(Id, uint64_t, size_t, void *, int *);
    int (*ReleaseMemObject)(Id);
    int (*GetMemObjectInfo)(Id, uint32_t, size_t, void *, size_t *);
    int (*GetCommandQueueInfo)(Id, uint32_t, size_t, void *, size_t *);
    int (*GetDeviceInfo)(Id, uint32_t, size_t, void *, size_t *);
    int (*EnqueueCopyBuffer)(Id, Id, Id, size_t, size_t, size_t, uint32_t, const Id *, Id *);
    int (*EnqueueCopyBufferRect)(Id, Id, Id, const size_t *, const size_t *, const size_t *, size_t, size_t,
                                 size_t, size_t, uint32_t, const Id *, Id *);
    bool loaded;
};

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
Driver cl;

template<typename F>
bool load(F &f, const char *name) {
    f = reinterpret_cast<F>(opencl_symbol(name));
    return f != nullptr;
}

bool ensure_driver() {
    Lock lock(mutex);
    if (!cl.loaded) {
        cl.loaded =
            load(cl.CreateBuffer, "clCreateBuffer") && load(cl.ReleaseMemObject, "clReleaseMemObject") &&
            load(cl.GetMemObjectInfo, "clGetMemObjectInfo") &&
            load(cl.GetCommandQueueInfo, "clGetCommandQueueInfo") &&
            load(cl.GetDeviceInfo, "clGetDeviceInfo") && load(cl.EnqueueCopyBuffer, "clEnqueueCopyBuffer") &&
            load(cl.EnqueueCopyBufferRect, "clEnqueueCopyBufferRect");
    }
    return cl.loaded;
}

const ClHandle &handle_of(const halide_buffer_t *buffer) {
    return *reinterpret_cast<const ClHandle *>(buffer->device);
}

struct Queue {
    Id context = nullptr, queue = nullptr;
    int status;
    explicit Queue(const kiln_call *call) {
        char buffer[message_size];
        Text why(buffer, sizeof(buffer));
        status = opencl_queue(call, &context, &queue, why);
        if (status == KILN_OK && !ensure_driver()) {
            status = KILN_NO_DEVICE;
        }
        if (status != KILN_OK) {
            report(const_cast<kiln_call *>(call), status, "%s",
                   why.empty() ? "OpenCL lacks functions" : why.c_str());
        }
    }
};

/// Bytes of which offsets into a cl_mem must be multiples on the queue's device; 0 where it cannot be asked.
uint32_t offset_unit(Id queue) {
    Id device = nullptr;
    uint32_t bits = 0;
    const bool known = cl.GetCommandQueueInfo(queue, queue_device, sizeof(device), &device, nullptr) == 0 &&
                       cl.GetDeviceInfo(device, device_base_alignment, sizeof(bits), &bits, nullptr) == 0;
    return known ? bits / 8 : 0;
}

/// A cl_mem that is a part of another has no parts of its own (clCreateSubBuffer).
bool is_part(Id mem) {
    Id parent = nullptr;
    return cl.GetMemObjectInfo(mem, memory_parent, sizeof(parent), &parent, nullptr) == 0 && parent;
}

int fail(Frame &frame, const char *name, const halide_buffer_t &given, Id queue, const char *what,
         int error) {
    bool memory = error == allocation_failure || error == out_of_resources || error == out_of_host_memory ||
                  error == invalid_size;
    const ClHandle &handle = handle_of(&given);
    const uint32_t unit = offset_unit(queue);
    return report(
        &frame.call, memory ? KILN_OUT_OF_MEMORY : KILN_DEVICE_ERROR,
        "`%s` begins %llu bytes into %s, which the device cannot address, and its %llu bytes could not be %s "
        "(OpenCL error %d): let it begin at a multiple of %u bytes of a whole cl_mem",
        name, static_cast<unsigned long long>(handle.offset),
        is_part(handle.mem) ? "a cl_mem that is a part of another" : "its cl_mem",
        static_cast<unsigned long long>(given.size_in_bytes()), what, error, unit);
}

/// The dimensions of a box with more than one element, by rising stride, and what lies together at their inner end.
struct Box {
    size_t chunk; ///< bytes
    int rank = 0;
    size_t extent[KILN_MAX_RANK], pitch[KILN_MAX_RANK]; ///< elements, bytes

    explicit Box(const halide_buffer_t &b) : chunk(static_cast<size_t>(b.type.bytes())) {
        const size_t element = chunk;
        for (int d = 0; d < b.dimensions; d++) {
            if (b.dim[d].extent <= 1) {
                continue;
            }
            size_t bytes = static_cast<size_t>(b.dim[d].stride) * element;
            int at = rank++;
            for (; at > 0 && pitch[at - 1] > bytes; at--) {
                pitch[at] = pitch[at - 1];
                extent[at] = extent[at - 1];
            }
            pitch[at] = bytes;
            extent[at] = static_cast<size_t>(b.dim[d].extent);
        }
        while (rank > 0 && pitch[0] == chunk) {
            chunk *= extent[0];
            rank--;
            for (int d = 0; d < rank; d++) {
                pitch[d] = pitch[d + 1];
                extent[d] = extent[d + 1];
            }
        }
    }
};

/// Copies a box between memory of one layout, `from` and `to` bytes into it.
int copy_box(Id queue, const Box &box, int dim, Id source, size_t from, Id destination, size_t to) {
    if (dim > 1) {
        int error = 0;
        for (size_t i = 0; i < box.extent[dim - 1] && error == 0; i++) {
            size_t step = i * box.pitch[dim - 1];
            error = copy_box(queue, box, dim - 1, source, from + step, destination, to + step);
        }
        return error;
    }
    if (dim == 0) {
        return cl.EnqueueCopyBuffer(queue, source, destination, from, to, box.chunk, 0, nullptr, nullptr);
    }
    const size_t source_origin[] = {from, 0, 0}, destination_origin[] = {to, 0, 0};
    const size_t region[] = {box.chunk, box.extent[0], 1};
    return cl.EnqueueCopyBufferRect(queue, source, destination, source_origin, destination_origin, region,
                                    box.pitch[0], 0, box.pitch[0], 0, 0, nullptr, nullptr);
}

} // namespace

namespace kiln::runtime {

bool opencl_needs_stage(const kiln_call *call, const halide_buffer_t *buffer) {
    if (!buffer->device || buffer->device_interface != halide_opencl_device_interface() ||
        handle_of(buffer).offset == 0) {
        return false;
    }
    for (int d = 0; d < buffer->dimensions; d++) {
        if (buffer->dim[d].extent == 0 || buffer->dim[d].stride < 0) {
            return false;
        }
    }
    Queue q(call);
    if (q.status != KILN_OK) {
        return false;
    }
    const ClHandle &handle = handle_of(buffer);
    const uint32_t unit = offset_unit(q.queue);
    return (unit > 0 && handle.offset % unit != 0) || is_part(handle.mem);
}

int opencl_stage(Frame &frame, const char *name, halide_buffer_t *given, halide_buffer_t *copy, bool is_input,
                 OpenCLStage &stage) {
    if (is_input && given->host_dirty()) {
        if (halide_copy_to_device(&frame.call, given, nullptr) != 0) {
            return frame.status;
        }
        copy->flags = given->flags;
    }
    Queue q(&frame.call);
    if (q.status != KILN_OK) {
        return q.status;
    }
    int error = 0;
    size_t bytes = given->size_in_bytes();
    Id mem = cl.CreateBuffer(q.context, read_write, bytes, nullptr, &error);
    if (error != 0) {
        return fail(frame, name, *given, q.queue, "given memory of their own", error);
    }
    if (is_input) {
        const ClHandle &from = handle_of(given);
        error = cl.EnqueueCopyBuffer(q.queue, from.mem, mem, from.offset, 0, bytes, 0, nullptr, nullptr);
        if (error != 0) {
            cl.ReleaseMemObject(mem);
            return fail(frame, name, *given, q.queue, "copied", error);
        }
    }
    stage.handle = {0, mem};
    copy->device = reinterpret_cast<uint64_t>(&stage.handle);
    return KILN_OK;
}

int opencl_unstage(Frame &frame, const char *name, const halide_buffer_t *given, bool is_written,
                   OpenCLStage &stage) {
    int status = KILN_OK;
    if (is_written) {
        Queue q(&frame.call);
        Box box(*given);
        const ClHandle &to = handle_of(given);
        int error = q.status == KILN_OK
                        ? copy_box(q.queue, box, box.rank, stage.handle.mem, 0, to.mem, to.offset)
                        : 0;
        status = error == 0 ? q.status : fail(frame, name, *given, q.queue, "copied back", error);
    }
    // The queue keeps what its commands still need.
    cl.ReleaseMemObject(stage.handle.mem);
    stage.handle = {};
    return status;
}

} // namespace kiln::runtime
