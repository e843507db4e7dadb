/** \file
 * One call in flight. Generated code and Halide's runtime get a pointer to `Frame::call` as their user_context, so
 * that an error on a worker thread reaches the thread that made the call.
 */
#pragma once

#include "kiln.h"
#include "kiln_entry.h"

#include <cstdarg>
#include <cstddef>

namespace kiln::runtime {

constexpr size_t message_size = 1024;

struct Frame {
    kiln_call call;
    const kiln_entry_library *library;
    const kiln_entry_variant *variant;
    halide_buffer_t *const *buffers; ///< what Halide sees of the arguments; null for scalars
    int buffer_count;
    int lock;
    int status;
    kiln_workspace workspace; ///< what kiln_workspace_note says
    char message[message_size];

    explicit Frame(const kiln_call *given);
    /// The first error of a call is its cause: later ones are dropped.
    void record(int new_status, const char *text);
    /// Hands the message to the thread and to on_message; returns the status.
    int finish(const kiln_call *given);
    bool is_argument(const halide_buffer_t *buffer) const;
};

/// The frame behind a user_context, or null where it is the caller's own kiln_call or null.
Frame *frame_of(void *user_context);
/// The kiln_call behind a user_context: never null.
const kiln_call *call_of(void *user_context);

/// Reports to whoever made the call behind `user_context`. Returns `status`.
int report(void *user_context, int status, const char *format, ...) __attribute__((format(printf, 3, 4)));

/// Sets and clears this thread's last message and choice.
void set_last_message(const char *text);
char *last_choice_buffer(); ///< message_size bytes

/// Text appended to a fixed buffer, cut at its end.
class Text {
public:
    Text(char *buffer, size_t size) : buffer_(buffer), size_(size) { buffer_[0] = 0; }
    Text &operator()(const char *format, ...) __attribute__((format(printf, 2, 3)));
    const char *c_str() const { return buffer_; }
    bool empty() const { return used_ == 0; }

private:
    char *buffer_;
    size_t size_;
    size_t used_ = 0;
};

/// "float32", "bfloat16", "uint8"; the buffer is this thread's and lasts for four more calls.
const char *type_name(halide_type_t type);

} // namespace kiln::runtime
