/** \file
 * Conditions of variants as text.
 */
#pragma once

#include "dsl/lower/BuildLibrary.h"

#include <optional>
#include <string>

namespace kiln {

/// `x.extent(0) >= 64`, `x.extent(0) <= 8`, `x.extent(0) % 16 == 0`, `x.stride(1) % 4 == 0`, `x.aligned(16)`,
/// `device.is(gpu)`, `device.vector(16)`; nothing where the text is none of these. Throws Error K0718 for a kind of device that there is not.
std::optional<VariantCondition> parse_condition(const std::string &text);

/// Whether a condition asks for something of OpenCL's device, and not of an argument.
bool is_of_device(const VariantCondition &condition);

/// `gpu`: the kind whose bit in OpenCL's CL_DEVICE_TYPE is `bit`; null for none.
const char *device_kind(int64_t bit);

} // namespace kiln
