#include "CudaStage.h"

namespace kiln::runtime {

bool cuda_needs_stage(const kiln_entry_variant &variant, int i, const halide_buffer_t *buffer) {
    return variant.device_alignment && variant.device_alignment[i] > 1 && buffer->device &&
           buffer->device_interface == halide_cuda_device_interface() &&
           buffer->device % variant.device_alignment[i] != 0;
}

int cuda_stage(Frame &frame, halide_buffer_t *given, halide_buffer_t *copy, bool is_input) {
    const halide_device_interface_t *cuda = halide_cuda_device_interface();
    if (is_input && given->host_dirty() && halide_copy_to_device(&frame.call, given, cuda) != 0) {
        return frame.status;
    }
    copy->flags = given->flags;
    copy->device = 0;
    copy->device_interface = nullptr;
    if (halide_device_malloc(&frame.call, copy, cuda) != 0 ||
        (is_input && halide_buffer_copy(&frame.call, given, cuda, copy) != 0)) {
        return frame.status ? frame.status
                            : report(&frame.call, KILN_DEVICE_ERROR,
                                     "a buffer whose address is not aligned could not be copied");
    }
    copy->flags = given->flags;
    return KILN_OK;
}

int cuda_unstage(Frame &frame, halide_buffer_t *given, halide_buffer_t *copy, bool is_written) {
    uint64_t flags = copy->flags;
    if (is_written && halide_buffer_copy(&frame.call, copy, halide_cuda_device_interface(), given) != 0) {
        report(&frame.call, KILN_DEVICE_ERROR,
               "the copy of a buffer whose address is not aligned could not be copied back");
    }
    halide_device_free(&frame.call, copy);
    given->flags = flags;
    return frame.status;
}

} // namespace kiln::runtime
