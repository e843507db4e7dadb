#include "apps/kiln/Generators.h"
#include "apps/kiln/ScheduleFile.h"
#include "apps/kiln/Workloads.h"
#include "apps/kiln/commands/Commands.h"
#include "apps/kiln/watch/Engine.h"
#include "apps/kiln/watch/KilnTrial.h"
#include "dsl/support/Files.h"
#include "dsl/support/Progress.h"
#include "dsl/target/Target.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <thread>

namespace kiln::cli {

namespace {

class Watch : public Command {
public:
    std::string name() const override { return "watch"; }
    std::string summary() const override {
        return "Tune a schedule by hand: each time it is saved, check, build, verify and time it";
    }

    void define(CLI::App &app) override {
        app.add_option("GENERATOR", generator_, "What the schedule is for")
            ->required()
            ->type_name("GENERATOR");
        app.add_option("-s,--schedule", file_, "The file that you edit")->required()->type_name("FILE");
        app.add_option("-t,--target", target_,
                       "Where it runs: cpu-avx2, opencl, cuda; else what the schedule names")
            ->type_name("TARGET");
        app.add_option("-p,--param", params_, "A generator parameter, k=v; may be repeated")
            ->type_name("K=V")
            ->allow_extra_args(false);
        app.add_option("-k,--knob", knobs_, "A value for a knob, k=v; may be repeated")
            ->type_name("K=V")
            ->allow_extra_args(false);
        app.add_option("-w,--work", works_, "A problem of the generator to time, by name; may be repeated")
            ->type_name("NAME")
            ->allow_extra_args(false);
        app.add_option("--count", count_, "End after this many tries")->type_name("N");
        app.add_flag("--history", history_, "List what was tried, and end");
        app.add_option("--revert", revert_, "Put try number N back into the file, and end")->type_name("N");
    }

    Report run(const Settings &settings) override {
        load_generators(settings.load);
        TrialSetup setup;
        setup.generator = generator_;
        setup.load = settings.load;
        setup.params = parse_params(params_);
        setup.knobs = parse_knobs(knobs_);
        setup.target = target_.empty() ? std::nullopt : std::optional(Target::parse(target_));
        History history(file_, history_key(setup));
        if (history_) {
            return list(history);
        }
        if (revert_ > 0) {
            return revert(history);
        }
        read_text_file(
            file_, "schedule"); // here a missing file is a slip of the user's; later it is an editor's way
        require_generator(generator_);
        setup.works = workloads_by_name(generator_, works_);
        KilnTrial runner(setup);
        return watch(history, runner, settings);
    }

private:
    std::string history_key(const TrialSetup &setup) const {
        std::string key = setup.generator;
        for (const auto &[name, value] : setup.params) {
            key += fmt::format("\n{}={}", name, value);
        }
        return key + "\n" + (setup.target ? setup.target->str() : "");
    }

    Report list(const History &history) const {
        Report report;
        report.text = render(history);
        report.data["file"] = file_;
        report.data["folder"] = history.folder().string();
        report.data["best"] = history.best() ? history.best()->number : 0;
        report.data["history"] = nlohmann::ordered_json::array();
        for (const HistoryEntry &entry : history.entries()) {
            report.data["history"].push_back(to_json(entry));
        }
        return report;
    }

    Report revert(const History &history) const {
        if (!history.find(revert_)) {
            Diagnostic d;
            d.code = "K0950";
            d.message = fmt::format("`{}` has no try number {}", file_, revert_);
            if (history.entries().empty()) {
                d.notes.push_back("nothing was tried yet with this generator, target and parameters");
            } else {
                d.notes.push_back(fmt::format("there are {} to {}; `--history` lists them",
                                              history.entries().front().number,
                                              history.entries().back().number));
            }
            throw Error(std::move(d));
        }
        write_file_atomic(file_, history.text_of(revert_));
        Report report;
        report.text = fmt::format("`{}` is number {} again\n", file_, revert_);
        report.data["file"] = file_;
        report.data["number"] = revert_;
        return report;
    }

    Report watch(History &history, TrialRunner &runner, const Settings &settings) {
        WatchEngine engine(file_, runner, history);
        if (!settings.json) {
            print(fmt::format("watching `{}`; Ctrl-C ends\n", file_));
        }
        Report report;
        int tries = 0;
        while (count_ == 0 || tries < count_) {
            if (std::optional<WatchEvent> event = engine.look()) {
                print(settings.json ? to_json(*event, file_).dump() + "\n" : render(*event, file_));
                tries += event->kind == WatchEvent::Kind::Trial;
                continue;
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
        }
        report.data["event"] = "end";
        report.data["tries"] = tries;
        return report;
    }

    /// As it happens, and not at the end: --json gives one document a line here.
    static void print(const std::string &text) {
        hide_progress();
        fwrite(text.data(), 1, text.size(), stdout);
        fflush(stdout);
    }

    std::string generator_, file_, target_;
    std::vector<std::string> params_, knobs_, works_;
    int count_ = 0, revert_ = 0;
    bool history_ = false;
};

} // namespace

std::unique_ptr<Command> watch_command() {
    return std::make_unique<Watch>();
}

} // namespace kiln::cli
