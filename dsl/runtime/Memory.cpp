/** \file
 * Host memory for intermediate values: from the caller's allocator where the call has one.
 */
#include "Frame.h"

#include "kiln_entry.h"

#include <cstring>

using namespace kiln::runtime;

namespace {
// Before each block, so that the caller's `free` gets the size back. Keeps Halide's alignment.
constexpr size_t header = 128;
static_assert(2 * header == KILN_ALLOCATION_HEADER, "name_workspace counts it");
// Where a device holds an intermediate value alone, generated code asks for no bytes on the host.
alignas(header) uint8_t nothing[2 * header];
} // namespace

extern "C" {

void *kiln_original_malloc(void *user_context, size_t bytes);
void kiln_original_free(void *user_context, void *memory);

void *halide_malloc(void *user_context, size_t bytes) {
    if (bytes == 0) {
        return nothing + header;
    }
    Frame *frame = frame_of(user_context);
    if (!frame || !frame->call.alloc || !frame->call.free) {
        return kiln_original_malloc(user_context, bytes);
    }
    // Vector code may read a little past the end, as with Halide's own allocator.
    size_t total = bytes + 2 * header;
    void *block = total < bytes ? nullptr : frame->call.alloc(&frame->call, total, header, KILN_SPACE_HOST);
    if (!block) {
        return nullptr;
    }
    memcpy(block, &total, sizeof(total));
    return static_cast<uint8_t *>(block) + header;
}

void halide_free(void *user_context, void *memory) {
    if (memory == nothing + header) {
        return;
    }
    Frame *frame = frame_of(user_context);
    if (!memory || !frame || !frame->call.alloc || !frame->call.free) {
        kiln_original_free(user_context, memory);
        return;
    }
    void *block = static_cast<uint8_t *>(memory) - header;
    size_t total = 0;
    memcpy(&total, block, sizeof(total));
    frame->call.free(&frame->call, block, total, KILN_SPACE_HOST);
}
}
