#include "apps/kiln/ScheduleCheck.h"
#include "apps/kiln/ScheduleDiff.h"
#include "apps/kiln/ScheduleFile.h"
#include "apps/kiln/commands/Commands.h"
#include "dsl/generator/Create.h"
#include "dsl/schedule/Canonical.h"
#include "dsl/schedule/Print.h"
#include "dsl/schedule/Reference.h"
#include "dsl/schedule/apply/Describe.h"

#include <Halide.h>
#include <fmt/format.h>

namespace kiln::cli {

namespace {

void keep_source(Report &report, const ScheduleFile &file) {
    report.sources[file.file] = file.text;
}

void define_values(CLI::App &app, std::vector<std::string> &params, std::vector<std::string> &knobs) {
    app.add_option("-p,--param", params, "A generator parameter, k=v; may be repeated")
        ->type_name("K=V")
        ->allow_extra_args(false);
    app.add_option("-k,--knob", knobs, "A value for a knob, k=v; others take their first; may be repeated")
        ->type_name("K=V")
        ->allow_extra_args(false);
}

class Check : public Command {
public:
    std::string name() const override { return "check"; }
    std::string summary() const override {
        return "All faults of a schedule file, without building anything";
    }

    void define(CLI::App &app) override {
        app.add_option("FILE", file_, "The schedule file")->required()->type_name("FILE");
        app.add_option("-g,--generator", generator_, "What it is for; else what its `op` says")
            ->type_name("GENERATOR");
        app.add_option("-t,--target", target_, "The target; else what its `target` says")
            ->type_name("TARGET");
        define_values(app, params_, knobs_);
    }

    Report run(const Settings &settings) override {
        Report report;
        ScheduleFile file = read_schedule_file(file_);
        keep_source(report, file);
        CheckRequest request;
        request.generator = generator_;
        request.params = parse_params(params_);
        request.knobs = parse_knobs(knobs_);
        if (!target_.empty()) {
            request.target = Target::parse(target_);
        }
        load_generators(settings.load);
        CheckOutcome outcome = check_schedules(file, request);
        report.add(outcome.diagnostics);
        report.data["file"] = file_;
        report.data["schedules"] = nlohmann::ordered_json::array();
        for (const CheckedSchedule &schedule : outcome.schedules) {
            report.data["schedules"].push_back(to_json(schedule));
            if (schedule.ok && !has_errors(file.diagnostics)) {
                report.text += fmt::format("{}: `{}` is right for `{}` on `{}`\n", file_, schedule.name,
                                           schedule.op, schedule.target);
            }
        }
        return report;
    }

private:
    std::string file_, generator_, target_;
    std::vector<std::string> params_, knobs_;
};

class Print : public Command {
public:
    std::string name() const override { return "print"; }
    std::string summary() const override {
        return "A schedule in its fixed layout, as C++ for Kiln or as plain Halide calls";
    }

    void define(CLI::App &app) override {
        app.add_option("FILE", file_, "The schedule file")->required()->type_name("FILE");
        add_choice(app, "--as", form_, {"text", "kiln", "halide"},
                   "What to print: text (the default), C++ that builds the schedule, Halide's calls");
        app.add_flag("--expand", expand_, "Canonical: macros and shorthands expanded, knobs filled in");
        app.add_option("-g,--generator", generator_,
                       "What it is for; else what its `op` says; --as halide needs it")
            ->type_name("GENERATOR");
        define_values(app, params_, knobs_);
    }

    Report run(const Settings &settings) override {
        Report report;
        ScheduleFile file = read_schedule_file(file_);
        keep_source(report, file);
        report.add(file.diagnostics);
        if (has_errors(file.diagnostics)) {
            return report;
        }
        KnobValues knobs = parse_knobs(knobs_);
        if (expand_) {
            for (Schedule &schedule : file.schedules) {
                CanonicalResult canonical = canonicalize(schedule, knobs);
                report.add(canonical.diagnostics);
                schedule = std::move(canonical.schedule);
            }
            if (has_errors(report.diagnostics)) {
                return report;
            }
        }
        if (form_ == "text") {
            report.text = print_text(file.schedules);
        } else if (form_ == "kiln") {
            for (const Schedule &schedule : file.schedules) {
                report.text += (report.text.empty() ? "" : "\n") + print_kiln(schedule);
            }
        } else {
            load_generators(settings.load);
            for (const Schedule &schedule : file.schedules) {
                report.text += (report.text.empty() ? "" : "\n") + as_halide(schedule, knobs);
            }
        }
        report.data["file"] = file_;
        report.data["as"] = form_;
        report.data["text"] = report.text;
        return report;
    }

private:
    std::string as_halide(const Schedule &schedule, const KnobValues &knobs) const {
        std::string op = generator_.empty() ? schedule.op : generator_;
        Params params = parse_params(params_);
        return run_generator(op,
                             [&]() -> nlohmann::json {
                                 auto generator =
                                     create_generator(op, params, Halide::Target(Target{}.halide()));
                                 PipelineInfo info =
                                     describe_pipeline(generator->build_pipeline().outputs(), op);
                                 return print_halide(schedule, info, knobs);
                             })
            .get<std::string>();
    }

    std::string file_, form_ = "text", generator_;
    bool expand_ = false;
    std::vector<std::string> params_, knobs_;
};

class Diff : public Command {
public:
    std::string name() const override { return "diff"; }
    std::string summary() const override { return "How two schedule files differ in meaning"; }

    void define(CLI::App &app) override {
        app.add_option("A", a_, "A schedule file")->required()->type_name("FILE");
        app.add_option("B", b_, "The file to compare it with")->required()->type_name("FILE");
        app.add_flag("--exit-code", exit_code_, "Exit with 1 where they differ");
    }

    Report run(const Settings &) override {
        Report report;
        std::vector<Schedule> sides[2];
        for (int i = 0; i < 2; i++) {
            ScheduleFile file = read_schedule_file(i == 0 ? a_ : b_);
            keep_source(report, file);
            report.add(file.diagnostics);
            sides[i] = std::move(file.schedules);
        }
        if (has_errors(report.diagnostics)) {
            return report;
        }
        std::vector<std::string> lines = diff_schedules(sides[0], sides[1]);
        for (const std::string &line : lines) {
            report.text += line + "\n";
        }
        if (lines.empty()) {
            report.text = "no difference\n";
        }
        report.data["same"] = lines.empty();
        report.data["changes"] = lines;
        if (exit_code_ && !lines.empty()) {
            report.exit_code = exit_fault;
        }
        return report;
    }

private:
    std::string a_, b_;
    bool exit_code_ = false;
};

class Doc : public Command {
public:
    std::string name() const override { return "doc"; }
    std::string summary() const override { return "The reference page of all directives, as Markdown"; }
    Report run(const Settings &) override {
        Report report;
        report.text = directive_reference();
        report.data["text"] = report.text;
        return report;
    }
};

class ScheduleGroup : public CommandGroup {
public:
    std::string name() const override { return "schedule"; }
    std::string summary() const override {
        return "Checks, prints and compares schedules, and documents the language";
    }
    std::vector<std::unique_ptr<Command>> children() override {
        std::vector<std::unique_ptr<Command>> all;
        all.push_back(std::make_unique<Check>());
        all.push_back(std::make_unique<Print>());
        all.push_back(std::make_unique<Diff>());
        all.push_back(std::make_unique<Doc>());
        return all;
    }
};

} // namespace

std::unique_ptr<Command> schedule_command() {
    return std::make_unique<ScheduleGroup>();
}

} // namespace kiln::cli
