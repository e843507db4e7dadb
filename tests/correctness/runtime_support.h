/** \file
 * Libraries made of the test generators, built once a process, and buffers with guards around them.
 */
#pragma once

#include "dsl/lower/BuildLibrary.h"
#include "dsl/lower/LoadLibrary.h"
#include "dsl/support/Files.h"

#include "kiln.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace kiln::test {

inline BuildRequest request_for(const std::string &generator, const std::vector<std::string> &targets,
                                const std::filesystem::path &folder) {
    BuildRequest request;
    request.generator = generator;
    request.load = {std::string(KILN_BINARY_DIR) + "/lib/kiln_test_generators.so"};
    request.output_dir = folder;
    for (const std::string &target : targets) {
        VariantRequest variant;
        variant.target = Target::parse(target);
        request.variants.push_back(variant);
    }
    return request;
}

/// Builds and loads; a fault fails the test and ends the program.
inline LoadedLibrary load(const BuildRequest &request) {
    BuildResult built = build_library(request);
    if (!built.ok) {
        ADD_FAILURE() << render_all(built.diagnostics, "");
        std::abort();
    }
    return LoadedLibrary(built.archive);
}

inline LoadedLibrary &library(const std::string &generator, const std::string &target) {
    static TemporaryFolder folder;
    static std::map<std::string, LoadedLibrary> loaded;
    std::string key = generator + " " + target;
    auto it = loaded.find(key);
    if (it == loaded.end()) {
        it =
            loaded
                .emplace(key,
                         load(request_for(generator, {target}, folder.path() / Target::parse(target).slug())))
                .first;
    }
    return it->second;
}

/// Host memory with a guard on both sides, and a view of it.
template<typename T>
class Array {
public:
    explicit Array(std::vector<int64_t> extents, std::vector<int64_t> strides = {}, int64_t offset = 0) {
        int64_t span = 1;
        for (size_t i = 0; i < extents.size(); i++) {
            if (strides.size() <= i) {
                strides.push_back(i == 0 ? 1 : strides[i - 1] * std::max<int64_t>(extents[i - 1], 1));
            }
            span += std::max<int64_t>(extents[i] - 1, 0) * strides[i];
        }
        values.assign(static_cast<size_t>(span + offset) + 2 * guard, poison());
        kiln_view_host(&view, type_of<T>::value, data() + offset, static_cast<int>(extents.size()),
                       extents.data(), strides.data());
        offset_ = offset;
    }
    T *data() { return values.data() + guard; }
    T &at(int64_t i, int64_t j = 0) {
        return data()[offset_ + i * view.dim[0].stride +
                      (view.buffer.dimensions > 1 ? j * view.dim[1].stride : 0)];
    }
    halide_buffer_t *buffer() { return &view.buffer; }
    void fill(int seed) {
        std::mt19937 random(static_cast<unsigned>(seed));
        for (T &v : values) {
            v = static_cast<T>(static_cast<int>(random() % 17) - 8);
        }
    }
    bool untouched() const {
        for (const T &v : values) {
            if (std::memcmp(&v, &poison_, sizeof(T)) != 0) {
                return false;
            }
        }
        return true;
    }
    bool guards_untouched() const {
        for (size_t i = 0; i < guard; i++) {
            if (std::memcmp(&values[i], &poison_, sizeof(T)) != 0 ||
                std::memcmp(&values[values.size() - 1 - i], &poison_, sizeof(T)) != 0) {
                return false;
            }
        }
        return true;
    }

    kiln_view view;
    std::vector<T> values;

private:
    static T poison() { return static_cast<T>(-777); }
    static constexpr size_t guard = 64;
    T poison_ = poison();
    int64_t offset_ = 0;
};

/// test_chain's arguments in its order.
struct ChainCall {
    void *x, *y;
    float a = 2, b = 1;
    int run(const LoadedLibrary &lib, const kiln_call *call = nullptr) {
        void *arguments[] = {x, &a, &b, y};
        return lib.call(call, arguments);
    }
};

} // namespace kiln::test
