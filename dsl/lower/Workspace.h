/** \file
 * How many bytes a call takes for intermediate values, read off the lowered code: a second function beside the kernel
 * with the same arguments, which computes nothing but that.
 */
#pragma once

#include <Halide.h>

#include <cstdint>
#include <optional>
#include <string>

namespace kiln {

/// Bytes of memory that are live at once, at most: as asked of kiln_call.alloc, with what the runtime puts around a block.
struct Workspace {
    Halide::Expr host, device; ///< Int(64), of the variables that are bound in the function's arguments
    /// Sizes depend on values that only a run computes.
    bool unknown = false;
    /// The number where it is the same for every call.
    std::optional<int64_t> constant_host() const;
    std::optional<int64_t> constant_device() const;
};

/// What the allocations in `body` come to, a lowered body of Module::get_conceptual_stmt().
Workspace count_workspace(const Halide::Internal::Stmt &body);

/// Whether `body` gives the same bits each time, whatever its threads do: nothing is added up in the order in which threads
/// come (Halide's atomic updates).
bool is_deterministic(const Halide::Internal::Stmt &body);

/// Appends `symbol`, with the arguments of the module's function `of`, which hands both numbers to
/// kiln_workspace_note(user_context, host, device).
void append_workspace_function(Halide::Module &module, const std::string &of, const std::string &symbol,
                               const Workspace &workspace);

} // namespace kiln
