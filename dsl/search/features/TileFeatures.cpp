#include "dsl/search/features/TileFeatures.h"

#include "dsl/schedule/TileGroup.h"
#include "dsl/search/features/TileCounts.h"

namespace kiln::search {

void tile_features(const Problem &problem, const LoopNest &nest, Features &out) {
    for (const TileGroup &group : tile_groups(nest)) {
        out.rows.push_back(tile_row(problem, group));
    }
}

} // namespace kiln::search
