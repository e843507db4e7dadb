/** \file
 * The schedules of a file against the generator that they are for: all faults, and the loops that they make.
 */
#pragma once

#include "apps/kiln/Generators.h"
#include "apps/kiln/ScheduleFile.h"
#include "dsl/lower/BuildProtocol.h"
#include "dsl/lower/Legalize.h"
#include "dsl/target/Target.h"

#include <optional>

namespace kiln::cli {

struct CheckRequest {
    std::string generator; ///< "": what each schedule's `op` says
    Params params;
    KnobValues knobs;
    std::optional<Target> target; ///< none: the one that each schedule's `target` names
    bool ask_halide = true;       ///< lower it too, for what only Halide finds
};

struct CheckedSchedule {
    std::string name, op, target;
    bool ok = false;
    std::string canonical; ///< text, all expanded, knobs filled in; "" with faults before that
    std::string nest;      ///< the loops, one a line
    struct Memory {
        std::string func, compute_at, store_at, kind;
        std::vector<std::string> extents; ///< elements by dimension; "" where they are known only at run time
        int64_t bytes = 0;                ///< 0: known only at run time
    };
    std::vector<Memory> memory; ///< Funcs that are stored
    /// For each Func the one computed at root whose loops it is computed in: on a GPU its kernel.
    std::map<std::string, std::string> kernels;
    std::vector<CompiledTile> tiles; ///< tile kernels, as compiled
};

struct CheckOutcome {
    std::vector<CheckedSchedule> schedules;
    std::vector<Diagnostic> diagnostics;
};

/// Runs in a child. Generators must be loaded. Throws nothing but Error for a generator that does not build; faults of
/// the schedules are in the outcome, after those of `file` itself.
CheckOutcome check_schedules(const ScheduleFile &file, const CheckRequest &request);

/// The same for the default schedule of a generator.
CheckOutcome check_default_schedule(const std::string &generator, const Params &params, const Target &target);

/// The generator's pipeline as the build makes it, unscheduled. Only in a child.
LegalizedPipeline fresh_pipeline(const std::string &generator, const Params &params, const Target &target);

nlohmann::ordered_json to_json(const CheckedSchedule &schedule);

} // namespace kiln::cli
