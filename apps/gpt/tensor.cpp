#include "tensor.h"

#include <cmath>
#include <cstring>

namespace gpt {

namespace {

const halide_device_interface_t *interface_of(Device device) {
    return device == Device::Cuda     ? halide_cuda_device_interface()
           : device == Device::OpenCL ? halide_opencl_device_interface()
                                      : nullptr;
}

uint32_t bits_of(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    return bits;
}

/// To the nearest, ties to even.
uint16_t bfloat16_of(float value) {
    uint32_t bits = bits_of(value);
    return std::isnan(value) ? 0x7fc0 : uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

} // namespace

void must(int status, const char *doing) {
    if (status != KILN_OK) {
        throw Error(std::string(doing) + ": " + kiln_last_message());
    }
}

Device device_of(const std::string &name) {
    for (Device device : {Device::Cpu, Device::OpenCL, Device::Cuda}) {
        if (name == name_of(device)) {
            return device;
        }
    }
    throw Error("there is no target `" + name + "`: take cpu, opencl or cuda");
}

const char *name_of(Device device) {
    return device == Device::Cpu ? "cpu" : device == Device::OpenCL ? "opencl" : "cuda";
}

int64_t bytes_of(kiln_type type) {
    return type == KILN_BFLOAT16 ? 2 : 4;
}

Tensor::Tensor(Device device, kiln_type type, int64_t count)
    : device_(device), type_(type), count_(count), host_(size_t(count * bytes_of(type)), 0xff) {
    must(kiln_view_host(&whole_, type, host_.data(), 1, &count, nullptr), "a tensor");
    if (device != Device::Cpu) {
        if (halide_device_malloc(nullptr, &whole_.buffer, interface_of(device)) != 0) {
            throw NoDevice(std::string("cannot use ") + name_of(device) + ": " + kiln_last_message());
        }
        upload();
    }
}

Tensor::~Tensor() {
    kiln_view_release(nullptr, &whole_);
}

std::unique_ptr<View> Tensor::view(std::initializer_list<int64_t> extents,
                                   std::initializer_list<int64_t> strides, int64_t offset) const {
    auto made = std::make_unique<View>();
    const int rank = int(extents.size());
    const int64_t *steps = strides.size() ? strides.begin() : nullptr, from = offset * bytes_of(type_);
    halide_buffer_t *all = const_cast<halide_buffer_t *>(&whole_.buffer);
    int status;
    if (device_ == Device::Cuda) {
        auto *address = reinterpret_cast<unsigned char *>(halide_cuda_get_device_ptr(nullptr, all));
        status = kiln_view_cuda(&made->view_, type_, address + from, rank, extents.begin(), steps);
    } else if (device_ == Device::OpenCL) {
        auto *memory = reinterpret_cast<void *>(halide_opencl_get_cl_mem(nullptr, all));
        status = kiln_view_opencl(&made->view_, type_, memory, uint64_t(from), rank, extents.begin(), steps);
    } else {
        auto *memory = const_cast<unsigned char *>(host_.data());
        status = kiln_view_host(&made->view_, type_, memory + from, rank, extents.begin(), steps);
    }
    must(status, "a view");
    return made;
}

void Tensor::upload() {
    if (device_ != Device::Cpu) {
        whole_.buffer.set_host_dirty(true);
        must(halide_copy_to_device(nullptr, &whole_.buffer, interface_of(device_)), "copying to the device");
    }
}

void Tensor::set(const std::vector<float> &values) {
    if (int64_t(values.size()) != count_) {
        throw Error("a tensor of " + std::to_string(count_) + " numbers was given " +
                    std::to_string(values.size()));
    }
    for (size_t i = 0; i < values.size(); i++) {
        if (type_ == KILN_BFLOAT16) {
            uint16_t bits = bfloat16_of(values[i]);
            std::memcpy(&host_[2 * i], &bits, 2);
        } else {
            std::memcpy(&host_[4 * i], &values[i], 4);
        }
    }
    upload();
}

void Tensor::set(const std::vector<int32_t> &values) {
    std::memcpy(host_.data(), values.data(), 4 * values.size());
    upload();
}

std::vector<float> Tensor::get(int64_t count) {
    if (device_ != Device::Cpu) {
        whole_.buffer.set_device_dirty(true);
        must(halide_copy_to_host(nullptr, &whole_.buffer), "copying from the device");
    }
    std::vector<float> values(static_cast<size_t>(count));
    std::memcpy(values.data(), host_.data(), 4 * values.size());
    return values;
}

} // namespace gpt
