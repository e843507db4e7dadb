/** \file
 * Random numbers that are the same on every machine, unlike the distributions of the standard library.
 */
#pragma once

#include <cstdint>

namespace kiln::search {

/// The next of a fixed sequence of 64-bit numbers (splitmix64).
uint64_t next_random(uint64_t &state);
double next_uniform(uint64_t &state); ///< in [0, 1)
double next_normal(uint64_t &state);

} // namespace kiln::search
