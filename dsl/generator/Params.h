/** \file
 * The GeneratorParams of a generator: what `--param` may set.
 */
#pragma once

#include <Halide.h>

#include <map>
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

/// `given`, and the defaults of the parameters that it does not name; just `given` where no such generator is loaded.
std::map<std::string, std::string> with_defaults(const std::string &generator,
                                                 const std::map<std::string, std::string> &given);

/// Whether two spellings of a value mean the same: `0`, `0.0` and `0.f`, else the same text.
bool same_value(const std::string &a, const std::string &b);

} // namespace kiln
