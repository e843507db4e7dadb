/** \file
 * The analytic estimate: a time for each row from its amounts and the device's ceilings. No constant in it was fitted to
 * Kiln's own kernels; each says where it comes from in Roofline.cpp.
 */
#pragma once

#include "dsl/search/features/Features.h"

namespace kiln {
struct Device;
}

namespace kiln::search {

/// Fills in the `ms_` columns and `estimate_ms` of a row from its other columns:
///   unit time = max(ms_compute, ms_first, ms_second, ms_third) for cores_used of the device's units, by the wave's tail
///   estimate  = max(unit time, ms_memory) + ms_overhead
/// More work, more bytes at any level, fewer tasks (below the device's units) or more launches never make it smaller.
void estimate_row(FeatureRow &row, const Device &device);

/// estimate_row for all rows, and their sum in ms.
double estimate_ms(Features &features, const Device &device);

} // namespace kiln::search
