#include "Select.h"

#include "Amx.h"
#include "Check.h"
#include "Cuda.h"
#include "OpenCL.h"

namespace kiln::runtime {

namespace {

const char *const backend_names[] = {"the CPU", "CUDA", "OpenCL"};

/// Where the data lie decides on the backend: device memory binds, then what the call names.
int bound_backend(const Frame &frame, const kiln_entry_library &library, halide_buffer_t *const *buffers,
                  const char **because, bool *host_too) {
    for (int i = 0; buffers && i < library.argument_count; i++) {
        if (!buffers[i] || !buffers[i]->device) {
            continue;
        }
        // An output's device copy is rewritten anyway, and an input that is newer on the host binds nothing.
        if (buffers[i]->host && !buffers[i]->device_dirty()) {
            continue;
        }
        *because = library.arguments[i].name;
        *host_too = buffers[i]->host != nullptr;
        if (buffers[i]->device_interface == halide_cuda_device_interface()) {
            return KILN_CUDA;
        }
        if (buffers[i]->device_interface == halide_opencl_device_interface()) {
            return KILN_OPENCL;
        }
    }
    *because = nullptr;
    if (frame.call.cuda_context || frame.call.cuda_stream) {
        return KILN_CUDA;
    }
    return frame.call.cl_context || frame.call.cl_queue ? KILN_OPENCL : -1;
}

bool has_backend(const kiln_entry_library &library, int backend) {
    for (int i = 0; i < library.variant_count; i++) {
        if (library.variants[i].backend == backend) {
            return true;
        }
    }
    return false;
}

const char *kind_name(uint64_t type) {
    return type & 2 ? "cpu" : type & 4 ? "gpu" : type & 8 ? "accelerator" : "another";
}

bool is_of_device(const kiln_entry_condition &c) {
    return c.what == KILN_DEVICE_IS || c.what == KILN_DEVICE_VECTOR;
}

/// Whether the call's device is as the condition asks; else `why`.
bool device_holds(const Frame &frame, const kiln_entry_condition &c, Text &why) {
    if (c.what == KILN_DEVICE_VECTOR) {
        const uint32_t width = opencl_device_vector(&frame.call);
        if (width >= c.value) {
            return true;
        }
        why("the OpenCL device's vectors hold %u float32, below %lld", width,
            static_cast<long long>(c.value));
        return false;
    }
    const uint64_t type = opencl_device_kind(&frame.call), wanted = static_cast<uint64_t>(c.value);
    if (type & wanted) {
        return true;
    }
    why("the OpenCL device is of kind `%s`, not `%s`", kind_name(type), kind_name(wanted));
    return false;
}

/// Why the condition does not hold, into `why`; true where it does.
bool holds(const kiln_entry_library &library, const kiln_entry_condition &c, halide_buffer_t *const *buffers,
           Text &why) {
    const halide_buffer_t &b = *buffers[c.argument];
    const char *name = library.arguments[c.argument].name;
    long long value = c.value;
    switch (c.what) {
    case KILN_EXTENT_AT_LEAST:
        if (b.dim[c.dimension].extent >= c.value) {
            return true;
        }
        why("extent %d of `%s` is %d, below %lld", c.dimension, name, b.dim[c.dimension].extent, value);
        return false;
    case KILN_EXTENT_AT_MOST:
        if (b.dim[c.dimension].extent <= c.value) {
            return true;
        }
        why("extent %d of `%s` is %d, above %lld", c.dimension, name, b.dim[c.dimension].extent, value);
        return false;
    case KILN_EXTENT_MULTIPLE_OF:
        if (b.dim[c.dimension].extent % c.value == 0) {
            return true;
        }
        why("extent %d of `%s` is %d, no multiple of %lld", c.dimension, name, b.dim[c.dimension].extent,
            value);
        return false;
    case KILN_STRIDE_MULTIPLE_OF:
        if (b.dim[c.dimension].extent <= 1 || b.dim[c.dimension].stride % c.value == 0) {
            return true;
        }
        why("stride %d of `%s` is %d, no multiple of %lld", c.dimension, name, b.dim[c.dimension].stride,
            value);
        return false;
    case KILN_ALIGNED_TO: {
        uint64_t address = b.host ? reinterpret_cast<uint64_t>(b.host) : b.device;
        if (!b.host && b.device && b.device_interface == halide_opencl_device_interface()) {
            address = halide_opencl_get_crop_offset(nullptr, const_cast<halide_buffer_t *>(&b));
        }
        if (address % static_cast<uint64_t>(c.value) == 0) {
            return true;
        }
        why("`%s` is not aligned to %lld bytes", name, value);
        return false;
    }
    case KILN_STRIDE_IS:
        if (b.dim[c.dimension].extent <= 1 || b.dim[c.dimension].stride == c.value) {
            return true;
        }
        why("stride %d of `%s` is %d, not %lld", c.dimension, name, b.dim[c.dimension].stride, value);
        return false;
    case KILN_MIN_IS:
        if (b.dim[c.dimension].min == c.value) {
            return true;
        }
        why("min %d of `%s` is %d, not %lld", c.dimension, name, b.dim[c.dimension].min, value);
        return false;
    case KILN_DEVICE_ALIGNED_TO: {
        uint64_t address = b.device;
        if (b.device && b.device_interface == halide_opencl_device_interface()) {
            address = halide_opencl_get_crop_offset(nullptr, const_cast<halide_buffer_t *>(&b));
        }
        if (address % static_cast<uint64_t>(c.value) == 0) {
            return true;
        }
        why("`%s` is not aligned to %lld bytes on the device", name, value);
        return false;
    }
    case KILN_BLOCKS_AT_MOST: {
        const halide_buffer_t &other = *buffers[c.other];
        const int extent = b.dim[c.dimension].extent, bound = other.dim[c.other_dimension].extent;
        if ((extent + c.value - 1) / c.value <= (bound + c.value - 1) / c.value) {
            return true;
        }
        why("extent %d of `%s` is %d, more blocks of %lld than extent %d of `%s`, which is %d", c.dimension,
            name, extent, value, c.other_dimension, library.arguments[c.other].name, bound);
        return false;
    }
    case KILN_ELEMENTS_AT_MOST: {
        const int64_t elements = element_count(b);
        __int128 most = 1;
        for (int d = 0; d < b.dimensions; d++) {
            const __int128 span = static_cast<__int128>(b.dim[d].stride) * b.dim[d].extent;
            most = span > most ? span : -span > most ? -span : most;
        }
        if (elements >= 0 && elements <= c.value && most <= c.value) {
            return true;
        }
        why("`%s` spans more than %lld elements", name, value);
        return false;
    }
    default:
        why("condition %d is not known to this runtime", c.what);
        return false;
    }
}

bool cpu_fits(const kiln_entry_variant &variant, Text &why) {
    if (!variant.cpu_features) {
        return true;
    }
    // halide_can_use_target_features asks the processor once and keeps the answer.
    if (!halide_can_use_target_features(2, variant.cpu_features)) {
        why("the processor lacks what `%s` needs", variant.target);
        return false;
    }
    constexpr int amx = halide_target_feature_avx512_sapphirerapids;
    if ((variant.cpu_features[amx / 64] >> amx % 64 & 1) && !amx_is_permitted()) {
        why("the system lets this process not use AMX, which `%s` needs", variant.target);
        return false;
    }
    return true;
}

} // namespace

const kiln_entry_variant *select_variant(Frame &frame, const kiln_entry_library &library,
                                         halide_buffer_t *const *buffers, Text &reason) {
    const char *because = nullptr;
    bool host_too = false;
    int bound = bound_backend(frame, library, buffers, &because, &host_too);
    void *uc = &frame.call;
    if (bound >= 0 && !has_backend(library, bound)) {
        if (because && !host_too) {
            report(uc, KILN_UNSUPPORTED, "`%s` is in %s memory, but the library was built for `%s` only",
                   because, backend_names[bound], library.variants[0].target);
            return nullptr;
        }
        bound =
            -1; // One kiln_call may serve kernels of several backends, and data may be fetched to the host.
    }
    int status = KILN_UNSUPPORTED;
    for (int i = 0; i < library.variant_count; i++) {
        const kiln_entry_variant &v = library.variants[i];
        char buffer[256];
        Text why(buffer, sizeof(buffer));
        bool fits = true;
        if (bound >= 0 && v.backend != bound) {
            why("the data are for %s", backend_names[bound]);
            fits = false;
        } else if (v.backend == KILN_CPU) {
            fits = cpu_fits(v, why);
        } else if (v.backend == KILN_CUDA) {
            fits = cuda_fits(&frame.call, v, why);
            status = fits ? status : static_cast<int>(KILN_NO_DEVICE);
        } else {
            fits = opencl_fits(&frame.call, why);
            status = fits ? status : static_cast<int>(KILN_NO_DEVICE);
        }
        for (int c = 0; fits && c < v.condition_count; c++) {
            const kiln_entry_condition &condition = v.conditions[c];
            fits = is_of_device(condition) ? device_holds(frame, condition, why)
                                           : !buffers || holds(library, condition, buffers, why);
        }
        if (fits) {
            return &v;
        }
        reason("%s`%s`: %s", reason.empty() ? "" : "; ", v.target, why.c_str());
    }
    if (frame.status == 0) {
        report(uc, status, "%s", reason.empty() ? "the library has no variants" : reason.c_str());
    }
    return nullptr;
}

} // namespace kiln::runtime
