#include "apps/kiln/KernelOptions.h"
#include "apps/kiln/Workloads.h"
#include "apps/kiln/commands/Commands.h"
#include "dsl/check/CheckKernel.h"
#include "dsl/support/Progress.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln::cli {

namespace {

const char *status_text(ProbeReport::Status status) {
    switch (status) {
    case ProbeReport::Status::Passed:
        return "passed";
    case ProbeReport::Status::Failed:
        return "FAILED";
    case ProbeReport::Status::Refused:
        return "refused";
    case ProbeReport::Status::Skipped:
        return "skipped";
    }
    return "";
}

/// A kernel is wrong where a probe failed; faults of its build or of a workload say nothing of it.
const char *verdict(const CheckReport &checked) {
    bool failed = std::any_of(checked.probes.begin(), checked.probes.end(), [](const ProbeReport &probe) {
        return probe.status == ProbeReport::Status::Failed;
    });
    return checked.ok ? "right" : failed ? "WRONG" : checked.has_no_device ? "not run" : "not checked";
}

class Check : public Command {
public:
    std::string name() const override { return "check"; }
    std::string summary() const override { return "Whether a kernel computes what its algorithm says"; }

    void define(CLI::App &app) override {
        kernel_.define(app, "Check", true, "");
        app.add_option("--seed", seed_, "Repeat a run with its random numbers")->type_name("N");
        app.add_flag("--quick", quick_, "Only integers and random numbers, at the problem's own sizes");
    }

    Report run(const Settings &settings) override {
        Report report;
        CheckRequest request;
        kernel_.fill(request, settings.load, report.sources);
        const std::string &generator = kernel_.generator();
        if (!kernel_.works().empty()) {
            request.workloads = workloads_by_name(generator, kernel_.works());
        } else if (!request.build.params.empty() || !request.archive.empty()) {
            request.workloads = checking_workloads(generator, request.build.params);
        }
        request.seed = seed_;
        request.quick = quick_;
        Activity activity(fmt::format("checking {} on {}", generator,
                                      VariantOptions::targets_text(request.build.variants)));
        CheckReport checked = check_kernel(request);
        report.add(checked.diagnostics);
        for (const ProbeReport &probe : checked.probes) {
            report.text += fmt::format("{:<8} {:<20} {:<10} {} of {} outputs", status_text(probe.status),
                                       probe.workload, probe.probe, probe.checked, probe.elements);
            if (probe.status == ProbeReport::Status::Passed) {
                report.text +=
                    fmt::format(", worst error {:.3g} of {:.3g} allowed", probe.error, probe.bound);
            }
            report.text += (probe.message.empty() ? "" : ": " + probe.message) + "\n";
        }
        report.text += fmt::format("{}: {} (seed {})\n", generator, verdict(checked), checked.seed);
        nlohmann::json json = to_json(checked);
        json.erase("diagnostics"); // the document has its own list
        json.erase("ok");
        for (const auto &[key, value] : json.items()) {
            report.data[key] = value;
        }
        if (!checked.ok && report.exit_code == exit_ok) {
            report.exit_code = checked.has_no_device ? exit_unavailable : exit_fault;
        }
        return report;
    }

private:
    KernelOptions kernel_;
    uint64_t seed_ = 0;
    bool quick_ = false;
};

} // namespace

std::unique_ptr<Command> check_command() {
    return std::make_unique<Check>();
}

} // namespace kiln::cli
