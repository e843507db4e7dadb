/** \file
 * For the tests of cases from the field: kernels built as libraries by the product, and tensors of any storage type,
 * layout and place whose surroundings are NaN.
 */
#pragma once

#include "dsl/lower/BuildLibrary.h"
#include "dsl/lower/LoadLibrary.h"
#include "dsl/support/Files.h"

#include "kiln.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <sstream>

namespace kiln::test {

using Params = std::map<std::string, std::string>;

struct Build {
    std::string generator, target = "cpu avx2";
    Params params = {};
    std::string schedule = ""; ///< a file of schedules/, the text of a schedule, or "" for the default one
};

inline BuildResult build(const Build &b, const std::filesystem::path &folder) {
    BuildRequest request;
    request.generator = b.generator;
    request.load = {KILN_BINARY_DIR "/lib/kiln_cases_generators.so",
                    KILN_BINARY_DIR "/lib/kiln_generators.so"};
    request.params = b.params;
    request.output_dir = folder;
    VariantRequest variant;
    variant.target = Target::parse(b.target);
    variant.schedule_text = b.schedule;
    if (b.schedule.ends_with(".sched")) {
        std::ostringstream text;
        text << std::ifstream(std::string(KILN_SOURCE_DIR "/schedules/") + b.schedule).rdbuf();
        variant.schedule_text = text.str();
    }
    if (b.generator.starts_with(
            "case_attention")) { // Kiln's own schedules serve the variants of the tests too
        for (size_t at = 0; (at = variant.schedule_text.find("op      attention\n")) != std::string::npos;) {
            variant.schedule_text.replace(at, 18, "op " + b.generator + "\n");
        }
    }
    variant.schedule_file = b.schedule.empty() ? "" : "a.sched";
    request.variants = {variant};
    return build_library(request);
}

/// Built once a process. A fault fails the test and ends the program.
inline LoadedLibrary &kernel(const Build &b) {
    static std::map<std::string, LoadedLibrary> loaded;
    std::string key = b.generator + "|" + b.target + "|" + b.schedule;
    for (const auto &[name, value] : b.params) {
        key += "|" + name + "=" + value;
    }
    auto it = loaded.find(key);
    if (it == loaded.end()) {
        TemporaryFolder folder;
        BuildResult built = build(b, folder.path());
        if (!built.ok) {
            ADD_FAILURE() << key << "\n" << render_all(built.diagnostics, b.schedule);
            std::abort();
        }
        it = loaded.emplace(key, LoadedLibrary(built.archive)).first;
    }
    return it->second;
}

/// What the build says against it; "" where it is built.
inline std::string refusal(const Build &b) {
    TemporaryFolder folder;
    BuildResult built = build(b, folder.path());
    return built.ok ? "" : render_all(built.diagnostics, b.schedule);
}

inline const char *name_of(kiln_type type) {
    return type == KILN_FLOAT32 ? "float32" : type == KILN_FLOAT16 ? "float16" : "bfloat16";
}

/// Half a unit in the last place, relative.
inline double unit_of(kiln_type type) {
    return type == KILN_FLOAT32 ? 0x1p-24 : type == KILN_FLOAT16 ? 0x1p-11 : 0x1p-8;
}

struct Layout {
    std::vector<int64_t> strides = {}; ///< elements; dense where empty
    int64_t offset = 0;                ///< elements from an aligned address to the first element
    std::vector<int> mins = {};
};

/// A tensor in memory that is NaN all around it.
class Tensor {
public:
    Tensor(kiln_type type, std::vector<int64_t> extents, const Layout &layout = {}) : type_(type) {
        std::vector<int64_t> strides = layout.strides;
        int64_t span = 1;
        for (size_t d = 0; d < extents.size(); d++) {
            if (strides.size() <= d) {
                strides.push_back(d == 0 ? 1 : strides[d - 1] * std::max<int64_t>(extents[d - 1], 1));
            }
            span += std::max<int64_t>(extents[d] - 1, 0) * strides[d];
        }
        size_t bytes = size_t(span + layout.offset + 2 * guard) * size();
        memory_.assign(bytes + 64, 0xff); // NaN in every type
        size_t skip = (64 - reinterpret_cast<uintptr_t>(memory_.data()) % 64) % 64;
        first_ = memory_.data() + skip + size_t(guard + layout.offset) * size();
        kiln_view_host(&view, type, first_, int(extents.size()), extents.data(), strides.data());
        for (size_t d = 0; d < layout.mins.size(); d++) {
            view.dim[d].min = layout.mins[d];
        }
        extents_ = extents;
        strides_ = strides;
    }
    Tensor(const Tensor &) = delete;

    halide_buffer_t *buffer() { return &view.buffer; }
    int64_t extent(size_t d) const { return extents_[d]; }

    /// Places count from 0, whatever the view's mins are.
    double get(std::vector<int64_t> at) const {
        const uint8_t *p = place(at);
        if (type_ == KILN_FLOAT32) {
            float f;
            std::memcpy(&f, p, 4);
            return f;
        }
        uint16_t bits;
        std::memcpy(&bits, p, 2);
        if (type_ == KILN_BFLOAT16) {
            uint32_t wide = uint32_t(bits) << 16;
            float f;
            std::memcpy(&f, &wide, 4);
            return f;
        }
        int exponent = bits >> 10 & 31, fraction = bits & 1023;
        double value = exponent == 31  ? (fraction ? NAN : INFINITY)
                       : exponent == 0 ? std::ldexp(fraction, -24)
                                       : std::ldexp(fraction + 1024, exponent - 25);
        return bits >> 15 ? -value : value;
    }
    /// `value` must be one that the type holds exactly.
    void set(std::vector<int64_t> at, double value) {
        uint8_t *p = place(at);
        if (type_ == KILN_FLOAT32) {
            float f = float(value);
            std::memcpy(p, &f, 4);
        } else {
            uint16_t bits = 0;
            if (type_ == KILN_BFLOAT16) {
                float f = float(value);
                uint32_t wide;
                std::memcpy(&wide, &f, 4);
                bits = uint16_t(wide >> 16);
            } else if (value != 0) {
                int e;
                double m = std::frexp(std::abs(value), &e); // in [0.5, 1)
                bits = uint16_t((value < 0 ? 0x8000 : 0) | (e + 14) << 10 | (int(m * 2048) & 1023));
            }
            std::memcpy(p, &bits, 2);
        }
        ASSERT_EQ(get(at), value) << "no value of the type";
    }
    void set_nan(const std::vector<int64_t> &at) { std::memset(place(at), 0xff, size()); }
    uint32_t bits(std::vector<int64_t> at) const {
        uint32_t b = 0;
        std::memcpy(&b, place(at), size());
        return b;
    }
    /// Multiples of 1/16 in [-2, 2]: exact in every type.
    void fill(unsigned seed, double step = 0x1p-4) {
        std::mt19937 random(seed);
        each([&](const std::vector<int64_t> &at) { set(at, (int(random() % 65) - 32) * step); });
    }
    void each(const std::function<void(const std::vector<int64_t> &)> &visit) const {
        std::vector<int64_t> at(extents_.size(), 0);
        for (int64_t e : extents_) {
            if (e == 0) {
                return;
            }
        }
        for (;;) {
            visit(at);
            size_t d = 0;
            while (d < at.size() && ++at[d] == extents_[d]) {
                at[d++] = 0;
            }
            if (d == at.size()) {
                return;
            }
        }
    }
    /// Only elements of the tensor were written.
    bool surroundings_untouched() const {
        std::vector<bool> inside(memory_.size(), false);
        each([&](const std::vector<int64_t> &at) {
            size_t p = size_t(place(at) - memory_.data());
            for (size_t i = 0; i < size(); i++) {
                inside[p + i] = true;
            }
        });
        for (size_t i = 0; i < memory_.size(); i++) {
            if (!inside[i] && memory_[i] != 0xff) {
                return false;
            }
        }
        return true;
    }
    bool untouched() const {
        return std::all_of(memory_.begin(), memory_.end(), [](uint8_t b) { return b == 0xff; });
    }
    bool same_values(const Tensor &other) const {
        bool same = true;
        each([&](const std::vector<int64_t> &at) { same = same && bits(at) == other.bits(at); });
        return same;
    }

    kiln_view view;

private:
    static constexpr int64_t guard = 64;
    size_t size() const { return type_ == KILN_FLOAT32 ? 4 : 2; }
    uint8_t *place(const std::vector<int64_t> &at) const {
        int64_t p = 0;
        for (size_t d = 0; d < at.size(); d++) {
            p += at[d] * strides_[d];
        }
        return first_ + p * int64_t(size());
    }
    kiln_type type_;
    std::vector<int64_t> extents_, strides_;
    std::vector<uint8_t> memory_;
    uint8_t *first_ = nullptr;
};

/// Calls with host memory; results are fetched and device memory is freed.
inline int call(LoadedLibrary &lib, std::vector<Tensor *> inputs, std::vector<Tensor *> outputs,
                std::vector<float> scalars = {}) {
    std::vector<void *> arguments;
    size_t buffer = 0, scalar = 0;
    std::vector<Tensor *> all = inputs;
    all.insert(all.end(), outputs.begin(), outputs.end());
    for (int i = 0; i < lib.info().argument_count; i++) {
        bool is_buffer = lib.info().arguments[i].kind != KILN_SCALAR;
        arguments.push_back(is_buffer ? static_cast<void *>(all.at(buffer++)->buffer())
                                      : &scalars.at(scalar++));
    }
    int status = lib.call(nullptr, arguments.data());
    for (Tensor *t : outputs) {
        if (status == KILN_OK && t->view.buffer.device != 0) {
            status = lib.copy_to_host(nullptr, t->buffer());
        }
    }
    for (Tensor *t : all) {
        lib.device_free(nullptr, t->buffer());
    }
    return status;
}

/// Differs where one side alone is NaN, and where the difference is above the bound.
inline bool close(double got, double want, double bound) {
    if (std::isnan(got) || std::isnan(want)) {
        return std::isnan(got) && std::isnan(want);
    }
    return got == want || std::abs(got - want) <= bound;
}

} // namespace kiln::test
