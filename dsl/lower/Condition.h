/** \file
 * Conditions of variants as text.
 */
#pragma once

#include "dsl/lower/BuildLibrary.h"

#include <optional>
#include <string>

namespace kiln {

/// `x.extent(0) >= 64`, `x.extent(0) <= 8`, `x.extent(0) % 16 == 0`, `x.stride(1) % 4 == 0`, `x.aligned(16)`; nothing
/// where the text is none of these.
std::optional<VariantCondition> parse_condition(const std::string &text);

} // namespace kiln
