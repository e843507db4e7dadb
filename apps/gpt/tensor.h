/** \file
 * Numbers in the memory of one device, and views of them for kernels. A library of Kiln's that holds variants for several
 * devices runs the one in whose memory its arguments are, so nothing but this file knows devices apart.
 */
#pragma once

#include <kiln/kiln.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace gpt {

/// A message for the user: what went wrong, and where there is one, a way out.
struct Error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// This machine has no such device, or no driver for it.
struct NoDevice : Error {
    using Error::Error;
};

/// Throws Error with Kiln's own message unless `status` is KILN_OK.
void must(int status, const char *doing);

enum class Device { Cpu, OpenCL, Cuda };
Device device_of(const std::string &name); ///< cpu, opencl or cuda; throws Error
const char *name_of(Device device);

int64_t bytes_of(kiln_type type); ///< float32, bfloat16 or int32

/// A halide_buffer_t for one call, freed of what it holds afterwards.
class View {
public:
    View() = default;
    View(const View &) = delete;
    View &operator=(const View &) = delete;
    ~View() { kiln_view_release(nullptr, &view_); }
    operator halide_buffer_t *() { return &view_.buffer; }

private:
    friend class Tensor;
    kiln_view view_ = {};
};

/// Memory of its own on `device`, which a Tensor never changes. Work on a device is done in the order of the calls.
class Tensor {
public:
    /// NaN bits everywhere: what reads a number that nobody wrote shows.
    Tensor(Device device, kiln_type type, int64_t count);
    ~Tensor();
    Tensor(Tensor &&) = delete;

    kiln_type type() const { return type_; }
    int64_t count() const { return count_; }

    /// Elements from `offset` on; dimension 0 is innermost, extents and strides count elements, no strides: dense.
    std::unique_ptr<View> view(std::initializer_list<int64_t> extents,
                               std::initializer_list<int64_t> strides = {}, int64_t offset = 0) const;

    /// From float32, rounded to the nearest number of the type; all elements.
    void set(const std::vector<float> &values);
    /// Into the first elements of a tensor of int32.
    void set(const std::vector<int32_t> &values);
    /// The first `count` elements of a tensor of float32, after all work before.
    std::vector<float> get(int64_t count);

private:
    void upload();

    Device device_;
    kiln_type type_;
    int64_t count_;
    std::vector<unsigned char> host_;
    kiln_view whole_ = {}; ///< of host_, with memory on the device where that has its own
};

} // namespace gpt
