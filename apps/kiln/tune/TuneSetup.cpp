#include "apps/kiln/tune/TuneSetup.h"

#include "apps/kiln/ScheduleFile.h"
#include "apps/kiln/Workloads.h"
#include "dsl/check/CheckKernel.h"
#include "dsl/lower/Sha256.h"
#include "dsl/schedule/TargetPattern.h"
#include "dsl/support/Files.h"
#include "dsl/support/Progress.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace kiln::cli {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const char *code, std::string message, std::vector<std::string> notes,
                       std::string help) {
    Diagnostic d;
    d.code = code;
    d.message = std::move(message);
    d.notes = std::move(notes);
    if (!help.empty()) {
        d.helps = {std::move(help)};
    }
    throw Error(std::move(d));
}

/// Schedules of a file for this generator and target.
std::vector<Schedule> matching(const TuneSetup &setup, const ScheduleFile &file) {
    std::vector<Schedule> out;
    for (const Schedule &s : file.schedules) {
        if ((s.op.empty() || s.op == setup.problem.generator) &&
            (!s.target || matches(*s.target, setup.problem.target))) {
            out.push_back(s);
        }
    }
    return out;
}

} // namespace

Target tuning_target(const std::string &text) {
    return text == "host" ? device_for(Target{}).target : Target::parse(text);
}

Workload workload_of(const TuneQuestion &question) {
    if (!question.shapes.empty()) {
        return shaped_workload(question.generator, question.params, question.shapes);
    }
    if (!question.work.empty()) {
        return find_workload(question.generator, question.work);
    }
    std::vector<Workload> all = bench_workloads(question.generator, question.params, false);
    if (all.empty()) {
        fail("K1330", fmt::format("generator `{}` names no problem to tune it for", question.generator), {},
             "give the extents of every buffer: `--shape x=512x256`");
    }
    return all.front();
}

Device device_of(TuneQuestion &question) {
    std::vector<Device> all = detect_devices(), fit;
    std::vector<std::string> names;
    for (const Device &d : all) {
        if (d.target.backend == question.target.backend) {
            names.push_back(fmt::format("{} {}", d.id(), d.name));
            if (question.device < 0 || d.index == question.device) {
                fit.push_back(d);
            }
        }
    }
    if (question.device >= 0 && fit.empty() && !names.empty()) {
        fail("K1331", fmt::format("no device {} for `{}`", question.device, question.target.str()),
             {fmt::format("there are {}", fmt::join(names, ", "))}, "");
    }
    for (Device &d : fit) {
        if (question.target.backend == Backend::Cuda && question.target.feature.empty()) {
            question.target = d.target;
        }
        if (d.target.level() >= question.target.level()) {
            question.device = d.index;
            return d;
        }
    }
    Device first = device_for(question.target); // throws what there is
    question.device = first.index;
    return first;
}

TuneSetup set_up(TuneQuestion question, bool may_calibrate) {
    TuneSetup setup;
    Device device = device_of(question);
    describe_generator(question.generator,
                       question.params); // in a child: whatever happens there is a diagnostic
    Workload workload = workload_of(question);
    for (const auto &[name, value] : workload.params) {
        question.params.emplace(name, value);
    }
    if (!device.ceilings && may_calibrate) {
        Activity activity(fmt::format("calibrating {}", device.id()), 100);
        try {
            device.ceilings = calibrate(device, [&](double done, const std::string &what) {
                activity.at(static_cast<size_t>(std::lround(done * 100)), what);
            });
            setup.calibrated_now = true;
        } catch (const Error &) {
            // Without ceilings there is no roofline to hold times against; the search works all the same.
        }
    }
    workload.params = question.params;
    setup.problem =
        search::problem_of(question.generator, question.params, workload, question.target, device);
    setup.bound = search::bound_of(setup.problem, question.threads);
    search::MeasureSetup &m = setup.measure;
    m.generator = question.generator;
    m.load = question.load;
    m.params = question.params;
    m.target = question.target;
    m.workload = workload;
    m.threads = question.threads;
    m.device = question.target.backend == Backend::Cuda ? question.device : 0;
    m.cool = question.target.backend == Backend::Cuda;
    m.floor_ms = setup.bound.floor_ms;
    return setup;
}

std::string tune_command_line(const TuneQuestion &question) {
    std::string target = question.target.str();
    std::replace(target.begin(), target.end(), ' ', '-');
    std::string line = fmt::format("kiln tune {} --target {}", question.generator, target);
    for (const auto &[name, value] : question.params) {
        line += fmt::format(" --param {}={}", name, value);
    }
    for (const std::string &shape : question.shapes) {
        line += fmt::format(" --shape {}", shape);
    }
    return question.work.empty() ? line : line + fmt::format(" --work {}", question.work);
}

std::unique_ptr<search::Space> space_of(const TuneSetup &setup, const std::string &file, std::string &name,
                                        std::map<std::string, std::string> &sources) {
    if (file.empty()) {
        name = "pipeline";
        return search::pipeline_space(setup.problem);
    }
    ScheduleFile parsed = read_schedule_file(file);
    sources[file] = parsed.text;
    if (has_errors(parsed.diagnostics)) {
        throw Error(parsed.diagnostics);
    }
    std::vector<std::string> others;
    for (const Schedule &s : matching(setup, parsed)) {
        if (!s.knobs.empty()) {
            name = "family " + sha256(parsed.text).substr(0, 16);
            return search::family_space(setup.problem, s);
        }
        others.push_back(s.name);
    }
    fail("K1332",
         fmt::format("`{}` has no schedule with knobs for `{}` on `{}`", file, setup.problem.generator,
                     setup.problem.target.str()),
         others.empty() ? std::vector<std::string>{}
                        : std::vector{fmt::format("without knobs: `{}`", fmt::join(others, "`, `"))},
         "write `knob name in {8, 16}`, or start from it: `--start FILE`");
}

std::vector<search::Candidate> starts_of(const TuneSetup &setup, const std::vector<std::string> &paths) {
    std::vector<search::Candidate> out;
    std::vector<fs::path> files;
    for (const std::string &path : paths) {
        if (!fs::is_directory(path)) {
            files.emplace_back(path);
            continue;
        }
        fs::path folder = fs::path(path) / setup.problem.generator;
        if (!fs::is_directory(folder)) {
            folder = path;
        }
        std::vector<fs::path> here;
        for (const auto &entry : fs::directory_iterator(folder)) {
            if (entry.path().extension() == ".sched") {
                here.push_back(entry.path());
            }
        }
        std::sort(here.begin(), here.end());
        files.insert(files.end(), here.begin(), here.end());
    }
    std::unique_ptr<search::Space> space = search::pipeline_space(setup.problem);
    for (const fs::path &file : files) {
        ScheduleFile parsed = read_schedule_file(file.string());
        if (has_errors(parsed.diagnostics)) {
            throw Error(parsed.diagnostics);
        }
        for (const Schedule &s : matching(setup, parsed)) {
            if (auto candidate = space->adopt(s, "hand")) {
                out.push_back(*candidate);
            }
        }
    }
    return out;
}

} // namespace kiln::cli
