/** \file
 * Emitted CUDA text compiled for this machine's CPU over tests/correctness/cuda_emulator.h and run there, thread by thread.
 */
#pragma once

#include "dsl/tile/emit/Emit.h"
#include "tests/correctness/tile_reference.h"

#include <filesystem>
#include <string>
#include <vector>

namespace kiln::tile {

/// The text of a kernel with the emulator's wrappers in the place of the device's.
EmittedKernel emit_emulated(const Kernel &k, const EmitOptions &options = {});

/// Kernels in one shared object; one of them a process, since their libraries share the names of the emulator.
class Emulation {
public:
    Emulation() = default;
    Emulation(const Emulation &) = delete;
    ~Emulation(); ///< removes the files, unless KILN_KEEP is set

    /// Compiles all kernels with $CXX or c++; "" or what the compiler said.
    std::string compile(std::vector<EmittedKernel> kernels);
    /// Runs kernel `number` on `m`, whose arrays are laid out as the kernel asks (spread() of tile_launch.h); "" or the fault.
    std::string launch(size_t number, Memory &m) const;

private:
    std::vector<EmittedKernel> kernels_;
    std::filesystem::path folder_;
    void *library_ = nullptr;
};

} // namespace kiln::tile
