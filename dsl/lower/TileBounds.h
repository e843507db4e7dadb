/** \file
 * What a tile kernel reads of its views, from the definitions: Halide's own bounds, of the region that the outputs have.
 */
#pragma once

#include "dsl/lower/TileStage.h"

#include <map>
#include <set>
#include <string>

namespace kiln {

struct TileBounds {
    /// Named values, each over those before it, the views' fields and scalars.
    std::vector<std::pair<std::string, Halide::Expr>> values;
    std::map<std::string, std::vector<TileRange>> reads; ///< by view: an input buffer, or a Func of `outside`
    std::set<std::string> mentioned; ///< fields of buffers in the definitions: "x.extent.0"
};

/// The boxes that `outputs` need, computed in one kernel for regions that begin at 0. Funcs named in `outside` are views.
/// Throws Error K1191 where a view is read at coordinates that have no bounds.
TileBounds tile_bounds(const std::vector<Halide::Func> &outputs, const std::set<std::string> &outside,
                       const std::string &kernel);

} // namespace kiln
