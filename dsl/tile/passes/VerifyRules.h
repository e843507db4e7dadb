/** \file
 * What the files of `verify` share: the list of faults, and its parts.
 */
#pragma once

#include "dsl/tile/passes/Verify.h"

#include <string>
#include <vector>

namespace kiln::tile {

class Faults {
public:
    explicit Faults(const Kernel &k) : k_(k) {}
    /// `where`: the statement that shows it, or none.
    void add(const char *code, std::string message, const Stmt *where = nullptr,
             std::vector<std::string> helps = {});
    std::vector<Diagnostic> all;

private:
    const Kernel &k_;
};

void verify_values(const Kernel &k, Faults &f);                              ///< K1190, K1191, K1198
void verify_layouts(const Kernel &k, Faults &f);                             ///< K1192, K1199
void verify_machine(const Kernel &k, const DeviceLimits &limits, Faults &f); ///< K1193 … K1197

} // namespace kiln::tile
