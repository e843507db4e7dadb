/** \file
 * The way from NAME(…) to a variant's code: contract, choice, and the forms that Halide would take amiss (empty
 * buffers, strides of single elements, 16-bit floats) put right in copies.
 */
#include "Check.h"
#include "CudaStage.h"
#include "Frame.h"
#include "OpenCLStage.h"
#include "Select.h"
#include "kiln_tile.h"

#include <cstdio>
#include <cstring>

namespace kiln::runtime {

namespace {

// A home for empty buffers: Halide takes a null host pointer for a bounds query.
alignas(128) uint8_t nothing[128];

/// What Halide sees in place of a buffer.
struct Argument {
    bool is_copy = false;
    bool on_cuda = false;    ///< has memory of its own there
    OpenCLStage opencl = {}; ///< its memory, where it has its own
    union {
        halide_buffer_t buffer;
    };
    union {
        halide_dimension_t dim[KILN_MAX_RANK];
    };
    // Halide's dimensions would clear themselves: a third of the time of a small call, for 32 arguments of rank 8.
    Argument() {}
};

/// A struct whose size was never set would have its stream and context ignored in silence.
int check_size(Frame &frame, const kiln_call *given) {
    if (given && (given->size < offsetof(kiln_call, on_message) ||
                  (given->size > 4096 && !frame_of(const_cast<kiln_call *>(given))))) {
        return report(
            &frame.call, KILN_INVALID_ARGUMENT,
            "the kiln_call has size %zu, it must be sizeof(kiln_call), %zu: start from KILN_CALL_INIT",
            given->size, sizeof(kiln_call));
    }
    return KILN_OK;
}

class Call {
public:
    Call(const kiln_entry_library *library, const kiln_call *given) : library_(*library), frame_(given) {
        frame_.library = library;
        check_size(frame_, given);
    }

    /// `shape_only`: buffers need no memory, and may overlap.
    int check(void **arguments, bool shape_only = false) {
        if (frame_.status != KILN_OK) {
            return frame_.status;
        }
        for (int i = 0; i < library_.argument_count; i++) {
            const kiln_entry_argument &a = library_.arguments[i];
            buffers_[i] = nullptr;
            if (a.kind == KILN_SCALAR) {
                if (!arguments[i]) {
                    return report(&frame_.call, KILN_INVALID_ARGUMENT, "input `%s` is null", a.name);
                }
                continue;
            }
            buffers_[i] = static_cast<halide_buffer_t *>(arguments[i]);
            if (int status = check_buffer(frame_, a, buffers_[i], shape_only)) {
                return status;
            }
        }
        return shape_only ? KILN_OK : check_overlap(frame_, library_, buffers_);
    }

    const kiln_entry_variant *choose(Text &reason) {
        return select_variant(frame_, library_, buffers_, reason);
    }

    int run(const kiln_entry_variant &variant, void **arguments) {
        frame_.variant = &variant;
        if (int status = prepare_flags(variant)) {
            return status;
        }
        if (all_outputs_empty()) {
            return KILN_OK;
        }
        void *argv[KILN_MAX_ARGUMENTS + 1];
        const void *user_context = &frame_.call;
        argv[0] = &user_context;
        const halide_filter_metadata_t *metadata = variant.metadata();
        for (int i = 0; i < library_.argument_count; i++) {
            if (library_.arguments[i].kind == KILN_SCALAR) {
                argv[i + 1] = arguments[i];
                continue;
            }
            const bool staged = needs_stage(variant, i);
            argv[i + 1] = shape(i, metadata->arguments[i + 1].type, staged);
            if (staged && stage(variant, i) != KILN_OK) {
                give_back(variant, false);
                return frame_.status;
            }
        }
        frame_.buffers = shaped_;
        frame_.buffer_count = library_.argument_count;
        int code = variant.argv(argv);
        give_back(variant, code == 0);
        if (code != 0 && frame_.status == 0) {
            report(&frame_.call, KILN_INTERNAL_ERROR, "the kernel returned %d without a message", code);
        }
        return frame_.status;
    }

    int count_workspace(const kiln_entry_variant &variant, void **arguments) {
        frame_.variant = &variant;
        if (all_outputs_empty()) {
            return KILN_OK;
        }
        void *argv[KILN_MAX_ARGUMENTS + 1];
        const void *user_context = &frame_.call;
        argv[0] = &user_context;
        const halide_filter_metadata_t *metadata = variant.metadata();
        for (int i = 0; i < library_.argument_count; i++) {
            if (library_.arguments[i].kind == KILN_SCALAR) {
                argv[i + 1] = arguments[i];
                continue;
            }
            halide_buffer_t *b = shape(i, metadata->arguments[i + 1].type, true);
            b->host = nothing; // no bounds query
            argv[i + 1] = b;
        }
        variant.workspace(argv);
        if (frame_.workspace.host_bytes < 0 || frame_.workspace.device_bytes < 0) {
            report(&frame_.call, KILN_UNSUPPORTED,
                   "what `%s` takes for intermediate values depends on values that only a run computes",
                   variant.target);
        }
        return frame_.status;
    }

    Frame &frame() { return frame_; }

private:
    bool all_outputs_empty() const {
        for (int i = 0; i < library_.argument_count; i++) {
            if (library_.arguments[i].kind == KILN_OUTPUT && element_count(*buffers_[i]) > 0) {
                return false;
            }
        }
        return true;
    }

    /// Dirty flags as Halide reads them. A host copy alone is the newest one, whatever its flag says.
    int prepare_flags(const kiln_entry_variant &variant) {
        for (int i = 0; i < library_.argument_count; i++) {
            halide_buffer_t *b = buffers_[i];
            if (!b || element_count(*b) == 0) {
                continue;
            }
            bool input = library_.arguments[i].kind == KILN_INPUT;
            if (variant.backend != KILN_CPU) {
                if (input && !b->device) {
                    b->set_host_dirty(true);
                }
                continue;
            }
            if (!b->host) {
                return report(&frame_.call, KILN_INVALID_ARGUMENT,
                              "%s `%s` has no host memory, but `%s` runs on the CPU",
                              input ? "input" : "output", library_.arguments[i].name, variant.target);
            }
            if (input && b->device_dirty()) {
                return halide_error_device_dirty_with_no_device_support(&frame_.call,
                                                                        library_.arguments[i].name),
                       frame_.status;
            }
        }
        return KILN_OK;
    }

    /// Whether the device cannot address argument i as the variant would.
    bool needs_stage(const kiln_entry_variant &variant, int i) {
        return (variant.backend == KILN_OPENCL && opencl_needs_stage(&frame_.call, buffers_[i])) ||
               (variant.backend == KILN_CUDA && cuda_needs_stage(variant, i, buffers_[i]));
    }

    int stage(const kiln_entry_variant &variant, int i) {
        const bool is_input = library_.arguments[i].kind == KILN_INPUT;
        if (variant.backend == KILN_OPENCL) {
            return opencl_stage(frame_, library_.arguments[i].name, buffers_[i], shaped_[i], is_input,
                                copies_[i].opencl);
        }
        copies_[i].on_cuda = true;
        return cuda_stage(frame_, buffers_[i], shaped_[i], is_input);
    }

    /// What Halide sees of buffer i, for certain a copy if `copy`.
    halide_buffer_t *shape(int i, halide_type_t storage, bool copy = false) {
        halide_buffer_t *given = buffers_[i];
        bool empty = element_count(*given) == 0;
        copy |= (empty && !given->host) || given->type != storage;
        for (int d = 0; d < given->dimensions; d++) {
            copy |= given->dim[d].extent <= 1 && given->dim[d].stride != dense_stride(*given, d);
        }
        shaped_[i] = given;
        if (copy) {
            Argument &a = copies_[i];
            a.is_copy = true;
            a.buffer = *given;
            a.buffer.dim = a.dim;
            a.buffer.type = storage;
            memcpy(a.dim, given->dim, sizeof(halide_dimension_t) * static_cast<size_t>(given->dimensions));
            for (int d = 0; d < given->dimensions; d++) {
                if (a.dim[d].extent <= 1) {
                    a.dim[d].stride = dense_stride(a.buffer, d);
                }
            }
            if (empty && !given->host) {
                a.buffer.host = nothing;
            }
            shaped_[i] = &a.buffer;
        }
        return shaped_[i];
    }

    /// The stride that a dimension of one element takes: 1 for the innermost, as contracts ask, else what its
    /// inner neighbour spans.
    static int32_t dense_stride(const halide_buffer_t &b, int d) {
        if (d == 0) {
            return 1;
        }
        int64_t span = int64_t(b.dim[d - 1].stride) * (b.dim[d - 1].extent > 1 ? b.dim[d - 1].extent : 1);
        return span > INT32_MAX || span < INT32_MIN ? b.dim[d].stride : static_cast<int32_t>(span);
    }

    /// Device memory and flags that the kernel left in a copy belong to the caller's buffer.
    void give_back(const kiln_entry_variant &variant, bool is_written) {
        frame_.buffer_count = 0; // the memory of stages is the call's own again
        for (int i = 0; i < library_.argument_count; i++) {
            halide_buffer_t *b = buffers_[i];
            if (!b) {
                continue;
            }
            if (copies_[i].is_copy) {
                halide_buffer_t &a = copies_[i].buffer;
                const bool back = is_written && library_.arguments[i].kind == KILN_OUTPUT;
                b->flags = a.flags;
                if (copies_[i].opencl.handle.mem) {
                    opencl_unstage(frame_, library_.arguments[i].name, b, back, copies_[i].opencl);
                } else if (copies_[i].on_cuda) {
                    cuda_unstage(frame_, b, &a, back);
                } else {
                    b->device = a.device;
                    b->device_interface = a.device_interface;
                }
            }
            if (variant.backend == KILN_CPU && library_.arguments[i].kind == KILN_OUTPUT && b->device) {
                b->set_device_dirty(false);
                b->set_host_dirty(true);
            }
        }
    }

    const kiln_entry_library &library_;
    Frame frame_;
    halide_buffer_t *buffers_[KILN_MAX_ARGUMENTS];
    halide_buffer_t *shaped_[KILN_MAX_ARGUMENTS] = {};
    Argument copies_[KILN_MAX_ARGUMENTS];
};

void note_choice(const kiln_entry_library &library, const kiln_entry_variant &variant, const char *reason) {
    snprintf(last_choice_buffer(), message_size, "%s: `%s`, schedule `%s`%s%s", library.name, variant.target,
             variant.schedule, reason[0] ? "; passed over: " : "", reason);
}

} // namespace

} // namespace kiln::runtime

using namespace kiln::runtime;

extern "C" {

const int KILN_ABI_SYMBOL = KILN_ABI_VERSION;

int kiln_entry_call(const kiln_entry_library *library, const kiln_call *call, void **arguments) {
    Call c(library, call);
    if (c.check(arguments) == KILN_OK) {
        char buffer[message_size];
        Text reason(buffer, sizeof(buffer));
        if (const kiln_entry_variant *variant = c.choose(reason)) {
            note_choice(*library, *variant, reason.c_str());
            c.run(*variant, arguments);
        }
    }
    return c.frame().finish(call);
}

const kiln_entry_variant *kiln_entry_choose(const kiln_entry_library *library, const kiln_call *call,
                                            void **arguments, char *reason, size_t reason_size) {
    Call c(library, call);
    const kiln_entry_variant *variant = nullptr;
    char buffer[message_size];
    Text text(buffer, sizeof(buffer));
    if (c.check(arguments) == KILN_OK) {
        variant = c.choose(text);
    }
    if (reason && reason_size > 0) {
        snprintf(reason, reason_size, "%s", text.c_str());
    }
    c.frame().finish(call);
    return variant;
}

int kiln_entry_workspace(const kiln_entry_library *library, const kiln_call *call, void **arguments,
                         kiln_workspace *workspace) {
    Call c(library, call);
    *workspace = kiln_workspace();
    char buffer[message_size];
    Text reason(buffer, sizeof(buffer));
    if (c.check(arguments, true) == KILN_OK) {
        if (const kiln_entry_variant *variant = c.choose(reason)) {
            if (c.count_workspace(*variant, arguments) == KILN_OK) {
                *workspace = c.frame().workspace;
            }
        }
    }
    return c.frame().finish(call);
}

int kiln_workspace_note(void *user_context, int64_t host_bytes, int64_t device_bytes) {
    if (Frame *frame = frame_of(user_context)) {
        frame->workspace.host_bytes = host_bytes;
        frame->workspace.device_bytes = device_bytes;
    }
    return 0;
}

int kiln_entry_prepare(const kiln_entry_library *library, const kiln_call *call) {
    Frame frame(call);
    frame.library = library;
    if (check_size(frame, call) != KILN_OK) {
        return frame.finish(call);
    }
    char buffer[message_size];
    Text reason(buffer, sizeof(buffer));
    bool any = false;
    for (int i = 0; i < library->variant_count && frame.status == 0; i++) {
        // Every variant that can run here: which of them a call takes depends on its shapes.
        kiln_entry_library one = *library;
        one.variants = &library->variants[i];
        one.variant_count = 1;
        Frame trial(call);
        trial.library = library;
        trial.call.on_message = nullptr;
        if (!select_variant(trial, one, nullptr, reason)) {
            continue;
        }
        any = true;
        // A bounds query loads the modules and computes nothing.
        const kiln_entry_variant &v = library->variants[i];
        halide_buffer_t queries[KILN_MAX_ARGUMENTS];
        halide_dimension_t dims[KILN_MAX_ARGUMENTS][KILN_MAX_RANK];
        halide_scalar_value_t zero;
        void *argv[KILN_MAX_ARGUMENTS + 1];
        const void *user_context = &frame.call;
        argv[0] = &user_context;
        const halide_filter_metadata_t *metadata = v.metadata();
        for (int a = 0; a < library->argument_count; a++) {
            queries[a] = halide_buffer_t();
            queries[a].type = metadata->arguments[a + 1].type;
            queries[a].dimensions = library->arguments[a].dimensions;
            queries[a].dim = dims[a];
            argv[a + 1] =
                library->arguments[a].kind == KILN_SCALAR ? static_cast<void *>(&zero) : &queries[a];
        }
        for (int t = 0; t < v.tile_count && frame.status == 0; t++) {
            kiln_tile_prepare(&frame.call, v.tiles[t]);
        }
        if (v.backend != KILN_CPU && v.argv(argv) != 0 && frame.status == 0) {
            report(&frame.call, KILN_DEVICE_ERROR, "`%s` could not be prepared", v.target);
        }
    }
    if (!any && frame.status == 0) {
        report(&frame.call, KILN_NO_DEVICE, "%s", reason.c_str());
    }
    return frame.finish(call);
}
}
