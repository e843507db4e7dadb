/** \file
 * Where a kernel runs: a backend and the features it may use. Written `cpu`, `cpu avx2`, `cpu avx512`,
 * `cpu avx512_bf16`, `cpu amx`, `cuda`, `cuda sm_90a`, `opencl`; on the command line also with '-' or ',' for the blank.
 */
#pragma once

#include "dsl/support/Diagnostic.h"

#include <string>
#include <string_view>
#include <vector>

namespace kiln {

enum class Backend { Cpu, Cuda, OpenCL };

struct Target {
    Backend backend = Backend::Cpu;
    /// Kiln's own names: sse41, avx2, avx512, avx512_bf16, amx for CPU (each includes the ones before it);
    /// sm_XX for CUDA. At most one. Empty means the least that the backend guarantees: never the building
    /// host.
    std::string feature;

    /// Throws kiln::Error K0901 (unknown backend) or K0902 (unknown feature), with what exists.
    static Target parse(std::string_view text);
    /// The canonical spelling, `cpu avx2`; parse(str()) == *this.
    std::string str() const;
    /// For file and symbol names: `cpu_avx2`.
    std::string slug() const;
    /// The Halide target string for kernels: OS and architecture of this build, features, `user_context`,
    /// `no_runtime`, `large_buffers` where the backend has them.
    std::string halide() const;
    /// Orders the features of one backend: 0 none, 1 sse41, 2 avx2 … for CPU; the compute capability for CUDA
    /// (`sm_90a` → 90, plain `cuda` → 75, the least that NVRTC 13 compiles for).
    int level() const;
    /// Whether code for it reaches buffers of any size. Code for `cpu amx` reaches 2^31 - 1 elements.
    bool has_wide_addresses() const;
    /// The target whose code stands behind this one's for all calls: itself, or for `cpu amx` `cpu avx512_bf16`.
    Target general() const;

    bool operator==(const Target &) const = default;
};

const char *backend_name(Backend backend);

/// The features that parse() knows for a backend, least first.
std::vector<std::string> target_features(Backend backend);

} // namespace kiln
