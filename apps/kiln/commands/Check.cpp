#include "apps/kiln/Variants.h"
#include "apps/kiln/Workloads.h"
#include "apps/kiln/commands/Commands.h"
#include "dsl/check/CheckKernel.h"
#include "dsl/support/Progress.h"

#include <fmt/format.h>

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

class Check : public Command {
public:
    std::string name() const override { return "check"; }
    std::string summary() const override { return "Whether a kernel computes what its algorithm says"; }

    void define(CLI::App &app) override {
        app_ = &app;
        app.add_option("GENERATOR", generator_, "The algorithm")->required()->type_name("GENERATOR");
        variants_.define(app);
        app.add_option("-w,--work", works_, "A problem of the generator, by name; may be repeated")
            ->type_name("NAME")
            ->allow_extra_args(false);
        app.add_option("--archive", archive_, "Check this NAME.a that is built already")->type_name("FILE");
        app.add_option("--seed", seed_, "Repeat a run with its random numbers")->type_name("N");
        app.add_flag("--quick", quick_, "Only integers and random numbers, at the problem's own sizes");
        app.add_option("--threads", threads_, "Threads of a CPU kernel")->type_name("N");
        app.add_option("--device", device_, "Which GPU, from 0")->type_name("N");
    }

    Report run(const Settings &settings) override {
        Report report;
        load_generators(settings.load);
        require_generator(generator_);
        CheckRequest request;
        request.build.generator = generator_;
        request.build.load = settings.load;
        request.build.params = variants_.params();
        request.build.variants = variants_.requests(*app_, report.sources);
        request.archive = archive_;
        if (!works_.empty()) {
            request.workloads = workloads_by_name(generator_, works_);
        } else if (!request.build.params.empty() || !request.archive.empty()) {
            request.workloads = checking_workloads(generator_, request.build.params);
        }
        request.seed = seed_;
        request.quick = quick_;
        request.threads = threads_;
        request.device = device_;
        Activity activity(fmt::format("checking {} on {}", generator_,
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
        report.text +=
            fmt::format("{}: {} (seed {})\n", generator_, checked.ok ? "right" : "WRONG", checked.seed);
        nlohmann::json json = to_json(checked);
        json.erase("diagnostics"); // the document has its own list
        json.erase("ok");
        for (const auto &[key, value] : json.items()) {
            report.data[key] = value;
        }
        if (!checked.ok && report.exit_code == exit_ok) {
            report.exit_code = exit_fault;
        }
        return report;
    }

private:
    CLI::App *app_ = nullptr;
    VariantOptions variants_;
    std::string generator_, archive_;
    std::vector<std::string> works_;
    uint64_t seed_ = 0;
    bool quick_ = false;
    int threads_ = 0, device_ = 0;
};

} // namespace

std::unique_ptr<Command> check_command() {
    return std::make_unique<Check>();
}

} // namespace kiln::cli
