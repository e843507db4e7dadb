#include "apps/kiln/watch/KilnTrial.h"

#include "apps/kiln/ScheduleCheck.h"
#include "apps/kiln/Workloads.h"
#include "dsl/check/BenchKernel.h"
#include "dsl/check/CheckKernel.h"
#include "dsl/lower/BuildLibrary.h"
#include "dsl/schedule/TargetPattern.h"
#include "dsl/support/Files.h"
#include "dsl/support/Progress.h"

#include <fmt/format.h>

#include <chrono>

namespace kiln::cli {

namespace fs = std::filesystem;

namespace {

/// Short enough that a person waits for it, long enough for an interval of a few percent.
constexpr double seconds_per_row = 0.4;

class Stopwatch {
public:
    double seconds() const {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    }

private:
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

} // namespace

struct KilnTrial::State {
    TrialSetup setup;
    TemporaryFolder folder;
    fs::path last_good; ///< the archive that the next ones are compared with
    int builds = 0;

    explicit State(TrialSetup s) : setup(std::move(s)) {}

    BuildRequest build_request(const std::string &file, const std::string &text, const Target &target) {
        BuildRequest request;
        request.generator = setup.generator;
        request.load = setup.load;
        request.params = setup.params;
        VariantRequest variant;
        variant.target = target;
        variant.schedule_file = file;
        variant.schedule_text = text;
        variant.knobs = setup.knobs;
        request.variants = {variant};
        request.output_dir = folder.path() / std::to_string(++builds);
        return request;
    }

    void try_it(const std::string &file, const std::string &text, TrialResult &result);
};

void KilnTrial::State::try_it(const std::string &file, const std::string &text, TrialResult &result) {
    auto failed = [&](const char *step, const std::vector<Diagnostic> &diagnostics) {
        result.diagnostics.insert(result.diagnostics.end(), diagnostics.begin(), diagnostics.end());
        if (has_errors(diagnostics)) {
            result.failed_at = step;
        }
        return !result.failed_at.empty();
    };
    result.failed_at = "check";
    ScheduleFile parsed = parse_schedule_text(file, text);
    CheckRequest check;
    check.generator = setup.generator;
    check.params = setup.params;
    check.knobs = setup.knobs;
    check.target = setup.target;
    check.ask_halide = false; // the build does
    CheckOutcome checked = check_schedules(parsed, check);
    result.failed_at = "";
    if (failed("check", checked.diagnostics)) {
        return;
    }
    Target target = setup.target                      ? *setup.target
                    : parsed.schedules.front().target ? target_of(*parsed.schedules.front().target)
                                                      : Target{};

    Stopwatch build_time;
    result.failed_at = "build";
    BuildRequest request = build_request(file, text, target);
    BuildResult built;
    {
        Activity activity(fmt::format("building {}", setup.generator));
        built = build_library(request);
    }
    result.build_s = build_time.seconds();
    result.failed_at = "";
    // The warnings of the check are in there again.
    result.diagnostics.clear();
    if (failed("build", built.diagnostics)) {
        return;
    }

    Stopwatch verify_time;
    result.failed_at = "verify";
    kiln::CheckRequest verify;
    verify.build = request;
    verify.archive = built.archive;
    verify.workloads = checking_workloads(setup.generator, setup.params);
    verify.quick = true;
    kiln::CheckReport verified;
    {
        Activity activity(fmt::format("verifying {}", setup.generator));
        verified = check_kernel(verify);
    }
    result.verify_s = verify_time.seconds();
    result.failed_at = "";
    if (failed("verify", verified.diagnostics)) {
        return;
    }
    if (!verified.ok) {
        result.failed_at = "verify";
        return;
    }

    Stopwatch timing_time;
    std::vector<Workload> works =
        setup.works.empty() ? timing_workloads(setup.generator, setup.params) : setup.works;
    Activity activity(fmt::format("timing {}", setup.generator), works.size());
    for (size_t i = 0; i < works.size(); i++) {
        activity.at(i, works[i].name);
        result.failed_at = "time";
        BenchRequest bench;
        bench.build = request;
        bench.archive = built.archive;
        bench.workload = works[i];
        bench.baseline = last_good.empty() ? "" : "archive:" + last_good.string();
        bench.check = false; // just done
        bench.seconds = seconds_per_row;
        BenchReport report = bench_kernel(bench);
        result.failed_at = "";
        if (failed("time", report.diagnostics)) {
            return;
        }
        TrialRow row;
        row.work = works[i].name;
        row.ms = report.row.ms;
        row.ms_low = report.row.ms_low;
        row.ms_high = report.row.ms_high;
        row.roofline = report.row.roofline;
        row.error = verified.error;
        row.bound = verified.bound;
        row.gain = report.row.ratio;
        row.gain_low = report.row.ratio_low;
        row.gain_high = report.row.ratio_high;
        row.flags = report.row.flags;
        result.rows.push_back(std::move(row));
    }
    result.time_s = timing_time.seconds();
    if (!last_good.empty()) {
        std::error_code ignored;
        fs::remove_all(last_good.parent_path(), ignored);
    }
    last_good = built.archive;
}

KilnTrial::KilnTrial(TrialSetup setup) : state_(std::make_unique<State>(std::move(setup))) {}

KilnTrial::~KilnTrial() = default;

TrialResult KilnTrial::run(const std::string &file, const std::string &text) {
    TrialResult result;
    result.sources[file] = text;
    try {
        state_->try_it(file, text, result);
    } catch (const Error &error) {
        result.diagnostics = error.diagnostics;
    }
    return result;
}

} // namespace kiln::cli
