/** \file
 * Typed views for C++17, without exceptions: `kiln::View<float> x(data, {width, height}); NAME(nullptr, x, y)`.
 */
#pragma once

#include "kiln.h"

#include <initializer_list>

namespace kiln {

/// 16-bit floats as bits: C++17 has no type for them.
struct float16 {
    uint16_t bits;
};
struct bfloat16 {
    uint16_t bits;
};

template<typename T>
struct type_of;
#define KILN_TYPE(T, TYPE)                                                                                   \
    template<>                                                                                               \
    struct type_of<T> {                                                                                      \
        static constexpr kiln_type value = TYPE;                                                             \
    };
KILN_TYPE(int8_t, KILN_INT8)
KILN_TYPE(int16_t, KILN_INT16)
KILN_TYPE(int32_t, KILN_INT32)
KILN_TYPE(int64_t, KILN_INT64)
KILN_TYPE(uint8_t, KILN_UINT8)
KILN_TYPE(uint16_t, KILN_UINT16)
KILN_TYPE(uint32_t, KILN_UINT32)
KILN_TYPE(uint64_t, KILN_UINT64)
KILN_TYPE(float16, KILN_FLOAT16)
KILN_TYPE(float, KILN_FLOAT32)
KILN_TYPE(double, KILN_FLOAT64)
KILN_TYPE(bfloat16, KILN_BFLOAT16)
KILN_TYPE(bool, KILN_BOOL)
#undef KILN_TYPE

/// A kiln_view with an element type, released by its destructor. It owns no data. status() says whether the shape
/// could be taken; a kernel refuses a view that could not.
template<typename T>
class View {
public:
    /// Host memory; dimension 0 is the innermost. `strides` empty: dense.
    View(T *data, std::initializer_list<int64_t> extents, std::initializer_list<int64_t> strides = {}) {
        status_ =
            kiln_view_host(&view_, type(), const_cast<void *>(static_cast<const void *>(data)),
                           static_cast<int>(extents.size()), extents.begin(), begin_of(strides, extents));
    }
    /// A CUDA device address.
    static View cuda(T *data, std::initializer_list<int64_t> extents,
                     std::initializer_list<int64_t> strides = {}) {
        View v;
        v.status_ =
            kiln_view_cuda(&v.view_, type(), const_cast<void *>(static_cast<const void *>(data)),
                           static_cast<int>(extents.size()), extents.begin(), begin_of(strides, extents));
        return v;
    }
    /// OpenCL memory from `byte_offset` on.
    static View opencl(void *mem, uint64_t byte_offset, std::initializer_list<int64_t> extents,
                       std::initializer_list<int64_t> strides = {}) {
        View v;
        v.status_ = kiln_view_opencl(&v.view_, type(), mem, byte_offset, static_cast<int>(extents.size()),
                                     extents.begin(), begin_of(strides, extents));
        return v;
    }
    View(const View &) = delete;
    View &operator=(const View &) = delete;
    View(View &&other) noexcept : view_(other.view_), status_(other.status_) {
        view_.buffer.dim = view_.dim;
        other.view_.buffer.device = 0;
        other.view_.buffer.device_interface = nullptr;
    }
    ~View() { kiln_view_release(nullptr, &view_); }

    int status() const { return status_; }
    halide_buffer_t *buffer() { return &view_.buffer; }
    operator halide_buffer_t *() { return &view_.buffer; }
    /// Coordinates of dimension d start at `min` from now on.
    View &set_min(int d, int32_t min) {
        view_.dim[d].min = min;
        return *this;
    }

private:
    View() = default;
    template<typename U>
    struct unconst {
        using type = U;
    };
    template<typename U>
    struct unconst<const U> {
        using type = U;
    };
    static constexpr kiln_type type() { return type_of<typename unconst<T>::type>::value; }
    static const int64_t *begin_of(std::initializer_list<int64_t> strides,
                                   std::initializer_list<int64_t> extents) {
        return strides.size() == extents.size() ? strides.begin() : nullptr;
    }

    kiln_view view_;
    int status_ = KILN_OK;
};

} // namespace kiln
