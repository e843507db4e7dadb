/** \file
 * Runs the passes in order, verifies the kernel after each, and keeps what each did: for `kiln explain --passes`.
 */
#pragma once

#include "dsl/tile/passes/Passes.h"

#include <string>
#include <vector>

namespace kiln::tile {

struct PassRun {
    std::string name;
    double seconds = 0;
    std::string before, after; ///< text of the kernel
    bool changed() const { return before != after; }
};

/// The kernel that `emit` takes, from what `build` makes. Throws Error with what a pass refuses or what `verify` finds
/// after it (K1190 … K1199, with the pass in a note). `log` gets every pass that ran, the refusing one included.
Kernel run_passes(Kernel k, const DeviceLimits &limits, std::vector<PassRun> *log = nullptr);

/// One line a pass with its time; where it changed the kernel, the lines that differ. `only`: this pass, whole before
/// and after.
std::string explain_passes(const std::vector<PassRun> &log, const std::string &only = "");

} // namespace kiln::tile
