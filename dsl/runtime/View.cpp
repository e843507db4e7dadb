/** \file
 * Views of the caller's memory as halide_buffer_t, and what goes with them.
 */
#include "Frame.h"
#include "OpenCL.h"

#include <dlfcn.h>

using namespace kiln::runtime;

namespace {

const halide_type_t halide_types[] = {
    {halide_type_int, 8, 1},    {halide_type_int, 16, 1},   {halide_type_int, 32, 1},
    {halide_type_int, 64, 1},   {halide_type_uint, 8, 1},   {halide_type_uint, 16, 1},
    {halide_type_uint, 32, 1},  {halide_type_uint, 64, 1},  {halide_type_float, 16, 1},
    {halide_type_float, 32, 1}, {halide_type_float, 64, 1}, {halide_type_bfloat, 16, 1},
    {halide_type_uint, 1, 1},
};

/// A view without a shape, which every kernel refuses (check_buffer). Extents of 0 would be taken for nothing to do.
void clear(kiln_view *view) {
    *view = kiln_view();
    view->buffer.dimensions = -1;
}

/// Fills in shape and type. `strides` null: dense, dimension 0 innermost.
int describe(kiln_view *view, halide_type_t type, int rank, const int64_t *extents, const int64_t *strides) {
    clear(view);
    if (rank < 0 || rank > KILN_MAX_RANK) {
        return report(nullptr, KILN_INVALID_ARGUMENT, "the view has %d dimensions, at most %d are possible",
                      rank, KILN_MAX_RANK);
    }
    if (rank > 0 && !extents) {
        return report(nullptr, KILN_INVALID_ARGUMENT, "the view's extents are null");
    }
    int64_t dense = 1;
    for (int i = 0; i < rank; i++) {
        if (extents[i] < 0 || extents[i] > INT32_MAX) {
            return report(nullptr, KILN_INVALID_ARGUMENT, "the view has extent %lld in dimension %d, %s",
                          static_cast<long long>(extents[i]), i,
                          extents[i] < 0 ? "it cannot be negative" : "at most 2147483647 is possible");
        }
        int64_t stride = strides ? strides[i] : dense;
        if (extents[i] <= 1 && (stride > INT32_MAX || stride < INT32_MIN)) {
            stride = 1; // never used
        }
        if (stride > INT32_MAX || stride < INT32_MIN) {
            return report(nullptr, KILN_INVALID_ARGUMENT,
                          "the view has stride %lld in dimension %d, at most 2147483647 is possible",
                          static_cast<long long>(stride), i);
        }
        view->dim[i] = halide_dimension_t(0, static_cast<int32_t>(extents[i]), static_cast<int32_t>(stride));
        // Saturates: a stride beyond the last dimension that has more than one element is never used.
        if (!strides && __builtin_mul_overflow(dense, extents[i] ? extents[i] : 1, &dense)) {
            dense = INT64_MAX;
        }
    }
    view->buffer.type = type;
    view->buffer.dimensions = rank;
    view->buffer.dim = view->dim;
    return KILN_OK;
}

int describe(kiln_view *view, kiln_type type, int rank, const int64_t *extents, const int64_t *strides) {
    if (type < KILN_INT8 || type > KILN_BOOL) {
        clear(view);
        return report(nullptr, KILN_INVALID_ARGUMENT, "type %d is no kiln_type", static_cast<int>(type));
    }
    return describe(view, halide_types[type], rank, extents, strides);
}

void place_on_cuda(kiln_view *view, uint64_t address) {
    if (address) {
        view->buffer.device = address;
        view->buffer.device_interface = halide_cuda_device_interface();
        view->buffer.set_device_dirty(true); // The device copy is the only one.
    }
}

int place_on_opencl(kiln_view *view, void *mem, uint64_t byte_offset) {
    if (!mem) {
        return KILN_OK;
    }
    if (halide_opencl_wrap_cl_mem(nullptr, &view->buffer, reinterpret_cast<uint64_t>(mem)) != 0) {
        return KILN_INVALID_ARGUMENT;
    }
    reinterpret_cast<ClHandle *>(view->buffer.device)->offset = byte_offset;
    view->buffer.set_device_dirty(true);
    return KILN_OK;
}

/// Views may hold memory of a runtime in a shared library other than this one, which may be gone.
bool is_unloaded(const halide_device_interface_t *interface) {
    Dl_info info;
    return interface != halide_cuda_device_interface() && interface != halide_opencl_device_interface() &&
           dladdr(interface, &info) == 0;
}

void forget_device(halide_buffer_t *buffer) {
    buffer->device = 0;
    buffer->device_interface = nullptr;
    buffer->set_device_dirty(false);
}

bool type_of(DLDataType given, halide_type_t *type) {
    if (given.lanes != 1) {
        return false;
    }
    switch (given.code) {
    case kDLInt:
        *type = halide_type_t(halide_type_int, given.bits, 1);
        return true;
    case kDLUInt:
        *type = halide_type_t(halide_type_uint, given.bits, 1);
        return true;
    case kDLFloat:
        *type = halide_type_t(halide_type_float, given.bits, 1);
        return true;
    case kDLBfloat:
        *type = halide_type_t(halide_type_bfloat, given.bits, 1);
        return true;
    case kDLBool:
        *type = halide_type_t(halide_type_uint, 1, 1);
        return true;
    default:
        return false;
    }
}

} // namespace

extern "C" {

int kiln_view_host(kiln_view *view, kiln_type type, void *data, int rank, const int64_t *extents,
                   const int64_t *strides) {
    int status = describe(view, type, rank, extents, strides);
    view->buffer.host = status == KILN_OK ? static_cast<uint8_t *>(data) : nullptr;
    return status;
}

int kiln_view_cuda(kiln_view *view, kiln_type type, void *data, int rank, const int64_t *extents,
                   const int64_t *strides) {
    int status = describe(view, type, rank, extents, strides);
    if (status == KILN_OK) {
        place_on_cuda(view, reinterpret_cast<uint64_t>(data));
    }
    return status;
}

int kiln_view_opencl(kiln_view *view, kiln_type type, void *mem, uint64_t byte_offset, int rank,
                     const int64_t *extents, const int64_t *strides) {
    int status = describe(view, type, rank, extents, strides);
    return status == KILN_OK ? place_on_opencl(view, mem, byte_offset) : status;
}

int kiln_view_dlpack(kiln_view *view, const DLTensor *tensor) {
    clear(view);
    halide_type_t type;
    if (!tensor) {
        return report(nullptr, KILN_INVALID_ARGUMENT, "the tensor is null");
    }
    if (!type_of(tensor->dtype, &type)) {
        return report(nullptr, KILN_INVALID_ARGUMENT,
                      "the tensor has DLPack type code %d, %d bits, %d lanes, which "
                      "no kernel takes",
                      tensor->dtype.code, tensor->dtype.bits, tensor->dtype.lanes);
    }
    if (tensor->ndim < 0 || tensor->ndim > KILN_MAX_RANK) {
        return report(nullptr, KILN_INVALID_ARGUMENT, "the tensor has %d dimensions, at most %d are possible",
                      tensor->ndim, KILN_MAX_RANK);
    }
    // DLPack's last dimension is the innermost, Halide's first.
    int64_t extents[KILN_MAX_RANK], strides[KILN_MAX_RANK];
    for (int i = 0; i < tensor->ndim; i++) {
        extents[i] = tensor->shape[tensor->ndim - 1 - i];
        strides[i] = tensor->strides ? tensor->strides[tensor->ndim - 1 - i] : 0;
    }
    int status = describe(view, type, tensor->ndim, extents, tensor->strides ? strides : nullptr);
    if (status != KILN_OK) {
        return status;
    }
    uint8_t *data = static_cast<uint8_t *>(tensor->data);
    switch (tensor->device.device_type) {
    case kDLCPU:
    case kDLCUDAHost:
        view->buffer.host = data ? data + tensor->byte_offset : nullptr;
        return KILN_OK;
    case kDLCUDA:
    case kDLCUDAManaged:
        place_on_cuda(view, data ? reinterpret_cast<uint64_t>(data) + tensor->byte_offset : 0);
        return KILN_OK;
    case kDLOpenCL:
        return place_on_opencl(view, tensor->data, tensor->byte_offset);
    default:
        return report(nullptr, KILN_INVALID_ARGUMENT,
                      "the tensor is on DLPack device type %d; kernels take CPU, CUDA and OpenCL memory",
                      static_cast<int>(tensor->device.device_type));
    }
}

int kiln_view_release(const kiln_call *call, kiln_view *view) {
    halide_buffer_t *b = &view->buffer;
    void *uc = const_cast<kiln_call *>(call);
    if (!b->device) {
        return KILN_OK;
    }
    int code = 0;
    if (is_unloaded(b->device_interface)) {
        forget_device(b);
        return report(
            uc, KILN_DEVICE_ERROR,
            "the library that gave the view its device memory has been unloaded, and the memory is lost: "
            "release views before dlclose");
    }
    if (b->device_interface == halide_opencl_device_interface() &&
        reinterpret_cast<ClHandle *>(b->device)->offset != 0 && b->host) {
        code = halide_device_release_crop(uc, b);
        forget_device(b);
    } else if (b->host) {
        code = halide_device_free(uc, b);
    } else if (b->device_interface == halide_opencl_device_interface()) {
        code = halide_opencl_detach_cl_mem(uc, b);
    } else {
        forget_device(b);
    }
    b->set_device_dirty(false);
    return code == 0 ? KILN_OK : KILN_DEVICE_ERROR;
}

int kiln_synchronize(const kiln_call *call, const halide_device_interface_t *device) {
    Frame frame(call);
    if (halide_device_sync_global(&frame.call, device) != 0 && frame.status == 0) {
        frame.record(KILN_DEVICE_ERROR, "the device does not finish its work");
    }
    return frame.finish(call);
}

int kiln_release_context(const kiln_call *call, const halide_device_interface_t *device) {
    Frame frame(call);
    if (device) {
        halide_device_release(&frame.call, device);
    } else {
        halide_device_release(&frame.call, halide_cuda_device_interface());
        opencl_release_own();
    }
    return frame.finish(call);
}

const char *kiln_runtime_version(void) {
    return KILN_VERSION " (Halide 21.0.0)";
}
}
