/** \file
 * Vector accesses of CUDA kernels as the machine's widest. Halide's code generator knows no alignment of device memory
 * and takes vectors of 16-bit elements apart, element by element. Where an index is known to be a multiple, this pass
 * reads and writes 16, 8 or 4 bytes at once; the runtime sees to it that the memory begins where that is allowed.
 */
#pragma once

#include <Halide.h>

#include <map>
#include <string>

namespace kiln {

/// A lowering pass for add_custom_lowering_pass, which takes ownership. `alignment` (not null) gets, for each buffer of
/// the call that is accessed so, the bytes that its first element's address must be a multiple of. `where`: in kernels of
/// that device, or in all code (Host).
Halide::Internal::IRMutator *widen_accesses(std::map<std::string, int> *alignment,
                                            Halide::DeviceAPI where = Halide::DeviceAPI::CUDA);

} // namespace kiln
