/** \file
 * A quick look over whole outputs for elements that need a closer one.
 */
#pragma once

#include <Halide.h>

#include <cstdint>
#include <vector>

namespace kiln::search {

struct ScanRequest {
    halide_buffer_t *ours = nullptr;
    halide_buffer_t *theirs = nullptr; ///< of the same shape; null: only poison is looked for
    double distance = 0;               ///< floats that lie no further apart pass; integers must be equal
    int64_t most = int64_t(1) << 25;   ///< elements looked at: rows at random where there are more
    size_t most_suspects = 32;
    uint64_t seed = 1;
};

struct ScanResult {
    int64_t scanned = 0, suspicious = 0;
    std::vector<std::vector<int>> suspects; ///< some of them: the first ones and those furthest off
};

/// Both buffers on the host, dense along dimension 0. Poison is Problem::fill's; a NaN on one side alone is suspicious.
ScanResult scan_outputs(const ScanRequest &request);

} // namespace kiln::search
