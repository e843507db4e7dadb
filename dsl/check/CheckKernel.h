/** \file
 * Whether a kernel computes what its algorithm says: `kiln check`, watch, bench, the searcher and tests call this
 * before they believe or time anything.
 *
 * Every probe runs in a child: a crash, a hang or an abort of the kernel is a diagnostic. Outputs are poisoned
 * and lie between red zones; inputs are compared after the call; the reference is the evaluator over the
 * formula, at all outputs or at edges and random ones when the whole is too dear.
 */
#pragma once

#include "dsl/generator/Generator.h"
#include "dsl/lower/BuildLibrary.h"
#include "dsl/support/Diagnostic.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace kiln {

struct CheckRequest {
    /// What to build. `output_dir` may be empty: then it is built in a temporary folder.
    BuildRequest build;
    /// A NAME.a that is there already: checked in place of building. `build` still names generator and params.
    std::filesystem::path archive;
    /// Empty: those of the generator that are not for timing, or its first one.
    std::vector<Workload> workloads;
    uint64_t seed = 0; ///< 0: a fresh one, which is reported
    /// Only integers and random numbers at the workload's own sizes: for searchers and `watch`.
    bool quick = false;
    double reference_s = 3;       ///< at most this long in the reference for each probe
    int64_t max_points = 1 << 16; ///< outputs compared in each probe
    double timeout_s = 60;        ///< of each call of the kernel
    int threads = 0;              ///< of a CPU kernel's pool; 0: its default
    int device = 0;               ///< ordinal of the GPU
};

struct ProbeReport {
    std::string workload;
    /// integers, random, special, strided, odd, ones, zero
    std::string probe;
    /// `refused`: the kernel's own contract check turned the call down, which is right for sizes and strides that it
    /// does not promise, and a failure at a workload's own.
    enum class Status { Passed, Failed, Refused, Skipped } status = Status::Passed;
    std::string message; ///< of a refusal or a failure, in short
    double error = 0;    ///< of the worst element: |got - reference|
    double bound = 0;    ///< what that element may be off by
    int64_t checked = 0, elements = 0;
    std::string variant; ///< which one ran
};

struct CheckReport {
    bool ok = false;
    bool has_no_device =
        false; ///< nothing of this machine runs the kernel (K0812), and the check ended there
    std::vector<Diagnostic> diagnostics; ///< of the build and the probes
    std::vector<ProbeReport> probes;
    uint64_t seed = 0;
    double build_s = 0, reference_s = 0, kernel_s = 0;
    /// Of the element nearest to its bound over all probes.
    double error = 0, bound = 0;
};

/// Never throws for a fault of the user's or of the kernel's. Diagnostics: those of build_library; K0801…K0804 (the
/// reference), K0805 (a workload that does not fit the generator), K0806 (a wrong result), K0807 (written outside
/// an output), K0808 (an input changed), K0809 (crash, hang, or an error status), K0810 (the answer does not depend
/// on the inputs), K0811 (a trivial answer would pass), K0812 (it cannot run on this machine).
CheckReport check_kernel(const CheckRequest &request);

nlohmann::json to_json(const ProbeReport &probe);
nlohmann::json to_json(const CheckReport &report);

/// The workload of that name, of a generator; throws K0805 with those that exist.
Workload find_workload(const std::string &generator, const std::string &name);

} // namespace kiln
