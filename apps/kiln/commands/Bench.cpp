#include "apps/kiln/KernelOptions.h"
#include "apps/kiln/Workloads.h"
#include "apps/kiln/commands/Commands.h"
#include "dsl/check/BenchKernel.h"
#include "dsl/support/Progress.h"
#include "dsl/target/Device.h"

#include <fmt/format.h>

namespace kiln::cli {

namespace {

std::string render(const BenchRow &row) {
    std::string out =
        fmt::format("{:<24} {:<18} {:>10.4f} ms [{:.4f}, {:.4f}]  cold {:.4f} ms  first call {:.3f} ms",
                    row.work, row.shape, row.ms, row.ms_low, row.ms_high, row.cold_ms, row.first_ms);
    if (row.flops > 0 && row.ms > 0) {
        out += fmt::format("  {:.1f} GFLOP/s", row.flops / row.ms / 1e6);
    }
    if (row.bytes > 0 && row.ms > 0) {
        out += fmt::format("  {:.1f} GB/s", row.bytes / row.ms / 1e6);
    }
    if (row.roofline > 0) {
        out += fmt::format("  {:.0f} % of the roofline", 100 * row.roofline);
    }
    if (!row.baseline.empty()) {
        out += fmt::format("\n  {:.3f} [{:.3f}, {:.3f}] times as fast as {} ({:.4f} ms)", row.ratio,
                           row.ratio_low, row.ratio_high, row.baseline, row.baseline_ms);
    }
    for (const std::string &flag : row.flags) {
        out += fmt::format("\n  doubt: {}", flag);
    }
    return out + "\n";
}

class Bench : public Command {
public:
    std::string name() const override { return "bench"; }
    std::string summary() const override {
        return "How fast a kernel is, against a baseline that runs in turn with it";
    }

    void define(CLI::App &app) override {
        kernel_.define(app, "Time", false, "; else those for timing");
        app.add_option("-b,--baseline", baseline_,
                       "What runs in turn: copy, default, adams2019, mullapudi2016, li2018, archive:FILE")
            ->type_name("NAME");
        app.add_option(
               "--shape", shapes_,
               "Sizes of a buffer, innermost first, in place of --work: x=512x256; once for each buffer")
            ->type_name("X=NxM")
            ->allow_extra_args(false);
        app.add_option("--seconds", seconds_, "Time spent on each problem, warm and cold each")
            ->type_name("SECONDS")
            ->capture_default_str();
        app.add_option("--output", output_, "Add the rows to this results file")->type_name("FILE");
    }

    Report run(const Settings &settings) override {
        Report report;
        BenchRequest request;
        kernel_.fill(request, settings.load, report.sources);
        request.baseline = baseline_;
        request.seconds = seconds_;
        const std::string &generator = kernel_.generator();
        Device device = device_for(request.build.variants.front().target);
        std::vector<Workload> works =
            !shapes_.empty() ? std::vector{shaped_workload(generator, request.build.params, shapes_)}
            : kernel_.works().empty()
                ? bench_workloads(generator, request.build.params, request.archive.empty())
                : workloads_by_name(generator, kernel_.works());
        report.data["device"] = device.name;
        report.data["driver"] = device.driver;
        report.data["rows"] = nlohmann::ordered_json::array();
        std::vector<BenchRow> rows;
        Activity activity(fmt::format("timing {}", generator), works.size());
        for (size_t i = 0; i < works.size(); i++) {
            activity.at(i, works[i].name);
            request.workload = works[i];
            BenchReport timed = bench_kernel(request);
            report.add(timed.diagnostics);
            if (!timed.ok) {
                report.exit_code = exit_fault;
                continue; // one that fails does not hide the others
            }
            report.text += render(timed.row);
            report.data["rows"].emplace_back(to_json(timed.row));
            rows.push_back(timed.row);
        }
        if (!output_.empty() && !rows.empty()) {
            write_results(output_, device, kernel_.command_line(), rows);
        }
        return report;
    }

private:
    KernelOptions kernel_;
    std::string baseline_, output_;
    std::vector<std::string> shapes_;
    double seconds_ = 1.0;
};

} // namespace

std::unique_ptr<Command> bench_command() {
    return std::make_unique<Bench>();
}

} // namespace kiln::cli
