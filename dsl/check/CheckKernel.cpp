#include "dsl/check/CheckKernel.h"

#include "dsl/check/Compare.h"
#include "dsl/check/Groups.h"
#include "dsl/check/Problem.h"
#include "dsl/support/Process.h"
#include "dsl/support/Progress.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cmath>

namespace kiln {

namespace {

using Status = ProbeReport::Status;

double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Probe {
    std::string name;
    Fill fill;
    Layout layout = {};
    std::string resize = {}; ///< see resized()
    bool may_refuse = false;
};

std::vector<Probe> probes_of(const CheckRequest &request, bool first_workload) {
    std::vector<Probe> probes = {{"integers", Fill::Integers}, {"random", Fill::Random}};
    if (request.quick) {
        return probes;
    }
    probes.push_back({"special", Fill::Special});
    if (first_workload) {
        probes.push_back({"strided", Fill::Random, {3, true}, "", true});
        probes.push_back({"odd", Fill::Integers, {0, true}, "odd", true});
        probes.push_back({"ones", Fill::Random, {}, "ones", true});
        for (int i = 0; i < 8; i++) {
            probes.push_back({"zero", Fill::Random, {}, fmt::format("zero {}", i), true});
        }
    }
    return probes;
}

std::vector<int64_t> extents_of(Problem &problem, int i) {
    std::vector<int64_t> extents;
    const halide_buffer_t *b = problem.buffer(i);
    for (int d = 0; d < b->dimensions; d++) {
        extents.push_back(b->dim[d].extent);
    }
    return extents;
}

class Checker {
public:
    Checker(const CheckRequest &request, CheckReport &report) : request_(request), report_(report) {}

    void run() {
        ensure_generator(request_.build);
        for (const WorkloadGroup &group : group_workloads(request_.build, request_.workloads)) {
            if (!report_.has_no_device) {
                run_group(group);
            }
        }
    }

private:
    const CheckRequest &request_;
    CheckReport &report_;
    double worst_ = -1;

    void run_group(const WorkloadGroup &group) {
        BuiltKernel kernel =
            build_kernel(request_.build, group.params, request_.archive, report_.diagnostics);
        report_.build_s += kernel.build_s;
        if (!kernel.library) {
            return;
        }
        Algorithm algorithm(request_.build.generator, group.params, reference_target(request_.build));
        check_task(algorithm, largest(group.workloads));
        bool first = true;
        for (const Workload &workload : group.workloads) {
            std::vector<Probe> probes = probes_of(request_, first);
            first = false;
            Activity activity(fmt::format("checking {} on {}", request_.build.generator, workload.name),
                              probes.size());
            for (size_t i = 0; i < probes.size() && !report_.has_no_device; i++) {
                activity.at(i, probes[i].name);
                std::optional<Workload> sized =
                    probes[i].resize.empty() ? workload : resized(workload, probes[i].resize);
                if (sized) {
                    run_probe(*kernel.library, algorithm, *sized, workload.name, probes[i]);
                }
            }
        }
    }

    /// A vector of one element may happen to be 0 twice; the largest workload says most about the task.
    static const Workload &largest(const std::vector<Workload> &workloads) {
        auto size = [](const Workload &w) {
            double total = 0;
            for (const auto &[name, extents] : w.extents) {
                double n = 1;
                for (int64_t e : extents) {
                    n *= static_cast<double>(e);
                }
                total += n;
            }
            return total;
        };
        return *std::max_element(workloads.begin(), workloads.end(),
                                 [&](const Workload &a, const Workload &b) { return size(a) < size(b); });
    }

    /// K0810 and K0811: a task that any answer, or an obvious one, would pass says nothing.
    void check_task(Algorithm &algorithm, const Workload &workload) {
        double start = now();
        bool has_input = false, depends = false, has_output = false;
        std::string trivial;
        Problem problem(algorithm.arguments, workload);
        std::vector<std::vector<Value>> first_draw;
        for (int draw = 0; draw < 4 && !depends; draw++) {
            problem.fill(Fill::Random, report_.seed * 31 + static_cast<uint64_t>(draw));
            problem.bind(algorithm.evaluator());
            int n = 0;
            for (int i = 0; i < problem.count(); i++) {
                const KernelArgument &a = problem.argument(i);
                has_input = has_input || a.kind == KernelArgument::Kind::Input;
                if (a.kind != KernelArgument::Kind::Output) {
                    continue;
                }
                auto points = sample_points(extents_of(problem, i), 64, report_.seed);
                points.resize(std::min<size_t>(points.size(), 64));
                if (points.empty()) {
                    continue;
                }
                has_output = true;
                std::vector<Value> values;
                for (const std::vector<int> &p : points) {
                    values.push_back(algorithm.evaluator().at(a.output, a.value_index, p));
                }
                if (draw == 0) {
                    first_draw.push_back(values);
                    std::string answer = trivial_answer(algorithm.evaluator(), a.output, a.value_index,
                                                        points, inputs_like(problem, i));
                    // One output that cannot be guessed makes the task a task.
                    trivial = n == 0 ? answer : answer.empty() || trivial.empty() ? "" : trivial;
                } else {
                    depends = depends || differ(first_draw[n], values, a.type);
                }
                n++;
            }
        }
        report_.reference_s += now() - start;
        if (!has_output || !has_input) {
            return;
        }
        if (!depends) {
            fault("K0810",
                  fmt::format("the answer of `{}` on workload `{}` does not depend on its inputs",
                              request_.build.generator, workload.name),
                  {"four draws of random inputs gave the same outputs within their tolerance"},
                  "choose sizes or scalars for which the inputs matter");
        } else if (!trivial.empty()) {
            fault("K0811",
                  fmt::format("on workload `{}` of `{}` a kernel that does no work would pass: {}",
                              workload.name, request_.build.generator,
                              trivial == "zeros"      ? "all outputs may be 0"
                              : trivial == "constant" ? "all outputs may be one constant"
                                                      : "an input may be copied"),
                  {}, "choose sizes or scalars for which the outputs differ from each other");
        }
    }

    std::vector<std::function<Value(const std::vector<int> &)>> inputs_like(Problem &problem, int output) {
        std::vector<std::function<Value(const std::vector<int> &)>> inputs;
        for (int i = 0; i < problem.count(); i++) {
            const KernelArgument &a = problem.argument(i);
            if (a.kind == KernelArgument::Kind::Input && a.type == problem.argument(output).type &&
                extents_of(problem, i) == extents_of(problem, output)) {
                inputs.push_back([&problem, i](const std::vector<int> &p) { return problem.got(i, p); });
            }
        }
        return inputs;
    }

    void fault(const char *code, std::string message, std::vector<std::string> notes, std::string help) {
        Diagnostic d;
        d.code = code;
        d.message = std::move(message);
        d.notes = std::move(notes);
        d.helps = {std::move(help)};
        report_.diagnostics.push_back(std::move(d));
    }

    void run_probe(const LoadedLibrary &library, Algorithm &algorithm, const Workload &workload,
                   const std::string &name, const Probe &probe) {
        ProbeReport out;
        out.workload = name;
        out.probe = probe.name;
        try {
            Problem problem(algorithm.arguments, workload, probe.layout);
            problem.fill(probe.fill, report_.seed);
            if (call_kernel(library, problem, probe, out)) {
                compare(algorithm, problem, probe, out);
            }
        } catch (const Error &e) {
            // Derived sizes may not fit what the algorithm reads; a workload's own must.
            out.status = probe.resize.empty() ? Status::Failed : Status::Skipped;
            out.message = e.diagnostics.empty() ? e.what() : e.diagnostics[0].message;
            if (out.status == Status::Failed) {
                report_.diagnostics.insert(report_.diagnostics.end(), e.diagnostics.begin(),
                                           e.diagnostics.end());
            }
        }
        report_.probes.push_back(out);
    }

    /// Runs the kernel in a child. False where there is no result to compare.
    bool call_kernel(const LoadedLibrary &library, Problem &problem, const Probe &probe, ProbeReport &out) {
        double start = now();
        nlohmann::json result;
        try {
            result =
                run_isolated(fmt::format("the kernel `{}`", library.name()), {request_.timeout_s, 0}, [&] {
                    kiln_call call = KILN_CALL_INIT;
                    call.device = request_.device;
                    library.set_threads(request_.threads);
                    int status = problem.call(library, &call);
                    nlohmann::json j = {{"status", status},
                                        {"message", status ? library.last_message() : ""},
                                        {"choice", library.last_choice()}};
                    problem.release(library, &call);
                    return j;
                });
        } catch (const Error &e) {
            out.status = Status::Failed;
            out.message = e.diagnostics[0].message;
            fault(
                "K0809", fmt::format("{}, with {}", e.diagnostics[0].message, describe(probe)),
                e.diagnostics[0].notes,
                fmt::format(
                    "`kiln check --seed {}` repeats this run; a crash right behind a buffer is an access out "
                    "of bounds",
                    report_.seed));
            return false;
        }
        report_.kernel_s += now() - start;
        out.variant = result.at("choice");
        int status = result.at("status");
        if (status == KILN_OK) {
            if (std::optional<Diagnostic> damage = problem.find_damage()) {
                damage->notes.push_back(fmt::format("with {}, seed {}", describe(probe), report_.seed));
                out.status = Status::Failed;
                out.message = damage->message;
                report_.diagnostics.push_back(std::move(*damage));
                return false;
            }
            return true;
        }
        out.message = result.at("message");
        if (probe.may_refuse && status == KILN_INVALID_ARGUMENT) {
            out.status = Status::Refused;
            return false;
        }
        out.status = Status::Failed;
        bool cannot_run = status == KILN_NO_DEVICE || status == KILN_UNSUPPORTED;
        if (status == KILN_NO_DEVICE) {
            report_.has_no_device = true; // so would every other probe say
            out.status = Status::Skipped;
        }
        fault(cannot_run ? "K0812" : "K0809",
              cannot_run ? fmt::format("the kernel `{}` cannot run on this machine", library.name())
                         : fmt::format("the kernel `{}` returned {} ({}), with {}", library.name(), status,
                                       status_name(status), describe(probe)),
              {out.message},
              cannot_run ? "`kiln device` lists what runs here; build for one of its targets"
                         : fmt::format("`kiln check --seed {}` repeats this run", report_.seed));
        return false;
    }

    static const char *status_name(int status) {
        switch (status) {
        case KILN_INVALID_ARGUMENT:
            return "invalid argument";
        case KILN_OUT_OF_MEMORY:
            return "out of memory";
        case KILN_DEVICE_ERROR:
            return "device error";
        default:
            return "internal error";
        }
    }

    static std::string describe(const Probe &probe) {
        static const std::map<std::string, std::string> words = {
            {"integers", "whole numbers as inputs"},
            {"random", "random inputs"},
            {"special", "NaN, infinities and zeros among the inputs"},
            {"strided", "padded rows at odd addresses"},
            {"odd", "odd sizes"},
            {"ones", "all sizes 1"},
            {"zero", "a size of 0"}};
        return words.at(probe.name);
    }

    void compare(Algorithm &algorithm, Problem &problem, const Probe &probe, ProbeReport &out) {
        double start = now();
        problem.bind(algorithm.evaluator());
        double worst = -1;
        for (int i = 0; i < problem.count(); i++) {
            const KernelArgument &a = problem.argument(i);
            if (a.kind != KernelArgument::Kind::Output) {
                continue;
            }
            auto points = sample_points(extents_of(problem, i), request_.max_points, report_.seed + i);
            Comparison c = compare_points(
                algorithm.evaluator(), a.output, a.value_index, points,
                [&](const std::vector<int> &p) { return problem.got(i, p); }, request_.reference_s);
            out.checked += c.checked;
            out.elements += problem.elements(i);
            double badness = c.error == 0 ? 0 : c.bound > 0 ? c.error / c.bound : INFINITY;
            if (badness > worst) {
                worst = badness;
                out.error = c.error;
                out.bound = c.bound;
            }
            if (c.wrong > 0) {
                Diagnostic d = wrong_result(a.name, c, a.type, problem.is_untouched(i, c.first_wrong),
                                            describe(probe), report_.seed);
                out.status = Status::Failed;
                out.message = d.message;
                report_.diagnostics.push_back(std::move(d));
            }
        }
        algorithm.evaluator().forget();
        if (worst > worst_) {
            worst_ = worst;
            report_.error = out.error;
            report_.bound = out.bound;
        }
        report_.reference_s += now() - start;
    }
};

} // namespace

CheckReport check_kernel(const CheckRequest &request) {
    CheckReport report;
    report.seed = request.seed ? request.seed : fresh_seed();
    try {
        Checker(request, report).run();
    } catch (const Error &e) {
        report.diagnostics.insert(report.diagnostics.end(), e.diagnostics.begin(), e.diagnostics.end());
    } catch (const Halide::Error &e) {
        Diagnostic d;
        d.code = "K0801";
        d.message = "Halide refused the algorithm while its reference was made";
        d.notes = {e.what()};
        report.diagnostics.push_back(d);
    }
    report.ok = !has_errors(report.diagnostics) && !report.probes.empty();
    return report;
}

nlohmann::json to_json(const ProbeReport &p) {
    static const char *names[] = {"passed", "failed", "refused", "skipped"};
    nlohmann::json j = {
        {"workload", p.workload}, {"probe", p.probe},       {"status", names[static_cast<int>(p.status)]},
        {"checked", p.checked},   {"elements", p.elements}, {"error", p.error},
        {"bound", p.bound},       {"variant", p.variant}};
    if (!p.message.empty()) {
        j["message"] = p.message;
    }
    return j;
}

nlohmann::json to_json(const CheckReport &r) {
    nlohmann::json probes = nlohmann::json::array(), diagnostics = nlohmann::json::array();
    for (const ProbeReport &p : r.probes) {
        probes.push_back(to_json(p));
    }
    for (const Diagnostic &d : r.diagnostics) {
        diagnostics.push_back(to_json(d));
    }
    return {{"ok", r.ok},
            {"seed", r.seed},
            {"error", r.error},
            {"bound", r.bound},
            {"build_s", r.build_s},
            {"reference_s", r.reference_s},
            {"kernel_s", r.kernel_s},
            {"probes", probes},
            {"diagnostics", diagnostics}};
}

} // namespace kiln
