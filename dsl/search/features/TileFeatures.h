/** \file
 * Features of tile kernels, from tile IR after its passes and before it is emitted.
 */
#pragma once

#include "dsl/schedule/LoopNest.h"
#include "dsl/search/features/Features.h"

namespace kiln::search {

/// Appends a row for each tile kernel of the schedule. Throws Error with what the tile compiler refuses.
void tile_features(const Problem &problem, const LoopNest &nest, Features &out);

} // namespace kiln::search
