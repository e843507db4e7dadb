/** \file
 * From the final IR to CUDA C++, and what a launch must know of it.
 */
#pragma once

#include "dsl/tile/ir/Ir.h"

namespace kiln::tile {

/// A box of a view that TMA moves (cuTensorMapEncodeTiled): all of the view's dimensions, innermost first.
struct TensorMapParam {
    std::string view;
    std::vector<int> box; ///< elements along each dimension
    int swizzle = 128;    ///< bytes
    int clipped = -1;     ///< dimension whose box is no higher than the view, in groups of eight; -1: none
    bool operator==(const TensorMapParam &) const = default;
};

/// One parameter of the kernel function, in order.
struct KernelParam {
    enum class Kind {
        TensorMap, ///< 128 bytes, `__grid_constant__`
        Pointer,   ///< address of the view's element at its minimum
        Value, ///< int: `value`, over `x.extent.0` and `x.stride.1`; or a scalar of the pipeline, of its own type
        /// unsigned 64-bit: (2^64 - 1) / v + 1 for v = max(value, 1), modulo 2^64, so that the kernel divides by v with
        /// two multiplications
        Reciprocal,
        Counter,   ///< pointer to two zeroed ints, which the kernel leaves zeroed
        Workspace, ///< pointer to `value` bytes of the launch's own, aligned to 256
        Counters   ///< pointer to `value` zeroed ints, which the kernel leaves zeroed
    };
    Kind kind = Kind::Pointer;
    TensorMapParam map; ///< TensorMap
    std::string view;   ///< Pointer
    Expr value;         ///< Value, Reciprocal, Workspace, Counters
};

struct EmittedKernel {
    std::string name; ///< of the function, a C identifier
    std::string text; ///< without includes
    std::vector<KernelParam> params;
    /// Tiles of the kernel, the fastest first, filled up to whole clusters; their product is the number of tiles.
    std::vector<GridLoop> grid;
    bool persistent =
        false; ///< as many blocks as fit at once, tiles at most; else one block a tile (blockIdx.x)
    int threads = 0, shared_bytes = 0;
    int cluster = 1;
    bool launch_ahead = false;
    /// What the kernel needs of the views: TMA's rules (CUDA driver API, cuTensorMapEncodeTiled).
    struct Need {
        std::string view;
        int address_alignment = 0; ///< bytes
        int stride_alignment = 0;  ///< bytes, of every stride but dimension 0's
    };
    std::vector<Need> needs;
};

struct EmitOptions {
    /// Several neighbours of a view in one access, which needs aligned addresses and strides (EmittedKernel::needs).
    /// false: for a variant that runs on any buffers.
    bool vectors = true;
};

/// Throws Error K1153 where a statement has no form in CUDA.
EmittedKernel emit_cuda(const Kernel &k, const EmitOptions &options = {});

/// OpenCL C 1.2 of a kernel without a producer (TilePlan::producers 0) whose products are by multiply and add. Arguments
/// as in `params`; one work-group a tile. Its local memory is declared inside. Throws Error K1153 otherwise.
EmittedKernel emit_opencl(const Kernel &k, const EmitOptions &options = {});

/// What ptxas and NVRTC said.
struct CompiledKernel {
    std::string cubin;
    int registers = 0, spill_bytes = 0, shared_bytes = 0;
    std::vector<std::string> warnings;
    double seconds = 0;
};

/// Compiles in this process by NVRTC, opened at run time (KILN_NVRTC, the checkout's wheel, the toolkit's, PyTorch's).
/// `arch` is "sm_90a". Throws Error: K1150 no NVRTC, K1151 the text does not compile (with the log), K1152 serialised
/// wgmma or spills (C75xx): the schedule is refused with the numbers.
CompiledKernel compile_cubin(const std::string &text, const std::string &name, const std::string &arch);

/// PTX for `arch` ("compute_80") and all later GPUs. Throws as above, without K1152.
std::string compile_ptx(const std::string &text, const std::string &name, const std::string &arch);

} // namespace kiln::tile
