/** \file
 * From a Func DAG and a plan to tile IR, by what the definitions say:
 *
 *   Σ over an RVar of a product of two operands without a common axis but that one   Mma
 *   any other sum, product, maximum or minimum over an RVar                           Reduce
 *   an update over an RVar that the plan splits, of whatever form, also of a Tuple     For that carries it
 *   everything else                                                                    Map
 *
 * A Func with an update, and a pure one that the plan keeps, is a tile wherever it is read at another region; other
 * Funcs are inlined. A read becomes a copy where a product asks for it or the plan stages it, and stays inside the
 * map otherwise. Indices of a tile must be `base + axis`, with the same base for the whole block.
 */
#pragma once

#include "dsl/tile/ir/Ir.h"

namespace kiln::tile {

/// The statements of the kernel that computes `outputs` as the plan says; nothing is scheduled in them. The axes of the
/// result are those of the algorithm, each named after the first Var or RVar that runs along it. Throws Error:
/// K1101 an output's Var without a block, K1102 an index that is not base + axis, K1103 a Func at such an index, K1104
/// a product that is none, K1105 its operands, K1106 an update of another form, K1107 a Func read in another way than
/// the kernel computes it, K1108 axes that do not fit, K1201 a clamped read whose repeated elements reach an output.
Kernel build_kernel(const TilePlan &plan, const std::vector<Halide::Func> &outputs);

} // namespace kiln::tile
