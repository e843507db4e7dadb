/** \file
 * Programs as users write them: a few lines of Funcs, a schedule's text, and the formula in C++. Nothing is known to the compiler.
 */
#pragma once

#include "tests/correctness/tile_scheduled.h"

namespace kiln::tile {

std::vector<ScheduledProgram> user_products(); ///< products and what surrounds them
std::vector<ScheduledProgram> user_rows();     ///< reductions of rows and columns

} // namespace kiln::tile
