/** \file
 * Devices read back from JSON: descriptions that travelled from another machine.
 */
#pragma once

#include "dsl/target/Device.h"

#include <nlohmann/json_fwd.hpp>

namespace kiln {

/// What to_json(device) gives, its ceilings with it. Throws nlohmann::json::exception and Error (an unknown target).
Device device_from_json(const nlohmann::json &json);

} // namespace kiln
