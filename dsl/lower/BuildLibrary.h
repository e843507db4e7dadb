/** \file
 * From a generator and schedules to a library on disk: the one way that the command line, CMake, tests, watch and
 * the searcher build kernels. The work runs in a fresh child process of `kiln`, so that names are reproducible and
 * an abort, a hang or a runaway of LLVM ends as a diagnostic.
 */
#pragma once

#include "dsl/support/Diagnostic.h"
#include "dsl/target/Target.h"

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace kiln {

/// One compiled form of the kernel. The library picks the first one that fits the machine and the call.
struct VariantRequest {
    Target target;
    std::string schedule_file; ///< for messages; may be "" with schedule_text given
    std::string schedule_text; ///< empty: the default schedule
    std::map<std::string, std::string> knobs; ///< values for its knobs; those not named take their first value
};

struct BuildRequest {
    std::string generator;
    std::vector<std::filesystem::path> load; ///< shared objects with users' generators
    std::map<std::string, std::string> params; ///< GeneratorParams
    std::string function_name;               ///< the C symbol; "" means the generator's name
    std::vector<VariantRequest> variants;
    std::filesystem::path output_dir;        ///< created; written only after all has succeeded
    double timeout_s = 120;
    size_t memory_limit_bytes = size_t(8) << 30;
};

struct BuildResult {
    bool ok = false;
    std::vector<Diagnostic> diagnostics; ///< of all variants
    std::filesystem::path archive, header, json; ///< name.a, name.h, name.json
    double seconds = 0;
};

/// Builds NAME.a, NAME.h and NAME.json. Never throws for a user's fault: see diagnostics.
BuildResult build_library(const BuildRequest &request);

} // namespace kiln
