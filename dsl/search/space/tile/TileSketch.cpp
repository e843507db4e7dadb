#include "dsl/search/space/tile/TileSketch.h"

namespace kiln::search {

std::vector<TileSketch> tile_sketches(const PlanContext &cx) {
    std::vector<TileSketch> out;
    for (const TileSketch &family : tile_families(cx)) {
        out.push_back(family);
    }
    return out;
}

std::vector<TileSketch> tile_families(const PlanContext &cx) {
    return {};
}

} // namespace kiln::search
