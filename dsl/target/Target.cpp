#include "dsl/target/Target.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace kiln {

namespace {

struct Feature {
    const char *name;
    const char *halide; ///< Halide's features, joined by '-', without the backend's own
};

// Zen 4 is the first x86 with a bf16 dot product that every later one shares; Halide's set for Sapphire Rapids adds
// AVX512-FP16 and AMX.
constexpr std::array cpu_features = {
    Feature{"sse41", "sse41"},
    Feature{"avx2", "sse41-avx-f16c-fma-avx2"},
    Feature{"avx512", "sse41-avx-f16c-fma-avx2-avx512-avx512_skylake"},
    Feature{"avx512_bf16", "sse41-avx-f16c-fma-avx2-avx512-avx512_skylake-avx512_cannonlake-avx512_zen4"},
    Feature{
        "amx",
        "sse41-avx-f16c-fma-avx2-avx512-avx512_skylake-avx512_cannonlake-avx512_zen4-avx512_sapphirerapids"},
};

// What NVRTC 13 compiles for. Halide 21 knows nothing past 8.6; its PTX runs on later GPUs through the
// driver. Plain `cuda` is the least of them.
constexpr std::array cuda_features = {
    Feature{"sm_75", "cuda_capability_75"},  Feature{"sm_80", "cuda_capability_80"},
    Feature{"sm_86", "cuda_capability_86"},  Feature{"sm_87", "cuda_capability_86"},
    Feature{"sm_88", "cuda_capability_86"},  Feature{"sm_89", "cuda_capability_86"},
    Feature{"sm_90", "cuda_capability_86"},  Feature{"sm_90a", "cuda_capability_86"},
    Feature{"sm_100", "cuda_capability_86"}, Feature{"sm_100a", "cuda_capability_86"},
    Feature{"sm_103", "cuda_capability_86"}, Feature{"sm_103a", "cuda_capability_86"},
    Feature{"sm_110", "cuda_capability_86"}, Feature{"sm_110a", "cuda_capability_86"},
    Feature{"sm_120", "cuda_capability_86"}, Feature{"sm_120a", "cuda_capability_86"},
    Feature{"sm_121", "cuda_capability_86"}, Feature{"sm_121a", "cuda_capability_86"},
};

struct BackendEntry {
    Backend backend;
    const char *name;
    const Feature *features;
    size_t feature_count;
};

constexpr std::array backends = {
    BackendEntry{Backend::Cpu, "cpu", cpu_features.data(), cpu_features.size()},
    BackendEntry{Backend::Cuda, "cuda", cuda_features.data(), cuda_features.size()},
    BackendEntry{Backend::OpenCL, "opencl", nullptr, 0},
};

const BackendEntry &entry_of(Backend backend) {
    return *std::find_if(backends.begin(), backends.end(),
                         [&](const BackendEntry &b) { return b.backend == backend; });
}

const Feature *find_feature(const BackendEntry &entry, std::string_view name) {
    const Feature *end = entry.features + entry.feature_count;
    const Feature *it = std::find_if(entry.features, end, [&](const Feature &f) { return f.name == name; });
    return it == end ? nullptr : it;
}

constexpr const char *build_os() {
#if defined(__linux__)
    return "linux";
#elif defined(__APPLE__)
    return "osx";
#else
#error "Kiln builds on Linux and macOS"
#endif
}

/// Halide's words for the machine of this build; the features of the host never come in.
constexpr const char *build_arch() {
#if defined(__x86_64__)
    return "x86-64";
#elif defined(__aarch64__)
    return "arm-64";
#else
#error "Kiln builds on x86-64 and 64-bit ARM"
#endif
}

[[noreturn]] void unknown_backend(std::string_view name) {
    std::vector<std::string> names;
    for (const BackendEntry &b : backends) {
        names.push_back(b.name);
    }
    Diagnostic d;
    d.code = "K0901";
    d.message = fmt::format("unknown backend `{}`", name);
    d.notes = {fmt::format("backends are `{}`", fmt::join(names, "`, `"))};
    if (std::string near = nearest(name, names); !near.empty()) {
        d.helps = {fmt::format("did you mean `{}`?", near)};
    } else {
        d.helps = {"write a backend and at most one feature: `cpu avx2`, `cuda sm_90a`, `opencl`"};
    }
    throw Error(std::move(d));
}

[[noreturn]] void unknown_feature(const BackendEntry &entry, std::string_view name) {
    std::vector<std::string> names = target_features(entry.backend);
    Diagnostic d;
    d.code = "K0902";
    d.message = fmt::format("unknown feature `{}` of backend `{}`", name, entry.name);
    if (names.empty()) {
        d.helps = {fmt::format("`{0}` has no features: write `{0}`", entry.name)};
    } else {
        d.notes = {fmt::format("its features are `{}`", fmt::join(names, "`, `"))};
        std::string near = nearest(name, names);
        d.helps = {near.empty() ? fmt::format("write `{} {}`, for example", entry.name, names[0])
                                : fmt::format("did you mean `{}`?", near)};
    }
    throw Error(std::move(d));
}

} // namespace

const char *backend_name(Backend backend) {
    return entry_of(backend).name;
}

std::vector<std::string> target_features(Backend backend) {
    const BackendEntry &entry = entry_of(backend);
    std::vector<std::string> names;
    for (size_t i = 0; i < entry.feature_count; i++) {
        names.push_back(entry.features[i].name);
    }
    return names;
}

Target Target::parse(std::string_view text) {
    std::vector<std::string> words;
    for (size_t at = 0; at < text.size();) {
        size_t start = text.find_first_not_of(" \t-,", at);
        if (start == std::string_view::npos) {
            break;
        }
        size_t end = std::min(text.find_first_of(" \t-,", start), text.size());
        words.emplace_back(text.substr(start, end - start));
        at = end;
    }
    std::string backend = words.empty() ? "" : words[0];
    auto it = std::find_if(backends.begin(), backends.end(),
                           [&](const BackendEntry &b) { return b.name == backend; });
    if (it == backends.end()) {
        unknown_backend(backend);
    }
    Target target{it->backend, ""};
    for (size_t i = 1; i < words.size(); i++) {
        if (!find_feature(*it, words[i])) {
            unknown_feature(*it, words[i]);
        }
        if (i > 1) {
            Diagnostic d;
            d.code = "K0902";
            d.message =
                fmt::format("target `{}` names {} features, at most one is allowed", text, words.size() - 1);
            d.helps = {
                it->backend == Backend::Cpu
                    ? fmt::format("each CPU feature includes those before it: write `cpu {}`", words[i])
                    : fmt::format("write `{} {}`", it->name, words[1])};
            throw Error(std::move(d));
        }
        target.feature = words[i];
    }
    return target;
}

std::string Target::str() const {
    return feature.empty() ? backend_name(backend) : fmt::format("{} {}", backend_name(backend), feature);
}

std::string Target::slug() const {
    return feature.empty() ? backend_name(backend) : fmt::format("{}_{}", backend_name(backend), feature);
}

std::string Target::halide() const {
    const BackendEntry &entry = entry_of(backend);
    const Feature *found = feature.empty() ? nullptr : find_feature(entry, feature);
    if (!feature.empty() && !found) {
        unknown_feature(entry, feature);
    }
    std::string out = fmt::format("{}-{}", build_arch(), build_os());
    switch (backend) {
    case Backend::Cpu:
        break;
    case Backend::Cuda:
        out += "-cuda";
        found = found ? found : &cuda_features[0];
        break;
    case Backend::OpenCL:
        out += "-opencl";
        break;
    }
    out += found ? fmt::format("-{}", found->halide) : "";
    return out + (has_wide_addresses() ? "-large_buffers" : "") + "-no_runtime-user_context";
}

bool Target::has_wide_addresses() const {
    return backend != Backend::Cpu || feature != "amx"; // Halide 21 finds no products in 64-bit indices
}

Target Target::general() const {
    return has_wide_addresses() ? *this : Target{backend, "avx512_bf16"};
}

int Target::level() const {
    const BackendEntry &entry = entry_of(backend);
    if (backend == Backend::Cuda) {
        std::string name = feature.empty() ? cuda_features[0].name : feature;
        return std::stoi(name.substr(3));
    }
    const Feature *found = feature.empty() ? nullptr : find_feature(entry, feature);
    return found ? static_cast<int>(found - entry.features) + 1 : 0;
}

} // namespace kiln
