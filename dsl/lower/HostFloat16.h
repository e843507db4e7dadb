/** \file
 * float16 in the host's part of a CUDA pipeline. Kernels convert by the GPU's instruction; for a stage that runs on the
 * host Halide writes a conversion that takes NaN for infinity. What runs where is known only after scheduling.
 */
#pragma once

#include <Halide.h>

namespace kiln {

/// A lowering pass: conversions between float16 and float32 outside of kernels as LegalizeStorage writes them. The
/// caller owns it.
Halide::Internal::IRMutator *convert_float16_on_host();

} // namespace kiln
