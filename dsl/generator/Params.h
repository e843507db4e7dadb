/** \file
 * The GeneratorParams of a generator: what `--param` may set.
 */
#pragma once

#include <Halide.h>

#include <string>
#include <vector>

namespace kiln {

struct ParamInfo {
    std::string name;
    std::string type;                 ///< "int", "bool", "type", "enum", "string", …
    std::string fallback;             ///< its default, in the spelling that --param takes
    std::vector<std::string> choices; ///< of an enum or a bool
};

/// Those that the generator declares, in order, without Halide's own (target, autoscheduler). Empty for a
/// generator that is not a Halide::Generator<>, which keeps them to itself. Call its arginfos() first: Halide lets
/// nobody read a parameter before configure() has run.
std::vector<ParamInfo> generator_params(Halide::Internal::AbstractGenerator &generator);

/// Those of a loaded generator, with their defaults. Throws as create_generator.
std::vector<ParamInfo> generator_params(const std::string &name, const Halide::Target &target);

} // namespace kiln
