/** \file
 * `x.in(acc).compute_root()` where `acc` is computed in a tile kernel. Tile kernels are made from the definitions, which
 * know nothing of wrappers, so that such a copy becomes a Func of the pipeline that `acc` reads in the place of `x`.
 */
#pragma once

#include "dsl/lower/TileKernels.h"

namespace kiln {

/// Defines those copies in `source` and names them in `canonical` as the Funcs that they are: `x_in_acc`. False: there
/// are none, and nothing was changed.
bool define_root_copies(Schedule &canonical, const std::vector<TileGroup> &groups,
                        const PipelineSource &source);

} // namespace kiln
