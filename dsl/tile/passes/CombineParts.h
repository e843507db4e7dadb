/** \file
 * How the parts of a carried sum combine, from the update of the loop that carries it. Part of split_reduce.
 */
#pragma once

#include "dsl/tile/ir/Ir.h"

#include <string>
#include <vector>

namespace kiln::tile {

/// One tile that the loop carries.
struct SharedComponent {
    Carry *carry = nullptr;
    std::string all; ///< the tile of all parts together
    Expr part;       ///< what one part of the loop came to
};

/// Fills in the carried tiles and the body of `combine`, a loop over the parts in order, and lets every part start at the
/// identity. A sum, product, maximum or minimum combines by itself. Any other update must read one value of each iteration
/// for each component of the Tuple, as `(m, s)` does `max(m, b)` and `s·e^(m - m') + t·e^(b - m')`: then a part takes the
/// place of that value, and numbers tell whether the update is associative so. Returns why it is not, or "".
std::string combine_parts(Kernel &k, For &loop, std::vector<SharedComponent> &components, For &combine);

} // namespace kiln::tile
