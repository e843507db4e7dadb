/** \file
 * Who builds, checks and times candidates. Builds of the next ones overlap with the timing of this one; nothing else
 * runs beside a timing but builds.
 *
 * A trial is compiled by kiln-build and runs in a child of kiln-measure, both with limits of time and memory. It gets
 * fresh inputs and poisoned outputs; its results are held against the reference before it is timed, and once more, by the
 * process above it, after: what it wrote in the last timed call must be right too.
 */
#pragma once

#include "dsl/generator/Generator.h"
#include "dsl/search/measure/Trial.h"
#include "dsl/target/Target.h"

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kiln::search {

struct MeasureLimits {
    double build_s = 30;
    size_t build_bytes = size_t(6) << 30;
    /// The first call of a kernel, with what the driver compiles then; later trials get 20 times what the incumbent
    /// takes, and at least 2 s, where that is less.
    double call_s = 20;
    size_t run_bytes = size_t(4) << 30; ///< beyond the problem's own buffers; CPU only
    double time_s = 0.25;     ///< spent on timing a candidate that is not clearly slower than the incumbent
    double reference_s = 0.2; ///< spent on the reference of a draw of inputs; 64 outputs are always compared
};

/// What all trials of a run share.
struct MeasureSetup {
    std::string generator;
    std::vector<std::filesystem::path> load; ///< shared objects with users' generators
    std::map<std::string, std::string> params;
    Target target;
    Workload workload;
    int threads = 0;   ///< of a CPU kernel; 0: its default
    int device = 0;    ///< ordinal of the GPU
    bool cool = false; ///< time the cool regime too (GPU)
    /// No kernel can take less: arithmetic at the device's ceiling, memory where it exceeds the cache. 0: unknown.
    double floor_ms = 0;
    MeasureLimits limits;
};

nlohmann::json to_json(const MeasureSetup &setup);
MeasureSetup measure_setup_from_json(const nlohmann::json &json);

class Measurer {
public:
    virtual ~Measurer() = default;
    /// Jobs that should be under way at once, so that nothing waits.
    virtual size_t depth() const = 0;
    virtual void submit(Job job) = 0;
    /// The next trial that is over, in no particular order; waits for it up to `seconds`. Nothing where none is under
    /// way or the time is over.
    virtual std::optional<Outcome> next(double seconds) = 0;
    /// Submitted and not yet given back.
    virtual size_t pending() const = 0;
    /// The rest is of no interest: what has not begun is dropped, what runs is stopped.
    virtual void cancel() = 0;
};

/// Builds with `builders` at once (0: as many as cores serve) and times in this machine. Throws Error K1320 where
/// kiln-measure is missing or does not start.
std::unique_ptr<Measurer> local_measurer(const MeasureSetup &setup, int builders = 0);

/// The C and the JSON side of kiln-measure: serves jobs of `in` (a line each) until it ends. Returns the exit status.
int serve_measurements(int in, int out);

} // namespace kiln::search
