#include "Check.h"

namespace kiln::runtime {

namespace {

const char *role(const kiln_entry_argument &argument) {
    return argument.kind == KILN_OUTPUT ? "output" : "input";
}

/// `coefficient * x` for a whole x from lo to hi.
struct Term {
    int64_t coefficient, lo, hi;
};

/// Whether a sum of terms can fall into a range: terms in order of falling coefficient, so that each level
/// leaves few choices to the next.
class Reach {
public:
    void add(int64_t coefficient, int64_t lo, int64_t hi) {
        if (coefficient == 0 || (lo == 0 && hi == 0)) {
            return;
        }
        if (coefficient < 0) {
            coefficient = -coefficient;
            int64_t old = lo;
            lo = -hi;
            hi = -old;
        }
        for (int i = 0; i < count_; i++) {
            if (terms_[i].coefficient == coefficient) {
                terms_[i].lo += lo;
                terms_[i].hi += hi;
                return;
            }
        }
        int at = count_++;
        for (; at > 0 && terms_[at - 1].coefficient < coefficient; at--) {
            terms_[at] = terms_[at - 1];
        }
        terms_[at] = {coefficient, lo, hi};
    }

    /// Some choice has lo <= sum <= hi. `nonzero`: not all x may be 0.
    bool hits(__int128 lo, __int128 hi, bool nonzero) {
        steps_ = 0;
        return search(0, lo, hi, !nonzero);
    }

private:
    bool search(int level, __int128 lo, __int128 hi, bool moved) {
        if (level == count_) {
            return moved && lo <= 0 && 0 <= hi;
        }
        if (++steps_ > 20000) {
            return true;
        }
        __int128 rest_lo = 0, rest_hi = 0;
        for (int i = level + 1; i < count_; i++) {
            rest_lo += static_cast<__int128>(terms_[i].coefficient) * terms_[i].lo;
            rest_hi += static_cast<__int128>(terms_[i].coefficient) * terms_[i].hi;
        }
        const Term &t = terms_[level];
        __int128 first = ceil_div(lo - rest_hi, t.coefficient), last = floor_div(hi - rest_lo, t.coefficient);
        first = first < t.lo ? t.lo : first;
        last = last > t.hi ? t.hi : last;
        for (__int128 x = first; x <= last; x++) {
            if (search(level + 1, lo - x * t.coefficient, hi - x * t.coefficient, moved || x != 0)) {
                return true;
            }
        }
        return false;
    }

    static __int128 floor_div(__int128 a, int64_t b) { return a / b - (a % b < 0); }
    static __int128 ceil_div(__int128 a, int64_t b) { return a / b + (a % b > 0); }

    Term terms_[2 * KILN_MAX_RANK];
    int count_ = 0;
    int steps_ = 0;
};

int64_t bytes_of(const halide_buffer_t &b) {
    return (b.type.bits + 7) / 8;
}

/// First and last byte of a box of elements, from its address on.
struct Span {
    __int128 first = 0, last;
    explicit Span(const halide_buffer_t &b) : last(bytes_of(b) - 1) {
        for (int i = 0; i < b.dimensions; i++) {
            const __int128 reach =
                static_cast<__int128>(b.dim[i].stride * bytes_of(b)) * (b.dim[i].extent - 1);
            (reach < 0 ? first : last) += reach;
        }
    }
};

/// Whether each dimension steps over all that the ones before it span, as in dense and padded layouts.
bool is_nested(const halide_buffer_t &b) {
    __int128 span = 0;
    for (int i = 0; i < b.dimensions; i++) {
        if (b.dim[i].extent > 1) {
            if (b.dim[i].stride <= span) {
                return false;
            }
            span += static_cast<__int128>(b.dim[i].stride) * (b.dim[i].extent - 1);
        }
    }
    return true;
}

/// Where the elements are on the device, comparable within one kind of memory; 0: nowhere.
struct DeviceAddress {
    uint64_t space = 0, offset = 0;
};

DeviceAddress device_address(halide_buffer_t *b) {
    if (!b->device) {
        return {};
    }
    if (b->device_interface == halide_opencl_device_interface()) {
        return {halide_opencl_get_cl_mem(nullptr, b), halide_opencl_get_crop_offset(nullptr, b)};
    }
    return {1, b->device};
}

} // namespace

int64_t element_count(const halide_buffer_t &buffer) {
    __int128 n = 1;
    for (int i = 0; i < buffer.dimensions; i++) {
        if (buffer.dim[i].extent == 0) {
            return 0;
        }
        n *= n > INT64_MAX ? 1 : buffer.dim[i].extent; // more would not fit 128 bits
    }
    return n > INT64_MAX ? -1 : static_cast<int64_t>(n);
}

bool boxes_overlap(const halide_buffer_t &a, uint64_t address_a, const halide_buffer_t &b,
                   uint64_t address_b) {
    const Span span_a(a), span_b(b);
    if (address_a + span_a.last < address_b + span_b.first ||
        address_b + span_b.last < address_a + span_a.first) {
        return false;
    }
    Reach reach;
    for (int i = 0; i < a.dimensions; i++) {
        reach.add(a.dim[i].stride * bytes_of(a), 0, a.dim[i].extent - 1);
    }
    for (int i = 0; i < b.dimensions; i++) {
        reach.add(b.dim[i].stride * bytes_of(b), -(int64_t(b.dim[i].extent) - 1), 0);
    }
    // a + sum < b + size of b, and b < a + sum + size of a.
    __int128 gap = static_cast<__int128>(address_b) - address_a;
    return reach.hits(gap - bytes_of(a) + 1, gap + bytes_of(b) - 1, false);
}

bool overlaps_itself(const halide_buffer_t &buffer) {
    if (is_nested(buffer)) {
        return false;
    }
    Reach reach;
    for (int i = 0; i < buffer.dimensions; i++) {
        if (buffer.dim[i].stride == 0 && buffer.dim[i].extent > 1) {
            return true;
        }
        int64_t range = int64_t(buffer.dim[i].extent) - 1;
        reach.add(buffer.dim[i].stride, -range, range);
    }
    return reach.hits(0, 0, true);
}

int check_buffer(Frame &frame, const kiln_entry_argument &argument, const halide_buffer_t *buffer,
                 bool shape_only) {
    void *uc = &frame.call;
    const char *kind = role(argument), *name = argument.name;
    constexpr int bad = KILN_INVALID_ARGUMENT;
    if (!buffer) {
        return report(uc, bad, "%s `%s` is null", kind, name);
    }
    if (buffer->dimensions < 0) {
        return report(uc, bad, "%s `%s` is a view that was refused when it was made, with its reason", kind,
                      name);
    }
    if (buffer->dimensions != argument.dimensions) {
        return report(uc, bad, "%s `%s` has %d dimension%s, the kernel needs %d", kind, name,
                      buffer->dimensions, buffer->dimensions == 1 ? "" : "s", argument.dimensions);
    }
    if (argument.dimensions > 0 && !buffer->dim) {
        return report(uc, bad, "%s `%s` has no dimensions array: its `dim` is null", kind, name);
    }
    halide_type_t need(static_cast<halide_type_code_t>(argument.type_code), argument.type_bits, 1);
    bool is_16_bit_float =
        need.bits == 16 && (need.code == halide_type_float || need.code == halide_type_bfloat);
    bool raw_bits = is_16_bit_float && buffer->type == halide_type_t(halide_type_uint, 16, 1);
    if (buffer->type != need && !raw_bits) {
        return report(uc, bad, "%s `%s` has type %s, the kernel needs %s", kind, name,
                      type_name(buffer->type), type_name(need));
    }
    for (int i = 0; i < buffer->dimensions; i++) {
        const halide_dimension_t &d = buffer->dim[i];
        const kiln_entry_dimension &c = argument.dimension[i];
        if (d.extent < 0) {
            return report(uc, bad, "%s `%s` has extent %d in dimension %d, it cannot be negative", kind, name,
                          d.extent, i);
        }
        if (int64_t(d.min) + d.extent > INT32_MAX) {
            return report(uc, bad, "%s `%s` ends at %lld in dimension %d, coordinates end at 2147483647",
                          kind, name, static_cast<long long>(d.min) + d.extent, i);
        }
        if (c.min != KILN_FREE && d.min != c.min) {
            return report(uc, bad, "%s `%s` has min %d in dimension %d, the kernel needs %d", kind, name,
                          d.min, i, c.min);
        }
        if (c.extent != KILN_FREE && d.extent != c.extent) {
            return report(uc, bad, "%s `%s` has extent %d in dimension %d, the kernel needs %d", kind, name,
                          d.extent, i, c.extent);
        }
        // The stride of a dimension with one element is never used, so any will do.
        if (c.stride != KILN_FREE && d.stride != c.stride && d.extent > 1) {
            return report(uc, bad, "%s `%s` has stride %d in dimension %d, the kernel needs %d", kind, name,
                          d.stride, i, c.stride);
        }
    }
    if (buffer->device && !buffer->device_interface) {
        return report(uc, bad, "%s `%s` has device memory but no device_interface", kind, name);
    }
    if (!buffer->device && buffer->device_interface) {
        return report(uc, bad, "%s `%s` has a device_interface but no device memory", kind, name);
    }
    if (buffer->host_dirty() && buffer->device_dirty()) {
        return report(
            uc, bad, "%s `%s` has both host_dirty and device_dirty set: which copy is the newer is not known",
            kind, name);
    }
    int64_t elements = element_count(*buffer);
    if (elements < 0) {
        return report(uc, bad, "%s `%s` has more than 2^63 - 1 elements", kind, name);
    }
    if (elements == 0) {
        return KILN_OK;
    }
    if (!buffer->host && !buffer->device && !shape_only) {
        return report(uc, bad, "%s `%s` has no memory: its host pointer is null and it is on no device", kind,
                      name);
    }
    if (buffer->host && reinterpret_cast<uintptr_t>(buffer->host) % argument.alignment != 0) {
        return report(uc, bad, "%s `%s` is at %p, the kernel needs an address aligned to %d bytes", kind,
                      name, static_cast<void *>(buffer->host), argument.alignment);
    }
    if (argument.kind == KILN_OUTPUT && overlaps_itself(*buffer)) {
        for (int i = 0; i < buffer->dimensions; i++) {
            if (buffer->dim[i].stride == 0 && buffer->dim[i].extent > 1) {
                return report(
                    uc, bad,
                    "output `%s` has stride 0 in dimension %d of extent %d, its elements share memory", name,
                    i, buffer->dim[i].extent);
            }
        }
        return report(uc, bad, "the strides of output `%s` put two of its elements at one address", name);
    }
    return KILN_OK;
}

int check_overlap(Frame &frame, const kiln_entry_library &library, halide_buffer_t *const *buffers) {
    for (int i = 0; i < library.argument_count; i++) {
        if (library.arguments[i].kind != KILN_OUTPUT || element_count(*buffers[i]) == 0) {
            continue;
        }
        for (int j = 0; j < library.argument_count; j++) {
            const kiln_entry_argument &other = library.arguments[j];
            if (j == i || other.kind == KILN_SCALAR || (other.kind == KILN_OUTPUT && j < i) ||
                element_count(*buffers[j]) == 0) {
                continue;
            }
            halide_buffer_t *a = buffers[i], *b = buffers[j];
            DeviceAddress on_a = device_address(a), on_b = device_address(b);
            bool host = a->host && b->host &&
                        boxes_overlap(*a, reinterpret_cast<uint64_t>(a->host), *b,
                                      reinterpret_cast<uint64_t>(b->host));
            bool device = on_a.space != 0 && on_a.space == on_b.space &&
                          a->device_interface == b->device_interface &&
                          boxes_overlap(*a, on_a.offset, *b, on_b.offset);
            if (host || device) {
                return report(&frame.call, KILN_INVALID_ARGUMENT,
                              "output `%s` shares memory with %s `%s`, they must be apart",
                              library.arguments[i].name, role(other), other.name);
            }
        }
    }
    return KILN_OK;
}

} // namespace kiln::runtime
