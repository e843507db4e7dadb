#include "TileTensorMap.h"

#include "Lock.h"

#include <cstring>

namespace kiln::runtime {

namespace {

/// Everything that a descriptor is made from. Zeroed first: keys are compared as bytes.
struct Key {
    uint64_t address;
    uint64_t extents[KILN_TILE_MAX_TMA_RANK],
        strides[KILN_TILE_MAX_TMA_RANK]; ///< elements; bytes, of dimension 1 on
    uint32_t box[KILN_TILE_MAX_TMA_RANK];
    uint32_t rank, element, swizzle;
};

struct Entry {
    Key key;
    TensorMap map;
    bool used;
};

constexpr size_t entries = 256;
pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
Entry cache[entries];

size_t slot_of(const Key &key) {
    uint64_t words[sizeof(Key) / 8], h = 0x9e3779b97f4a7c15u;
    memcpy(words, &key, sizeof(words));
    for (uint64_t word : words) {
        h = (h ^ word) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    return h % entries;
}

int refuse(void *user_context, const kiln_tile_view &view, const char *rule) {
    return report(user_context, KILN_INVALID_ARGUMENT, "`%s` cannot be moved by TMA: %s", view.name, rule);
}

/// The rules of cuTensorMapEncodeTiled.
int fill_in(void *user_context, const kiln_tile_view &view, const kiln_tile_param &param, uint64_t somewhere,
            Key &key) {
    const halide_buffer_t &b = *view.buffer;
    char buffer[192];
    Text rule(buffer, sizeof(buffer));
    int64_t bytes = b.type.bytes();
    if (b.dimensions < 1 || b.dimensions > KILN_TILE_MAX_TMA_RANK) {
        rule("it has %d dimensions, from 1 to %d are possible", b.dimensions, KILN_TILE_MAX_TMA_RANK);
        return refuse(user_context, view, buffer);
    }
    bool empty = false;
    for (int d = 0; d < b.dimensions; d++) {
        empty |= view.extent[d] < 1;
    }
    key.address = empty ? somewhere : b.device;
    if (key.address % 16 != 0) {
        rule("its device address %#llx is no multiple of 16", static_cast<unsigned long long>(key.address));
        return refuse(user_context, view, buffer);
    }
    key.rank = static_cast<uint32_t>(b.dimensions);
    key.element = view.element;
    key.swizzle = param.swizzle;
    int64_t dense = bytes;
    for (int d = 0; d < b.dimensions; d++) {
        int64_t extent = view.extent[d] < 1 ? 1 : view.extent[d], stride = b.dim[d].stride * bytes;
        key.extents[d] = static_cast<uint64_t>(extent);
        key.box[d] = static_cast<uint32_t>(param.box[d]);
        if (d == 0) {
            if (extent > 1 && stride != bytes) {
                rule("its stride in dimension 0 is %d, it must be 1", b.dim[0].stride);
                return refuse(user_context, view, buffer);
            }
        } else {
            // A stride that is never used may be any: the next one that the rules allow.
            stride = extent > 1 ? stride : (dense + 15) / 16 * 16;
            if (stride % 16 != 0 || stride < 0 || stride >= int64_t(1) << 40) {
                rule("its stride in dimension %d is %lld bytes, it must be a multiple of 16 from 0 to 2^40",
                     d, static_cast<long long>(stride));
                return refuse(user_context, view, buffer);
            }
            key.strides[d - 1] = static_cast<uint64_t>(stride);
        }
        dense = (d == 0 ? bytes : stride) * extent;
        dense = dense < bytes || dense >= int64_t(1) << 39 ? bytes : dense;
    }
    return KILN_OK;
}

} // namespace

int make_tensor_map(void *user_context, const TileDriver &driver, const kiln_tile_view &view,
                    const kiln_tile_param &param, uint64_t somewhere, TensorMap &out) {
    Key key;
    memset(&key, 0, sizeof(key));
    if (int status = fill_in(user_context, view, param, somewhere, key)) {
        return status;
    }
    Entry &entry = cache[slot_of(key)];
    Lock lock(mutex);
    if (entry.used && memcmp(&entry.key, &key, sizeof(key)) == 0) {
        out = entry.map;
        return KILN_OK;
    }
    constexpr int no_interleave = 0, to_128_bytes = 2, to_256_bytes = 3, fill_with_zeros = 0;
    // The L2 fetches whole lines for each row of a box; where rows do not begin at 256 bytes, 128 waste less.
    int promotion = to_256_bytes;
    for (uint32_t d = 0; d + 1 < key.rank; d++) {
        promotion = key.strides[d] % 256 == 0 ? promotion : to_128_bytes;
    }
    const uint32_t ones[KILN_TILE_MAX_TMA_RANK] = {1, 1, 1, 1, 1};
    int swizzle = param.swizzle == 128 ? 3 : param.swizzle == 64 ? 2 : param.swizzle == 32 ? 1 : 0;
    int error = driver.TensorMapEncodeTiled(
        &out, view.element, key.rank, reinterpret_cast<void *>(key.address), key.extents, key.strides,
        key.box, ones, no_interleave, swizzle, promotion, fill_with_zeros);
    if (error != 0) {
        char buffer[512];
        Text doing(buffer, sizeof(buffer));
        doing("cuTensorMapEncodeTiled for `%s` (", view.name);
        for (uint32_t d = 0; d < key.rank; d++) {
            doing("%s%llu", d ? " x " : "", static_cast<unsigned long long>(key.extents[d]));
        }
        doing(" elements, boxes of ");
        for (uint32_t d = 0; d < key.rank; d++) {
            doing("%s%u", d ? " x " : "", key.box[d]);
        }
        doing(")");
        tile_fault(user_context, driver, buffer, error);
        return error;
    }
    entry.key = key;
    entry.map = out;
    entry.used = true;
    return KILN_OK;
}

} // namespace kiln::runtime
