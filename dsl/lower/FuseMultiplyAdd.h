/** \file
 * x + a·b as one `fma` in OpenCL kernels. Halide prints the product and the sum as two statements, which no OpenCL
 * compiler may contract (FP_CONTRACT works within one expression), and that halves the speed of every product:
 * on PoCL 3.1 not even -cl-fast-relaxed-math brings them together.
 */
#pragma once

#include <Halide.h>

namespace kiln {

/// A lowering pass for Halide::Pipeline::add_custom_lowering_pass, which takes ownership. It changes float32 sums inside
/// OpenCL loops only; the result is rounded once in place of twice, as on the CPU and on CUDA.
Halide::Internal::IRMutator *fuse_multiply_add();

} // namespace kiln
