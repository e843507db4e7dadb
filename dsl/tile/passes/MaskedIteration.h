/** \file
 * What an iteration of a loop does where all elements of one of its tiles are masked.
 */
#pragma once

#include "dsl/tile/ir/Ir.h"

namespace kiln::tile {

/// "" where it is proved that an iteration of `loop` with `tile` at `masked` everywhere keeps every carried tile as it is,
/// else what one of them would become, for a remark.
std::string masked_iteration_changes(const Kernel &k, const For &loop, const std::string &tile,
                                     double masked);

} // namespace kiln::tile
