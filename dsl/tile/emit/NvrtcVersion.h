/** \file
 * Which NVRTC compiles tile kernels here: a fact of what was measured with them.
 */
#pragma once

#include <string>

namespace kiln::tile {

/// `13.0`; "" where there is none.
std::string nvrtc_version();

} // namespace kiln::tile
