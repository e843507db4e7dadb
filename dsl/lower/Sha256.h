/** \file
 * SHA-256 (FIPS 180-4), for keys that must not collide.
 */
#pragma once

#include <string>
#include <string_view>

namespace kiln {

/// 64 hexadecimal digits.
std::string sha256(std::string_view data);

} // namespace kiln
