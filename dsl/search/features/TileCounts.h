/** \file
 * What one tile kernel does, counted on its IR for the problem's sizes.
 */
#pragma once

#include "dsl/schedule/TileGroup.h"
#include "dsl/search/features/Features.h"

namespace kiln::search {

FeatureRow tile_row(const Problem &problem, const TileGroup &group);

} // namespace kiln::search
