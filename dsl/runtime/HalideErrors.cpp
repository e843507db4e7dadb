/** \file
 * Halide's error hooks, replaced: the stock ones print and abort. These are strong symbols in one object with
 * Halide's weak ones, so every caller gets them. Generated code checks its arguments before any work.
 */
#include "Cuda.h"
#include "Frame.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace kiln::runtime;

namespace {

/// Halide says "Input buffer x$1" where people say `x`.
class Name {
public:
    explicit Name(const char *halide) {
        for (const char *prefix : {"Input buffer ", "Output buffer ", "Input ", "Output "}) {
            size_t length = strlen(prefix);
            if (strncmp(halide, prefix, length) == 0) {
                halide += length;
                break;
            }
        }
        snprintf(text_, sizeof(text_), "%s", halide);
        if (char *suffix = strrchr(text_, '$')) {
            if (suffix[1] != 0 && suffix[1 + strspn(suffix + 1, "0123456789")] == 0) {
                *suffix = 0;
            }
        }
    }
    const char *c_str() const { return text_; }

private:
    char text_[128];
};

bool is_output(const char *halide) {
    return strncmp(halide, "Output", 6) == 0;
}

halide_type_t unpack(uint32_t bits) {
    return halide_type_t(static_cast<halide_type_code_t>(bits & 0xff), static_cast<uint8_t>(bits >> 8 & 0xff),
                         static_cast<uint16_t>(bits >> 16));
}

/// What driver errors mean to the one who sees them. The driver's own word stays in the message.
struct Explanation {
    const char *code, *meaning;
    int status;
};
const Explanation explanations[] = {
    {"CUDA_ERROR_OUT_OF_MEMORY", "the device has not enough free memory", KILN_OUT_OF_MEMORY},
    {"CUDA_ERROR_NO_BINARY_FOR_GPU", "the library holds no code for this GPU: build it for its target",
     KILN_NO_DEVICE},
    {"CUDA_ERROR_INVALID_PTX",
     "the driver cannot compile the library's PTX: it is older than the PTX, or the GPU older than its "
     "target",
     KILN_NO_DEVICE},
    {"CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
     "the library's PTX is newer than the driver: update the driver, or build for an earlier target",
     KILN_NO_DEVICE},
    {"CUDA_ERROR_JIT_COMPILER_NOT_FOUND", "the driver's PTX compiler (libnvidia-ptxjitcompiler) is missing",
     KILN_NO_DEVICE},
    {"CUDA_ERROR_NO_DEVICE", "the driver finds no CUDA device", KILN_NO_DEVICE},
    {"CUDA_ERROR_ILLEGAL_ADDRESS",
     "earlier work on this context accessed memory that is not allocated; the context is lost",
     KILN_DEVICE_ERROR},
    {"CUDA_ERROR_MISALIGNED_ADDRESS", "a device address is not aligned for the access; the context is lost",
     KILN_DEVICE_ERROR},
    {"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "a block of this schedule needs more registers than the GPU has",
     KILN_DEVICE_ERROR},
    {"CUDA_ERROR_INVALID_CONTEXT", "the CUDA context of the call is not valid: it may have been destroyed",
     KILN_INVALID_ARGUMENT},
    {"CUDA_ERROR_CONTEXT_IS_DESTROYED", "the CUDA context of the call has been destroyed",
     KILN_INVALID_ARGUMENT},
    {"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "this call cannot be captured in a CUDA graph: call NAME_prepare before, and pass device buffers",
     KILN_INVALID_ARGUMENT},
    {"cuModuleLoadData",
     "the driver cannot load the library's code: it is older than the code, or the GPU older than its target",
     KILN_NO_DEVICE},
    {"CL_MEM_OBJECT_ALLOCATION_FAILURE", "the device has not enough free memory", KILN_OUT_OF_MEMORY},
    {"CL_OUT_OF_RESOURCES", "the device lacks memory or registers for this schedule", KILN_DEVICE_ERROR},
    {"CL_OUT_OF_HOST_MEMORY", "the host has not enough free memory", KILN_OUT_OF_MEMORY},
    {"CL_INVALID_BUFFER_SIZE", "a buffer is larger than the device allows in one allocation",
     KILN_OUT_OF_MEMORY},
    {"CL_INVALID_WORK_GROUP_SIZE",
     "the schedule's threads in a block are more than the device allows for this kernel: split by less",
     KILN_UNSUPPORTED},
    {"CL_INVALID_WORK_ITEM_SIZE",
     "the schedule's threads along one axis are more than the device allows: split by less",
     KILN_UNSUPPORTED},
    {"CL_BUILD_PROGRAM_FAILURE", "the device's compiler refuses the kernel; its log follows",
     KILN_UNSUPPORTED},
    {"CL_MISALIGNED_SUB_BUFFER_OFFSET",
     "a crop of device memory starts at an offset that this device cannot address: align it, or pass a copy",
     KILN_INVALID_ARGUMENT},
    {"CL_INVALID_CONTEXT", "the OpenCL context of the call is not valid", KILN_INVALID_ARGUMENT},
    {"CL_INVALID_COMMAND_QUEUE", "the OpenCL queue of the call is not valid", KILN_INVALID_ARGUMENT},
    {"CL_INVALID_MEM_OBJECT", "a buffer's cl_mem is not valid in this context", KILN_INVALID_ARGUMENT},
};

/// Finds `code` as a whole word: CL_INVALID_CONTEXT is not CL_INVALID_CONTEXT_X.
bool names(const char *text, const char *code) {
    const char *at = strstr(text, code);
    char next = at ? at[strlen(code)] : 'A';
    return !(next == '_' || (next >= 'A' && next <= 'Z'));
}

/// A scalar beyond the bound that the contract gives it: "least" or "most". `format` prints one T.
template<typename T>
int out_of_range(void *user_context, const char *name, const char *format, T value, const char *end,
                 T bound) {
    char is[64], must[64];
    snprintf(is, sizeof(is), format, value);
    snprintf(must, sizeof(must), format, bound);
    report(user_context, KILN_INVALID_ARGUMENT, "`%s` is %s, it must be at %s %s", Name(name).c_str(), is,
           end, must);
    return end[0] == 'l' ? halide_error_code_param_too_small : halide_error_code_param_too_large;
}

} // namespace

extern "C" {

void halide_error(void *user_context, const char *message) {
    char text[message_size];
    snprintf(text, sizeof(text), "%s", message);
    for (size_t n = strlen(text); n > 0 && (text[n - 1] == '\n' || text[n - 1] == ' '); n--) {
        text[n - 1] = 0;
    }
    if (strncmp(text, "Error: ", 7) == 0) {
        memmove(text, text + 7, strlen(text + 7) + 1);
    }
    for (const Explanation &e : explanations) {
        if (names(text, e.code)) {
            char buffer[message_size];
            Text found(buffer, sizeof(buffer));
            if (strncmp(text, "CUDA", 4) == 0) {
                describe_cuda(call_of(user_context), found);
            }
            report(user_context, e.status, "%s%s (%s)", e.meaning, found.c_str(), text);
            return;
        }
    }
    report(user_context, KILN_DEVICE_ERROR, "%s", text);
}

int halide_error_bounds_inference_call_failed(void *user_context, const char *stage, int result) {
    report(user_context, KILN_INTERNAL_ERROR, "the bounds query of stage `%s` failed with %d",
           Name(stage).c_str(), result);
    return result;
}

int halide_error_extern_stage_failed(void *user_context, const char *stage, int result) {
    report(user_context, KILN_DEVICE_ERROR, "stage `%s` failed with %d", Name(stage).c_str(), result);
    return result;
}

int halide_error_explicit_bounds_too_small(void *user_context, const char *func, const char *var,
                                           int min_bound, int max_bound, int min_required, int max_required) {
    report(user_context, KILN_INVALID_ARGUMENT,
           "`%s` was built for %d to %d of `%s`, this call needs %d to %d", Name(func).c_str(), min_bound,
           max_bound, var, min_required, max_required);
    return halide_error_code_explicit_bounds_too_small;
}

int halide_error_bad_type(void *user_context, const char *name, uint32_t given_bits, uint32_t correct_bits) {
    report(user_context, KILN_INVALID_ARGUMENT, "`%s` has type %s, the kernel needs %s", Name(name).c_str(),
           type_name(unpack(given_bits)), type_name(unpack(correct_bits)));
    return halide_error_code_bad_type;
}

int halide_error_bad_dimensions(void *user_context, const char *name, int32_t given, int32_t correct) {
    report(user_context, KILN_INVALID_ARGUMENT, "`%s` has %d dimensions, the kernel needs %d",
           Name(name).c_str(), given, correct);
    return halide_error_code_bad_dimensions;
}

int halide_error_access_out_of_bounds(void *user_context, const char *name, int dimension, int min_touched,
                                      int max_touched, int min_valid, int max_valid) {
    report(user_context, KILN_INVALID_ARGUMENT,
           "`%s` has %d to %d in dimension %d, but the kernel %s %d to %d of it", Name(name).c_str(),
           min_valid, max_valid, dimension, is_output(name) ? "writes" : "reads", min_touched, max_touched);
    return halide_error_code_access_out_of_bounds;
}

int halide_error_buffer_allocation_too_large(void *user_context, const char *name, uint64_t size,
                                             uint64_t max_size) {
    report(user_context, KILN_INVALID_ARGUMENT, "`%s` takes %llu bytes, at most %llu can be addressed",
           Name(name).c_str(), static_cast<unsigned long long>(size),
           static_cast<unsigned long long>(max_size));
    return halide_error_code_buffer_allocation_too_large;
}

int halide_error_buffer_extents_negative(void *user_context, const char *name, int dimension, int extent) {
    report(user_context, KILN_INVALID_ARGUMENT, "`%s` has extent %d in dimension %d, it cannot be negative",
           Name(name).c_str(), extent, dimension);
    return halide_error_code_buffer_extents_negative;
}

int halide_error_buffer_extents_too_large(void *user_context, const char *name, int64_t size,
                                          int64_t max_size) {
    report(user_context, KILN_INVALID_ARGUMENT, "`%s` has %lld elements, at most %lld can be addressed",
           Name(name).c_str(), static_cast<long long>(size), static_cast<long long>(max_size));
    return halide_error_code_buffer_extents_too_large;
}

int halide_error_constraints_make_required_region_smaller(void *user_context, const char *name, int dimension,
                                                          int constrained_min, int constrained_extent,
                                                          int required_min, int required_extent) {
    report(user_context, KILN_INVALID_ARGUMENT,
           "`%s` is bound by the contract to %d to %d in dimension %d, but this call needs %d to %d of it",
           Name(name).c_str(), constrained_min, constrained_min + constrained_extent - 1, dimension,
           required_min, required_min + required_extent - 1);
    return halide_error_code_constraints_make_required_region_smaller;
}

int halide_error_constraint_violated(void *user_context, const char *var, int value, const char *need,
                                     int need_value) {
    // var is "x.stride.0", need "1" or "w.extent.1".
    char buffer[128], what[16];
    int dimension = 0;
    snprintf(buffer, sizeof(buffer), "%s", var);
    char *last = strrchr(buffer, '.');
    char *middle = nullptr;
    if (last) {
        dimension = atoi(last + 1);
        *last = 0;
        middle = strrchr(buffer, '.');
    }
    char number[16];
    snprintf(number, sizeof(number), "%d", need_value);
    bool plain = strcmp(number, need) == 0;
    const char *open = plain ? "" : " (`", *close = plain ? "" : "`)";
    if (middle) {
        snprintf(what, sizeof(what), "%s", middle + 1);
        *middle = 0;
        report(user_context, KILN_INVALID_ARGUMENT,
               "`%s` has %s %d in dimension %d, the kernel needs %d%s%s%s", Name(buffer).c_str(), what, value,
               dimension, need_value, open, plain ? "" : need, close);
    } else {
        report(user_context, KILN_INVALID_ARGUMENT, "`%s` is %d, the kernel needs %d%s%s%s", var, value,
               need_value, open, plain ? "" : need, close);
    }
    return halide_error_code_constraint_violated;
}

int halide_error_param_too_small_i64(void *user_context, const char *name, int64_t value, int64_t min) {
    return out_of_range(user_context, name, "%lld", static_cast<long long>(value), "least",
                        static_cast<long long>(min));
}

int halide_error_param_too_small_u64(void *user_context, const char *name, uint64_t value, uint64_t min) {
    return out_of_range(user_context, name, "%llu", static_cast<unsigned long long>(value), "least",
                        static_cast<unsigned long long>(min));
}

int halide_error_param_too_small_f64(void *user_context, const char *name, double value, double min) {
    return out_of_range(user_context, name, "%g", value, "least", min);
}

int halide_error_param_too_large_i64(void *user_context, const char *name, int64_t value, int64_t max) {
    return out_of_range(user_context, name, "%lld", static_cast<long long>(value), "most",
                        static_cast<long long>(max));
}

int halide_error_param_too_large_u64(void *user_context, const char *name, uint64_t value, uint64_t max) {
    return out_of_range(user_context, name, "%llu", static_cast<unsigned long long>(value), "most",
                        static_cast<unsigned long long>(max));
}

int halide_error_param_too_large_f64(void *user_context, const char *name, double value, double max) {
    return out_of_range(user_context, name, "%g", value, "most", max);
}

int halide_error_out_of_memory(void *user_context) {
    report(user_context, KILN_OUT_OF_MEMORY, "no memory for an intermediate value");
    return halide_error_code_out_of_memory;
}

int halide_error_buffer_argument_is_null(void *user_context, const char *name) {
    report(user_context, KILN_INVALID_ARGUMENT, "`%s` is null", Name(name).c_str());
    return halide_error_code_buffer_argument_is_null;
}

int halide_error_debug_to_file_failed(void *user_context, const char *func, const char *filename, int error) {
    report(user_context, KILN_DEVICE_ERROR, "`%s` could not be written to `%s` (error %d)",
           Name(func).c_str(), filename, error);
    return halide_error_code_debug_to_file_failed;
}

int halide_error_unaligned_host_ptr(void *user_context, const char *name, int alignment) {
    report(user_context, KILN_INVALID_ARGUMENT, "`%s` is not aligned to %d bytes", Name(name).c_str(),
           alignment);
    return halide_error_code_unaligned_host_ptr;
}

int halide_error_device_dirty_with_no_device_support(void *user_context, const char *name) {
    report(user_context, KILN_INVALID_ARGUMENT,
           "`%s` is newer on a device (its device_dirty flag is set), but this kernel runs on the CPU: call "
           "halide_copy_to_host first",
           Name(name).c_str());
    return halide_error_code_device_dirty_with_no_device_support;
}

int halide_error_host_is_null(void *user_context, const char *name) {
    report(user_context, KILN_INVALID_ARGUMENT, "`%s` has no host memory, but the kernel uses it on the host",
           Name(name).c_str());
    return halide_error_code_host_is_null;
}

int halide_error_bad_fold(void *user_context, const char *func, const char *var, const char *loop) {
    report(user_context, KILN_INTERNAL_ERROR,
           "the folded dimension `%s` of `%s` is used out of order by loop `%s`", var, Name(func).c_str(),
           loop);
    return halide_error_code_bad_fold;
}

int halide_error_bad_extern_fold(void *user_context, const char *func, int dim, int min, int extent,
                                 int valid_min, int fold_factor) {
    report(user_context, KILN_INTERNAL_ERROR,
           "dimension %d of `%s` is folded by %d from %d, but an extern stage uses %d to %d of it", dim,
           Name(func).c_str(), fold_factor, valid_min, min, min + extent - 1);
    return halide_error_code_bad_extern_fold;
}

int halide_error_fold_factor_too_small(void *user_context, const char *func, const char *var, int fold_factor,
                                       const char *loop, int required) {
    report(user_context, KILN_INVALID_ARGUMENT,
           "the schedule folds `%s` of `%s` by %d, but loop `%s` needs %d of it", var, Name(func).c_str(),
           fold_factor, loop, required);
    return halide_error_code_fold_factor_too_small;
}

int halide_error_requirement_failed(void *user_context, const char *condition, const char *message) {
    report(user_context, KILN_INVALID_ARGUMENT, "%s (needed: %s)", message, condition);
    return halide_error_code_requirement_failed;
}

int halide_error_specialize_fail(void *user_context, const char *message) {
    report(user_context, KILN_INVALID_ARGUMENT, "the schedule has no code for this call: %s", message);
    return halide_error_code_specialize_fail;
}

int halide_error_no_device_interface(void *user_context) {
    report(user_context, KILN_INVALID_ARGUMENT, "a buffer has device memory but no device_interface");
    return halide_error_code_no_device_interface;
}

int halide_error_device_interface_no_device(void *user_context) {
    report(user_context, KILN_INVALID_ARGUMENT, "a buffer has a device_interface but no device memory");
    return halide_error_code_device_interface_no_device;
}

int halide_error_host_and_device_dirty(void *user_context) {
    report(user_context, KILN_INVALID_ARGUMENT,
           "a buffer has both host_dirty and device_dirty set: which copy is the newer is not known");
    return halide_error_code_host_and_device_dirty;
}

int halide_error_buffer_is_null(void *user_context, const char *routine) {
    report(user_context, KILN_INVALID_ARGUMENT, "the buffer given to %s is null", routine);
    return halide_error_code_buffer_is_null;
}

int halide_error_storage_bound_too_small(void *user_context, const char *func, const char *var, int provided,
                                         int required) {
    report(user_context, KILN_INVALID_ARGUMENT,
           "the schedule stores %d of `%s` of `%s`, but this call needs %d", provided, var,
           Name(func).c_str(), required);
    return halide_error_code_storage_bound_too_small;
}

int halide_error_device_crop_failed(void *user_context) {
    report(user_context, KILN_DEVICE_ERROR, "the device cannot make this crop of a buffer");
    return halide_error_code_device_crop_failed;
}

int halide_error_split_factor_not_positive(void *user_context, const char *func, const char *orig,
                                           const char *outer, const char *inner, const char *factor_text,
                                           int factor) {
    report(user_context, KILN_INVALID_ARGUMENT,
           "the schedule splits `%s` of `%s` by `%s`, which is %d in this call and must be positive", orig,
           Name(func).c_str(), factor_text, factor);
    return halide_error_code_split_factor_not_positive;
}

int halide_error_vscale_invalid(void *user_context, const char *func, int runtime_vscale,
                                int compiletime_vscale) {
    report(user_context, KILN_UNSUPPORTED, "`%s` was built for a vscale of %d, this CPU has %d",
           Name(func).c_str(), compiletime_vscale, runtime_vscale);
    return halide_error_code_vscale_invalid;
}
}
