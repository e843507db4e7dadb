/** \file
 * Features of loop nests, from the loop nest alone.
 */
#pragma once

#include "dsl/schedule/LoopNest.h"
#include "dsl/search/features/Features.h"

namespace kiln::search {

/// Appends a row for each computed definition that is no part of a tile kernel. `nest` is that of the problem's sizes,
/// made by `canonical`.
void loop_features(const Problem &problem, const LoopNest &nest, const Schedule &canonical, Features &out);

/// The columns that say what the device is.
void device_features(const Problem &problem, FeatureRow &row);

} // namespace kiln::search
