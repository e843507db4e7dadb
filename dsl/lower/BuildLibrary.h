/** \file
 * From a generator and schedules to a library on disk: the one way that the command line, CMake, tests, watch and
 * the searcher build kernels. Each variant is compiled in a fresh child process (`kiln-build`), so that names are
 * reproducible and an abort, a hang or a runaway of LLVM ends as a diagnostic.
 */
#pragma once

#include "dsl/support/Diagnostic.h"
#include "dsl/target/Target.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace kiln {

/// What a variant needs of a call beyond the kernel's contract. It is checked at each call, so the code may rely on it.
struct VariantCondition {
    enum class What {
        ExtentAtLeast,
        ExtentAtMost,
        ExtentMultipleOf,
        StrideMultipleOf,
        AlignedTo,
        StrideIs,        ///< of tile kernels
        MinIs,           ///< of tile kernels
        DeviceAlignedTo, ///< of tile kernels; unlike AlignedTo says nothing of the host's copy
        BlocksAtMost,    ///< of tile kernels: no more blocks of `value` elements than another buffer has
        DeviceIs, ///< of OpenCL: the queue's device is of the kind whose bit in CL_DEVICE_TYPE is `value`
        ElementsAtMost, ///< of code with 32-bit indices: spans at most `value` elements, and has no more
        DeviceVector    ///< of OpenCL: that device's own vectors hold `value` float32 at least
    };
    What what = What::ExtentAtLeast;
    std::string argument;   ///< a buffer; "" with DeviceIs and DeviceVector
    int dimension = 0;      ///< 0 is the innermost; unused by AlignedTo, DeviceAlignedTo and ElementsAtMost
    int64_t value = 0;      ///< elements; bytes for AlignedTo and DeviceAlignedTo
    std::string other = {}; ///< BlocksAtMost: the buffer that is compared with
    int other_dimension = 0;
    bool operator==(const VariantCondition &) const = default;
};

/// One compiled form of the kernel. The library picks the first one that fits the machine and the call.
struct VariantRequest {
    Target target;
    /// For messages; may be "" with schedule_text given. A folder, without text: choose_schedules takes the target's
    /// variants out of it when the library is built, or the default schedule where it has none.
    std::string schedule_file;
    std::string schedule_text; ///< empty: the default schedule
    std::string schedule_name; ///< which of the text's schedules; "": the first for this generator and target
    std::map<std::string, std::string>
        knobs; ///< values for its knobs; those not named take their first value
    std::vector<VariantCondition> conditions; ///< of a backend's variants, one at least must have none
};

struct BuildRequest {
    std::string generator;
    std::vector<std::filesystem::path> load;   ///< shared objects with users' generators
    std::map<std::string, std::string> params; ///< GeneratorParams
    std::string function_name;                 ///< the C symbol; "" means the generator's name
    std::vector<VariantRequest> variants;
    std::filesystem::path output_dir; ///< created; written only after all has succeeded
    double timeout_s = 120;
    size_t memory_limit_bytes = size_t(8) << 30;
};

struct BuildResult {
    bool ok = false;
    std::vector<Diagnostic> diagnostics;         ///< of all variants
    std::filesystem::path archive, header, json; ///< name.a, name.h, name.json
    std::string key; ///< hash of every fact that the library depends on, as in name.json
    double seconds = 0;
};

/// Builds NAME.a, NAME.h and NAME.json. A variant with tile kernels runs calls that begin at 0 and are aligned as TMA
/// needs; where no variant without conditions was asked for on its target, one of the default schedule is added for all
/// other calls. Never throws for a user's fault: see diagnostics. All three appear together
/// or not at all, and the same request gives the same bytes. Faults beside those of generators and schedules:
/// K0701 the build crashed, K0702 took too long, K0703 took too much memory, K0704 a tool that it needs is missing,
/// K0705 the folder cannot be written, K0706 the C compiler or binutils failed, K0707 no C name, K0708 no variants,
/// K0709 variants with different arguments, K0710 Halide failed, K0711 no schedule for generator and target,
/// K0712 no variant without conditions, K0713 too many arguments or dimensions, K0714 a condition that cannot be.
BuildResult build_library(const BuildRequest &request);

} // namespace kiln
