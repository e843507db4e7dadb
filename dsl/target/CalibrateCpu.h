/** \file
 * The CPU's ceilings, by loops that do nothing else: copies of an array far above the last cache, and chains of
 * multiply-adds in registers for each feature and type that it has.
 */
#pragma once

#include "dsl/target/Device.h"

namespace kiln {

Ceilings calibrate_cpu(const Device &device, const Progress &progress);

/// The date and time now in UTC, ISO 8601.
std::string utc_now();

} // namespace kiln
