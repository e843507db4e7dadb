#include "apps/kiln/Generators.h"
#include "apps/kiln/ScheduleFile.h"
#include "apps/kiln/Variants.h"
#include "apps/kiln/commands/Commands.h"
#include "apps/kiln/tune/TuneSetup.h"
#include "dsl/lower/BuildLibrary.h"
#include "dsl/search/search/Tuned.h"
#include "dsl/support/Files.h"
#include "dsl/support/Progress.h"

#include <fmt/format.h>

namespace kiln::cli {

namespace {

class Build : public Command {
public:
    std::string name() const override { return "build"; }
    std::string summary() const override {
        return "A static library from a generator and schedules: NAME.a, NAME.h, NAME.json";
    }

    void define(CLI::App &app) override {
        app_ = &app;
        app.add_option("GENERATOR", request_.generator, "The algorithm")->required()->type_name("GENERATOR");
        variants_.define(app);
        app.add_option("-n,--name", request_.function_name, "The C function's name; else the generator's")
            ->type_name("NAME");
        app.add_option("-o,--output", output_, "The folder for the three files")
            ->required()
            ->type_name("DIR");
        app.add_option("-w,--work", question_.work,
                       "With --schedule auto: the problem that it is to be fast for, by name; else the first "
                       "for timing")
            ->type_name("NAME");
        app.add_option(
               "--shape", question_.shapes,
               "With --schedule auto: sizes of a buffer, innermost first: x=512x256; once for each buffer")
            ->type_name("X=NxM")
            ->allow_extra_args(false);
        app.add_option("--database", database_,
                       "With --schedule auto: the tuning results; else KILN_DATABASE, else in the cache")
            ->type_name("FILE");
        app.add_option("--timeout", request_.timeout_s, "Seconds that a variant may take to compile")
            ->type_name("SECONDS")
            ->capture_default_str();
        app.add_option("--memory", memory_mib_, "MiB of memory that it may take")
            ->type_name("MIB")
            ->capture_default_str();
    }

    Report run(const Settings &settings) override {
        Report report;
        load_generators(settings.load);
        require_generator(request_.generator);
        request_.load = settings.load;
        request_.params = variants_.params();
        report.data["tuned"] = nlohmann::ordered_json::array();
        request_.variants = variants_.requests(*app_, report.sources,
                                               [&](const Target &target) { return tuned(target, report); });
        request_.output_dir = output_;
        request_.memory_limit_bytes = memory_mib_ << 20;
        Activity activity(
            fmt::format("building {} for {}", request_.generator, variants_.targets_text(request_.variants)));
        BuildResult result = build_library(request_);
        report.add(result.diagnostics);
        report.data["archive"] = result.archive.string();
        report.data["header"] = result.header.string();
        report.data["contract"] = result.json.string();
        report.data["key"] = result.key;
        report.data["seconds"] = result.seconds;
        if (result.ok) {
            report.text += fmt::format("{}\n{}\n{}\nbuilt in {:.2f} s\n", result.archive.string(),
                                       result.header.string(), result.json.string(), result.seconds);
        }
        return report;
    }

private:
    /// The variants of `--schedule auto`, and where it is from.
    std::vector<VariantRequest> tuned(const Target &wanted, Report &report) {
        TuneQuestion question = question_;
        question.generator = request_.generator;
        question.params = request_.params;
        question.target = wanted;
        TuneSetup setup = set_up(question, false);
        const Target &target = setup.problem.target;
        search::TunedSchedule tuned = search::tuned_schedule(
            setup.problem, tune_command_line(question),
            database_.empty() ? search::Database::standard_path() : std::filesystem::path(database_));
        report.add(tuned.warnings);
        report.text += fmt::format("{}: {}\n", target.str(), tuned.source);
        report.data["tuned"].push_back({{"target", target.str()},
                                        {"measured", tuned.measured},
                                        {"ms", tuned.ms},
                                        {"source", tuned.source}});
        return search::variants_of(setup.problem, tuned.text);
    }

    CLI::App *app_ = nullptr;
    BuildRequest request_;
    TuneQuestion question_;
    VariantOptions variants_;
    std::string output_, database_;
    size_t memory_mib_ = 8192;
};

} // namespace

std::unique_ptr<Command> build_command() {
    return std::make_unique<Build>();
}

} // namespace kiln::cli
