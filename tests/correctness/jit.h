/** \file
 * For tests that run legalized pipelines by JIT: targets, buffers of any float type, 16-bit floats in double.
 */
#pragma once

#include "dsl/lower/Legalize.h"

#include <Halide.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace kiln::test {

inline Halide::Target jit_target(const std::string &features = "sse41-avx-f16c-fma-avx2") {
    std::string text = "x86-64-linux" + (features.empty() ? "" : "-" + features) + "-jit";
    return Halide::Target(text);
}
inline Halide::Target jit_opencl() {
    return jit_target("sse41-avx-f16c-fma-avx2-opencl");
}

inline float float_of(uint32_t bits) {
    float f;
    std::memcpy(&f, &bits, 4);
    return f;
}
inline uint32_t bits_of(float f) {
    uint32_t b;
    std::memcpy(&b, &f, 4);
    return b;
}

/// The value of 16 bits, by the definition of the format: sign, exponent, fraction.
inline double value_of_16(uint16_t bits, const Halide::Type &type) {
    const int fraction_bits = type.is_bfloat() ? 7 : 10, bias = type.is_bfloat() ? 127 : 15;
    const int all = (1 << (15 - fraction_bits)) - 1;
    int exponent = (bits >> fraction_bits) & all, fraction = bits & ((1 << fraction_bits) - 1);
    double sign = bits & 0x8000 ? -1 : 1;
    if (exponent == all) {
        return fraction ? NAN : sign * INFINITY;
    }
    double significand =
        exponent ? 1 + std::ldexp(fraction, -fraction_bits) : std::ldexp(fraction, -fraction_bits);
    return sign * std::ldexp(significand, (exponent ? exponent : 1) - bias);
}

/// The 16 bits nearest to a finite or infinite value, ties to even: by looking at the neighbours in the ordered list of
/// patterns, which shares nothing with the conversion under test. NaN gives a quiet NaN.
inline uint16_t nearest_16(double value, const Halide::Type &type) {
    const uint16_t infinity = type.is_bfloat() ? 0x7f80 : 0x7c00;
    uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    if (std::isnan(value)) {
        return uint16_t(sign | infinity | (type.is_bfloat() ? 0x40 : 0x200));
    }
    double a = std::fabs(value);
    uint16_t low = 0, high = infinity; // value_of(low) <= a < value_of(high), high as if the format went on
    while (high - low > 1) {
        uint16_t middle = uint16_t((low + high) / 2);
        (value_of_16(middle, type) <= a ? low : high) = middle;
    }
    double below = value_of_16(low, type);
    double step = low ? below - value_of_16(uint16_t(low - 1), type) : value_of_16(1, type);
    double above = high == infinity ? below + step : value_of_16(high, type);
    double down = a - below, up = above - a;
    bool take_high = a == INFINITY || up < down || (up == down && (low & 1));
    return uint16_t(sign | (take_high ? high : low));
}

/// Values as they are stored in `type`.
inline float round_to(float value, const Halide::Type &type) {
    return type.bits() == 32 ? value : float(value_of_16(nearest_16(value, type), type));
}

/// A dense array, innermost extent first, whose values are representable in `type`.
struct Tensor {
    Halide::Type type = Halide::Float(32);
    std::vector<int> extents;
    std::vector<float> values;

    size_t index(const std::vector<int> &at) const {
        size_t n = 0;
        for (size_t d = extents.size(); d-- > 0;) {
            n = n * size_t(extents[d]) + size_t(at[d]);
        }
        return n;
    }
    float operator()(const std::vector<int> &at) const { return values[index(at)]; }
    float &operator()(const std::vector<int> &at) { return values[index(at)]; }

    /// A buffer with the bits of `type`, under the type in which the pipeline stores it.
    Halide::Buffer<> buffer(const Halide::Type &stored) const {
        Halide::Buffer<> b(stored, extents);
        for (size_t i = 0; i < values.size(); ++i) {
            if (type.bits() == 32) {
                reinterpret_cast<float *>(b.data())[i] = values[i];
            } else {
                reinterpret_cast<uint16_t *>(b.data())[i] = nearest_16(values[i], type);
            }
        }
        b.set_host_dirty();
        return b;
    }
};

inline size_t count(const std::vector<int> &extents) {
    size_t n = 1;
    for (int e : extents) {
        n *= size_t(e);
    }
    return n;
}

inline Tensor tensor_of(Halide::Buffer<> b, const Halide::Type &type) {
    b.copy_to_host();
    Tensor t{type, {}, {}};
    for (int d = 0; d < b.dimensions(); ++d) {
        t.extents.push_back(b.dim(d).extent());
    }
    t.values.resize(count(t.extents));
    for (size_t i = 0; i < t.values.size(); ++i) {
        t.values[i] = type.bits() == 32
                          ? reinterpret_cast<const float *>(b.data())[i]
                          : float(value_of_16(reinterpret_cast<const uint16_t *>(b.data())[i], type));
    }
    return t;
}

inline Tensor filled(const Halide::Type &type, std::vector<int> extents,
                     const std::function<float(size_t)> &f) {
    Tensor t{type, std::move(extents), {}};
    t.values.resize(count(t.extents));
    for (size_t i = 0; i < t.values.size(); ++i) {
        t.values[i] = round_to(f(i), type);
    }
    return t;
}

inline Tensor random_tensor(const Halide::Type &type, std::vector<int> extents, unsigned seed,
                            float scale = 1) {
    std::mt19937 engine(seed);
    std::normal_distribution<float> normal(0, scale);
    return filled(type, std::move(extents), [&](size_t) { return normal(engine); });
}

inline std::string name_of(const Halide::Type &type) {
    return type.is_bfloat() ? "bfloat16" : type.bits() == 16 ? "float16" : "float32";
}

/// A legalized pipeline that is compiled once, at its first run.
class Kernel {
public:
    Kernel(LegalizedPipeline pipeline, const Halide::Target &target)
        : legalized_(std::move(pipeline)), pipeline_(legalized_.outputs), target_(target) {}

    /// Binds inputs and scalars by name; outputs have the extents given, one list a buffer.
    std::vector<Tensor> operator()(const std::map<std::string, Tensor> &inputs,
                                   const std::vector<std::vector<int>> &extents,
                                   const std::map<std::string, float> &scalars = {}) {
        for (const LegalizedArgument &a : legalized_.inputs) {
            Halide::Parameter p = a.parameter;
            if (p.is_buffer()) {
                p.set_buffer(inputs.at(a.name).buffer(p.type()));
            } else {
                p.set_scalar(scalars.at(a.name));
            }
        }
        std::vector<Halide::Buffer<>> buffers;
        for (size_t i = 0; i < legalized_.output_args.size(); ++i) {
            buffers.emplace_back(legalized_.output_args[i].argument.type, extents[i]);
        }
        try {
            pipeline_.realize(Halide::Realization(buffers), target_);
        } catch (const Halide::Error &e) { // no std::exception: GoogleTest would not show its text
            throw std::runtime_error(e.what());
        }
        std::vector<Tensor> results;
        for (size_t i = 0; i < buffers.size(); ++i) {
            results.push_back(tensor_of(buffers[i], legalized_.output_args[i].contract_type));
        }
        return results;
    }

private:
    LegalizedPipeline legalized_;
    Halide::Pipeline pipeline_;
    Halide::Target target_;
};

inline std::vector<Tensor> run(const LegalizedPipeline &pipeline, const std::map<std::string, Tensor> &inputs,
                               const std::vector<std::vector<int>> &extents, const Halide::Target &target) {
    return Kernel(pipeline, target)(inputs, extents);
}

} // namespace kiln::test
