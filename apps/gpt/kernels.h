/** \file
 * The kernels of the model, built for one type of numbers; each library holds variants for CPU, CUDA and OpenCL. Arguments:
 * inputs, then the output; dimension 0 is innermost.
 */
#pragma once

#include <kiln/kiln.h>

namespace gpt {

struct Kernels {
    using Call = const kiln_call *;
    using Buffer = halide_buffer_t *;
    int (*embed)(Call, Buffer table, Buffer tokens, Buffer x);
    int (*norm)(Call, Buffer x, Buffer gamma, float eps, Buffer y);
    int (*product)(Call, Buffer x, Buffer w, Buffer y); ///< y(n, i) = sum over k of x(k, i) w(n, k)
    int (*product_residual)(Call, Buffer x, Buffer w, Buffer residual, Buffer y);
    int (*rotate)(Call, Buffer x, Buffer turns, int32_t first, Buffer y);
    int (*attention)(Call, Buffer q, Buffer k, Buffer v, Buffer y); ///< causal, aligned at the ends
    int (*gated)(Call, Buffer x, Buffer gate, Buffer up, Buffer y); ///< silu(x gate) (x up)
    int (*scores)(Call, Buffer h, Buffer table, Buffer scores);     ///< always float32
};

} // namespace gpt
