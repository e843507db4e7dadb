/** \file
 * A device as code for one target sees it.
 */
#pragma once

#include "dsl/target/Device.h"

namespace kiln {

/// A CPU's registers and peak are those of the target's features, not the best that it has. GPUs stay as they are.
Device seen_by(Device device, const Target &target);

} // namespace kiln
