/** \file
 * How fast a kernel is, against a baseline that runs in turn with it: `kiln bench`, `watch` and tests.
 */
#pragma once

#include "dsl/check/CheckKernel.h"
#include "dsl/check/Statistics.h"
#include "dsl/target/Device.h"

#include <nlohmann/json_fwd.hpp>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace kiln {

struct BenchRequest {
    BuildRequest build;            ///< as in CheckRequest
    std::filesystem::path archive; ///< timed in place of building
    Workload workload;             ///< extents of all buffers
    /// What runs in turn with it: "" nothing, "copy" a plain copy of as many bytes, "default" the default
    /// schedule, "adams2019", "mullapudi2016", "li2018" Halide's own searchers, or "archive:PATH" another library.
    std::string baseline;
    bool check = true;    ///< check_kernel (quick) first; a wrong kernel is not timed
    double seconds = 1.0; ///< spent on timing, each of warm and cold
    double timeout_s = 120;
    int threads = 0;
    int device = 0;
    uint64_t seed = 0;
};

/// One line of a results file (bench/README.md): times in milliseconds, ratio = baseline_ms / ms.
struct BenchRow {
    std::string work, shape, type, target, schedule, baseline;
    double ms = 0;                  ///< median, warm cache
    double ms_low = 0, ms_high = 0; ///< its 95 % interval
    double cold_ms = 0;             ///< median with the caches flushed before each call
    double first_ms = 0;            ///< the first call: loading, JIT, first touch
    double baseline_ms = 0, baseline_cold_ms = 0;
    double ratio = 0, ratio_low = 0, ratio_high = 0;
    double flops = 0, bytes = 0; ///< of one call: arithmetic, and each buffer once
    double roofline = 0; ///< the fraction of the roofline reached; 0 where the device is not calibrated
    double error = 0, bound = 0; ///< from the check
    int samples = 0, threads = 0;
    std::vector<std::string> flags; ///< what to doubt: "above the roofline", "clock drift", "noisy"
};

struct BenchReport {
    bool ok = false;
    std::vector<Diagnostic>
        diagnostics; ///< of build and check; K0820 times that do not add up, K0821 an unknown baseline
    BenchRow row;
    double build_s = 0;
    uint64_t seed = 0;
    std::vector<double> samples_ms, baseline_samples_ms; ///< warm, in turn
};

BenchReport bench_kernel(const BenchRequest &request);

nlohmann::json to_json(const BenchRow &row);

/// A results file: device, driver, versions, date, command, rows; written whole or not at all. `rows` of the same
/// work, shape, type, target, schedule and baseline in an existing file are replaced, others stay.
void write_results(const std::filesystem::path &path, const Device &device, const std::string &command,
                   const std::vector<BenchRow> &rows);

/// "1024x1024x1024" from the extents of a workload: those of the outputs, then those that only inputs have.
std::string shape_text(const Workload &workload);

} // namespace kiln
