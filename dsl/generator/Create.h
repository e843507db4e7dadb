/** \file
 * A generator by name with its parameters set, every fault of the user's a diagnostic.
 */
#pragma once

#include <Halide.h>

#include <map>
#include <memory>
#include <string>

namespace kiln {

/// Throws Error: K1015 no generator of that name is loaded, K1016 it has no such parameter, K1017 the parameter does
/// not take that value, each with what exists.
std::unique_ptr<Halide::Internal::AbstractGenerator>
create_generator(const std::string &name, const std::map<std::string, std::string> &params,
                 const Halide::Target &target);

} // namespace kiln
