#include "apps/kiln/Workloads.h"
#include "apps/kiln/commands/Commands.h"
#include "apps/kiln/tune/TuneReport.h"
#include "dsl/check/CheckKernel.h"
#include "dsl/check/Groups.h"
#include "dsl/schedule/Print.h"
#include "dsl/search/measure/BuildTrial.h"
#include "dsl/search/measure/Ranks.h"
#include "dsl/search/search/Tuned.h"
#include "dsl/support/Files.h"
#include "dsl/support/Progress.h"

#include <fmt/format.h>

#include <algorithm>

#include <unistd.h>

namespace kiln::cli {

namespace {

namespace fs = std::filesystem;

class Tune : public Command {
public:
    std::string name() const override { return "tune"; }
    std::string summary() const override {
        return "Searches for the fastest schedule by measuring, and keeps it";
    }

    void define(CLI::App &app) override {
        app.add_option("GENERATOR", question_.generator, "The algorithm")->required()->type_name("GENERATOR");
        app.add_option("-t,--target", target_,
                       "Where it runs: cpu-avx2, host (this CPU), opencl, cuda (whatever the device is)")
            ->required()
            ->type_name("TARGET");
        app.add_option("--device", question_.device, "Which of the backend's devices, from 0")
            ->type_name("N");
        app.add_option("-s,--schedule", family_, "Search only the knobs of this schedule file")
            ->type_name("FILE");
        app.add_option("--start", starts_,
                       "A schedule file, or a folder of them, to start from; may be repeated")
            ->type_name("FILE")
            ->allow_extra_args(false);
        app.add_option("-p,--param", params_, "A generator parameter, k=v; may be repeated")
            ->type_name("K=V")
            ->allow_extra_args(false);
        app.add_option("-w,--work", question_.work,
                       "A problem of the generator, by name; else its first for timing")
            ->type_name("NAME");
        app.add_option("--shape", question_.shapes,
                       "Sizes of a buffer, innermost first: x=512x256; once for each buffer")
            ->type_name("X=NxM")
            ->allow_extra_args(false);
        app.add_option("--budget", budget_s_,
                       "Seconds for the whole search; 60 where --trials is not given either")
            ->check(CLI::PositiveNumber)
            ->type_name("SECONDS");
        app.add_option("--trials", trials_, "Candidates to measure")->type_name("N");
        app.add_flag("--resume", resume_, "Go on with the last search of this problem that was interrupted");
        add_choice(app, "--regime", regime_, {"sustained", "cool"},
                   "What to be fast in, on a GPU: call after call, or with idle time between");
        app.add_option("--threads", question_.threads, "Threads of a CPU kernel")->type_name("N");
        app.add_option("--seed", seed_, "Of the search's random choices")
            ->type_name("N")
            ->capture_default_str();
        app.add_option("--database", database_,
                       "The file of all results; else KILN_DATABASE, else in the cache")
            ->type_name("FILE");
        app.add_option("--model", weights_,
                       "Weights of the cost model, in place of the ones that come with Kiln")
            ->type_name("FILE");
        app.add_option("-o,--output", output_, "The folder for the library and its schedule at the end")
            ->type_name("DIR");
        app.add_option("--time", time_s_, "Seconds of timing for each promising candidate")
            ->type_name("SECONDS");
    }

    Report run(const Settings &settings) override {
        Report report;
        load_generators(settings.load);
        require_generator(question_.generator);
        question_.load = settings.load;
        question_.params = parse_params(params_);
        question_.target = tuning_target(target_);
        std::unique_ptr<search::Ranks> ranks = search::Ranks::join();
        if (ranks && ranks->rank() > 0) {
            // Rank 0 speaks for all.
            set_progress_mode(ProgressMode::Off);
            ranks->serve(question_.device);
            ranks.reset();
            fflush(nullptr);
            _exit(exit_ok);
        }
        tune(settings, ranks.get(), report);
        return report;
    }

private:
    void tune(const Settings &settings, search::Ranks *ranks, Report &report) {
        TuneSetup setup = set_up(question_, true);
        if (time_s_ > 0) {
            setup.measure.limits.time_s = time_s_;
        } else if (setup.measure.cool) {
            setup.measure.limits.time_s = 0.4; // the power limit is reached only after a while
        }
        search::SearchOptions options;
        options.budget_s = budget_s_ > 0 || trials_ > 0 ? budget_s_ : 60;
        options.trials = trials_;
        options.seed = seed_;
        options.resume = resume_;
        options.threads = question_.threads;
        options.regime = regime_ == "cool" ? search::Regime::Cool : search::Regime::Sustained;
        options.roofline_ms = setup.bound.ms;
        std::unique_ptr<search::Space> space = space_of(setup, family_, options.space, report.sources);
        options.hand = starts_of(setup, starts_);
        search::Model model = weights_.empty() ? search::Model::shipped() : search::Model::load(weights_);
        search::Database database(database_.empty() ? search::Database::standard_path()
                                                    : fs::path(database_));
        std::unique_ptr<search::Measurer> measurer =
            ranks ? ranks->measurer(setup.measure) : search::local_measurer(setup.measure);
        nlohmann::ordered_json all = nlohmann::ordered_json::array();
        search::SearchResult result;
        {
            Activity activity(
                fmt::format("tuning {} for {}", setup.problem.name(), setup.problem.target.str()),
                static_cast<size_t>(std::max<int64_t>(trials_, 0)));
            search::SearchObserver observer;
            observer.progress = [&](const search::SearchProgress &p) {
                activity.at(static_cast<size_t>(trials_ > 0 ? p.done : 0), progress_text(p));
            };
            double best_ms = 0;
            observer.trial = [&](const search::StoredTrial &t) {
                all.push_back(trial_json(t));
                bool better = t.outcome.ok() && (best_ms == 0 || t.score(options.regime) < best_ms);
                best_ms = better ? t.score(options.regime) : best_ms;
                bool strange = !t.outcome.ok() && t.outcome.status != search::Status::Refused;
                if (!settings.quiet && (better || strange)) {
                    hide_progress();
                    fmt::print(stderr, "{}\n", trial_text(t));
                }
            };
            result = search::search(setup.problem, *space, std::move(model), *measurer, database, options,
                                    observer);
        }
        measurer.reset();
        add_result(report, setup, result, options.regime);
        report.data["trials"] = std::move(all);
        report.data["calibrated_now"] = setup.calibrated_now;
        report.data["database"] = database.path().string();
        deliver(setup, *space, result, database, options.regime, report);
    }

    /// A full check is of sizes, strides and values that tuning never saw: its problem need not be large. At the sizes that
    /// were tuned for a quick one is enough.
    static std::vector<Workload> full_check(const TuneSetup &setup) {
        const search::MeasureSetup &m = setup.measure;
        Workload chosen = m.workload;
        for (const Workload &w : checking_workloads(m.generator, m.params)) {
            double now = rough_bytes(chosen), then = rough_bytes(w);
            if (now > 16e6 ? then < now : then > now && then <= 16e6) {
                chosen = w;
            }
        }
        return {chosen};
    }

    /// The library of the best one that passes a full check, at odd sizes too; where none does, of the default schedule.
    void deliver(const TuneSetup &setup, search::Space &space, const search::SearchResult &result,
                 search::Database &database, search::Regime regime, Report &report) {
        fs::path folder = output_.empty() ? fs::path("tuned") : fs::path(output_);
        std::vector<search::StoredTrial> choices = result.best;
        search::StoredTrial plain;
        plain.job.schedule = space.plain().text();
        plain.job.origin = "plain";
        choices.push_back(plain);
        for (const search::StoredTrial &t : choices) {
            bool is_last = &t == &choices.back();
            if (is_last) {
                report.diagnostics.push_back(plain_delivered(setup.problem.name(), result));
            }
            std::string text = print_text(search::schedule_of(t));
            BuildRequest request = search::build_request(setup.measure, text, {});
            request.variants = search::variants_of(setup.problem, text);
            request.output_dir = folder;
            Activity activity(fmt::format("building and checking {}", setup.problem.generator));
            TemporaryFolder draft;
            BuildRequest first = request;
            first.output_dir = draft.path();
            BuildResult built = build_library(first);
            CheckRequest check;
            check.build = first;
            check.archive = built.archive;
            check.workloads = full_check(setup);
            check.threads = setup.measure.threads;
            check.device = setup.measure.device;
            check.reference_s = 0.5;
            CheckReport checked;
            if (built.ok) {
                checked = check_kernel(check);
            }
            if (checked.ok) {
                check.workloads = {setup.measure.workload};
                check.quick = true;
                checked = check_kernel(check);
            }
            if (!built.ok || !checked.ok) {
                const std::vector<Diagnostic> &faults = built.ok ? checked.diagnostics : built.diagnostics;
                if (is_last) {
                    report.add(faults);
                    report.exit_code = exit_fault;
                    return;
                }
                report.diagnostics.push_back(not_delivered(t, faults));
                search::StoredTrial judged = t;
                judged.outcome.status = search::Status::Wrong;
                judged.outcome.message = faults.empty() ? "a full check failed" : faults[0].message;
                judged.score_ms = judged.cool_score_ms = 0;
                database.add(judged);
                continue;
            }
            BuildResult last = build_library(request);
            // Sizes that a shifted split cannot serve get the default schedule (variants_of): no call is refused for them.
            std::erase_if(last.diagnostics, [](const Diagnostic &d) { return d.code == "K0220"; });
            report.add(last.diagnostics);
            if (!last.ok) {
                return;
            }
            fs::path schedule = folder / (setup.problem.generator + ".sched");
            double ms = t.score(regime) > 0 ? t.score(regime) : t.score_ms;
            std::string found = is_last ? "not measured" : fmt::format("{:.4f} ms, {}", ms, t.date);
            write_file_atomic(schedule,
                              fmt::format("// {}, {}: {} {}, database entry {}\n{}",
                                          setup.problem.device.name, setup.problem.target.str(),
                                          setup.problem.name(), found, result.entry.key.substr(0, 16), text));
            report.text += fmt::format("\nready: {}\n       {}\n", last.archive.string(), schedule.string());
            report.data["archive"] = last.archive.string();
            report.data["header"] = last.header.string();
            report.data["schedule_file"] = schedule.string();
            return;
        }
    }

    TuneQuestion question_;
    std::string target_, family_, regime_ = "sustained", database_, weights_, output_;
    std::vector<std::string> starts_, params_;
    double budget_s_ = 0, time_s_ = 0;
    int64_t trials_ = 0;
    uint64_t seed_ = 1;
    bool resume_ = false;
};

} // namespace

std::unique_ptr<Command> tune_command() {
    return std::make_unique<Tune>();
}

} // namespace kiln::cli
