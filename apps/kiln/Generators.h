/** \file
 * What commands ask about generators. Whatever runs a user's code runs in a child.
 */
#pragma once

#include "apps/kiln/Command.h"
#include "dsl/generator/Generator.h"
#include "dsl/generator/Load.h"

#include <map>
#include <string>
#include <vector>

namespace kiln::cli {

/// All loaded names, or none where they cannot be loaded: for completion.
std::vector<std::string> generator_names_quietly();

/// Throws Error K1015 where no such generator is loaded, with the nearest.
void require_generator(const std::string &name);

/// What `--target` takes.
std::vector<std::string> target_spellings();

using Params = std::map<std::string, std::string>;

/// Builds the pipeline in a child and returns {"name", "summary", "interface", "params", "inputs", "outputs", "funcs",
/// "workloads"}. Its generators must be loaded. Throws Error.
nlohmann::ordered_json describe_generator(const std::string &name, const Params &params);

/// A schedule for these extents in people's words: `x=[512, 512], w=[512, 512]`.
std::string extents_text(const std::map<std::string, std::vector<int64_t>> &extents);

/// The parameters out of repeated `--param k=v`.
Params parse_params(const std::vector<std::string> &assignments);

/// Runs `work` in a child as run_isolated does; what Halide throws there becomes a fault of the user's
/// generator (K1018), not of Kiln.
nlohmann::json run_generator(const std::string &name, const std::function<nlohmann::json()> &work);

} // namespace kiln::cli
