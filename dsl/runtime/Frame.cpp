#include "Frame.h"

#include <cstdio>
#include <cstring>

namespace kiln::runtime {

namespace {

// In `size` of a frame's kiln_call: no caller's struct is that large.
constexpr size_t frame_tag = size_t(0x4b494c4e) << 32 | sizeof(Frame);

const kiln_call defaults = {sizeof(kiln_call), 0,       nullptr, nullptr, nullptr,
                            nullptr,           nullptr, nullptr, nullptr, nullptr};

thread_local char last_message[message_size];
thread_local char last_choice[message_size];

} // namespace

Frame::Frame(const kiln_call *given)
    : call(defaults), library(nullptr), variant(nullptr), buffers(nullptr), buffer_count(0), lock(0),
      status(0), workspace() {
    if (given) {
        memcpy(&call, given, given->size < sizeof(kiln_call) ? given->size : sizeof(kiln_call));
    }
    call.size = frame_tag;
    message[0] = 0;
}

void Frame::record(int new_status, const char *text) {
    while (__atomic_test_and_set(&lock, __ATOMIC_ACQUIRE)) {
    }
    if (status == 0) {
        status = new_status;
        snprintf(message, sizeof(message), "%s", text);
    }
    __atomic_clear(&lock, __ATOMIC_RELEASE);
}

int Frame::finish(const kiln_call *given) {
    set_last_message(message);
    if (status != 0 && call.on_message) {
        call.on_message(given, status, message);
    }
    return status;
}

bool Frame::is_argument(const halide_buffer_t *buffer) const {
    for (int i = 0; i < buffer_count; i++) {
        if (buffers[i] == buffer) {
            return true;
        }
    }
    return false;
}

Frame *frame_of(void *user_context) {
    kiln_call *call = static_cast<kiln_call *>(user_context);
    return call && call->size == frame_tag ? reinterpret_cast<Frame *>(call) : nullptr;
}

const kiln_call *call_of(void *user_context) {
    return user_context ? static_cast<const kiln_call *>(user_context) : &defaults;
}

int report(void *user_context, int status, const char *format, ...) {
    char text[message_size];
    size_t used = 0;
    Frame *frame = frame_of(user_context);
    if (frame && frame->library) {
        used = static_cast<size_t>(snprintf(text, sizeof(text), "%.200s: ", frame->library->name));
    }
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, sizeof(text) - used, format, arguments);
    va_end(arguments);
    if (frame) {
        frame->record(status, text);
        return status;
    }
    set_last_message(text);
    const kiln_call *call = call_of(user_context);
    if (call->on_message) {
        call->on_message(call, status, text);
    }
    return status;
}

void set_last_message(const char *text) {
    if (text[0] || last_message[0]) {
        snprintf(last_message, sizeof(last_message), "%s", text);
    }
}

char *last_choice_buffer() {
    return last_choice;
}

Text &Text::operator()(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int wrote = vsnprintf(buffer_ + used_, size_ - used_, format, arguments);
    va_end(arguments);
    used_ = wrote > 0 && used_ + static_cast<size_t>(wrote) < size_ ? used_ + static_cast<size_t>(wrote)
                                                                    : size_ - 1;
    return *this;
}

const char *type_name(halide_type_t type) {
    thread_local char names[4][24];
    thread_local unsigned next;
    static const char *const codes[] = {"int", "uint", "float", "handle", "bfloat"};
    char *name = names[next++ % 4];
    if (type.code == halide_type_uint && type.bits == 1) {
        snprintf(name, sizeof(names[0]), "bool");
    } else {
        snprintf(name, sizeof(names[0]), "%s%d", type.code < 5 ? codes[type.code] : "type?", type.bits);
    }
    if (type.lanes != 1) {
        snprintf(name + strlen(name), sizeof(names[0]) - strlen(name), "x%d", type.lanes);
    }
    return name;
}

} // namespace kiln::runtime

using namespace kiln::runtime;

extern "C" {

const char *kiln_last_message(void) {
    return last_message;
}

const char *kiln_last_choice(void) {
    return last_choice;
}

const char *kiln_status_name(int status) {
    static const char *const names[] = {"ok",           "invalid argument", "out of memory", "no device",
                                        "device error", "unsupported",      "internal error"};
    return status >= 0 && status < 7 ? names[status] : "unknown status";
}
}
