#include "dsl/search/measure/RunTrial.h"

#include "dsl/lower/LoadLibrary.h"
#include "dsl/search/measure/Freeze.h"
#include "dsl/search/measure/Race.h"
#include "dsl/support/Process.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>

#include <sys/time.h>
#include <unistd.h>

namespace kiln::search {

namespace {

namespace fs = std::filesystem;

double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// SIGALRM ends the child when a phase takes longer than this; 0 takes the alarm off.
void end_by_alarm_after(double seconds) {
    itimerval timer = {};
    timer.it_value.tv_sec = static_cast<time_t>(seconds);
    timer.it_value.tv_usec = static_cast<suseconds_t>((seconds - std::floor(seconds)) * 1e6);
    setitimer(ITIMER_REAL, &timer, nullptr);
}

/// Bytes of address space that this process has.
size_t address_space() {
    std::ifstream in("/proc/self/statm");
    size_t pages = 0;
    in >> pages;
    return pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

struct Fault {
    Status status;
    std::string message;
};

/// Everything that runs in the trial's own process. It lives as long as that: a kernel that returned before its work was
/// done may still run, so nothing of its code and its arrays goes before the process does.
class TrialChild {
public:
    TrialChild(const MeasureSetup &setup, Draw &draw, const BuiltJob &job, double call_s, pid_t builds_root)
        : setup_(setup), draw_(draw), job_(job), call_s_(call_s), builds_root_(builds_root) {
        call_.device = setup.device;
    }

    static nlohmann::json run(const MeasureSetup &setup, Draw &draw, const BuiltJob &job, double call_s,
                              pid_t builds_root) {
        auto *child = new TrialChild(setup, draw, job, call_s, builds_root); // ends with the process
        return child->run();
    }

private:
    nlohmann::json run() {
        Outcome out;
        try {
            measure(out);
        } catch (const Fault &fault) {
            out.status = fault.status;
            out.message = fault.message;
        }
        return to_json(out);
    }

    const MeasureSetup &setup_;
    Draw &draw_;
    const BuiltJob &job_;
    double call_s_;
    pid_t builds_root_;
    kiln_call call_ = KILN_CALL_INIT;
    std::optional<LoadedLibrary> candidate_, incumbent_;

    void measure(Outcome &out) {
        double start = now();
        LoadedLibrary &candidate = candidate_.emplace(job_.object);
        candidate.set_threads(setup_.threads);
        if (!job_.incumbent.empty()) {
            incumbent_.emplace(job_.incumbent);
            incumbent_->set_threads(setup_.threads);
            end_by_alarm_after(setup_.limits.call_s);
            must(draw_.theirs().call(*incumbent_, &call_), *incumbent_);
        }
        end_by_alarm_after(call_s_);
        must(draw_.first().call(candidate, &call_), candidate);
        draw_.first().release(candidate, &call_);
        end_by_alarm_after(call_s_);
        must(draw_.ours().call(candidate, &call_), candidate);
        end_by_alarm_after(0);
        accept(draw_.judge_first(), out);
        accept(draw_.judge_timed(incumbent_.has_value()), out);
        out.check_s = now() - start;
        start = now();
        {
            bool is_cpu = setup_.target.backend != Backend::Cuda;
            std::optional<Freeze> quiet;
            if (is_cpu && builds_root_ > 0) {
                quiet.emplace(builds_root_, getppid()); // kiln-measure and what is below it run on
            }
            time(candidate, incumbent_, out);
        }
        out.time_s = now() - start;
        // What lies in the outputs now was written by timed calls: the process above looks at it.
        bring_back(candidate);
        draw_.ours().release(candidate, &call_);
        if (incumbent_) {
            draw_.theirs().release(*incumbent_, &call_);
        }
        out.status = Status::Ok;
    }

    static void accept(const Verdict &verdict, Outcome &out) {
        if (verdict.bound > 0 && verdict.error * out.bound >= out.error * verdict.bound) {
            out.error = verdict.error;
            out.bound = verdict.bound;
        }
        out.checked += verdict.checked;
        if (verdict.fault) {
            out.diagnostics = {*verdict.fault};
            throw Fault{Status::Wrong, verdict.fault->message};
        }
    }

    void must(int status, const LoadedLibrary &library) {
        if (status == KILN_OK) {
            return;
        }
        throw Fault{status == KILN_OUT_OF_MEMORY ? Status::OutOfMemory : Status::DeviceFault,
                    fmt::format("a call returned {}: {}", status, library.last_message())};
    }

    Work work_of(const LoadedLibrary &library, kiln::Problem &problem) {
        auto arguments = std::make_shared<std::vector<void *>>(problem.arguments_for(library));
        Work work;
        work.queue = [this, &library, arguments] { must(library.call(&call_, arguments->data()), library); };
        if (setup_.target.backend != Backend::Cpu) {
            halide_buffer_t *out = output_of(problem);
            work.wait = [this, &library, out] { must(library.device_sync(&call_, out), library); };
        }
        return work;
    }

    static halide_buffer_t *output_of(kiln::Problem &problem) {
        for (int i = 0; i < problem.count(); i++) {
            if (problem.argument(i).kind == KernelArgument::Kind::Output) {
                return problem.buffer(i);
            }
        }
        return problem.buffer(0);
    }

    void time(const LoadedLibrary &candidate, const std::optional<LoadedLibrary> &incumbent, Outcome &out) {
        Work ours = work_of(candidate, draw_.ours());
        Work theirs = incumbent ? work_of(*incumbent, draw_.theirs()) : Work{};
        RaceOptions options;
        options.seconds = setup_.limits.time_s;
        options.seed = job_.seed;
        options.surprise = [this] { poison(); };
        end_by_alarm_after(30 * call_s_ + 10 * options.seconds);
        Race sustained = race(ours, theirs, options);
        out.times = sustained.times;
        out.flags = sustained.flags;
        if (setup_.cool && !out.times.stopped) {
            options.idle_s = 25e-3;
            options.min_rounds = 5;
            options.max_rounds = 7;
            Race cool = race(ours, theirs, options);
            out.cool = cool.times;
        }
        end_by_alarm_after(0);
    }

    void poison() {
        draw_.ours().poison_outputs();
        for (int i = 0; i < draw_.ours().count(); i++) {
            if (draw_.ours().argument(i).kind == KernelArgument::Kind::Output) {
                halide_buffer_t *b = draw_.ours().buffer(i);
                b->set_host_dirty(true);
                b->set_device_dirty(false);
            }
        }
    }

    void bring_back(const LoadedLibrary &candidate) {
        for (int i = 0; i < draw_.ours().count(); i++) {
            halide_buffer_t *b = draw_.ours().buffer(i);
            if (draw_.ours().argument(i).kind == KernelArgument::Kind::Output && b->device_dirty()) {
                must(candidate.copy_to_host(&call_, b), candidate);
            }
        }
    }
};

} // namespace

TrialRunner::TrialRunner(const MeasureSetup &setup, pid_t builds_root)
    : setup_(setup), draw_(setup_), builds_root_(builds_root) {}

nlohmann::json TrialRunner::run_child(const BuiltJob &job, double call_s) {
    ProcessLimits limits;
    limits.timeout_s = 40 * call_s + setup_.limits.call_s + 20 * setup_.limits.time_s + 20;
    if (setup_.target.backend == Backend::Cpu) {
        // CUDA and OpenCL drivers reserve address space that they never use.
        limits.memory_bytes = address_space() + setup_.limits.run_bytes;
    }
    pid_t root = builds_root_;
    return run_isolated(fmt::format("the kernel of trial {}", job.number), limits,
                        [&] { return TrialChild::run(setup_, draw_, job, call_s, root); });
}

void TrialRunner::judge_after(bool has_incumbent, Outcome &outcome) {
    Verdict verdict = draw_.judge_timed(has_incumbent);
    outcome.checked += verdict.checked;
    if (verdict.fault) {
        outcome.status = Status::Wrong;
        outcome.diagnostics = {*verdict.fault};
        outcome.message = "right at first, wrong in a timed call: " + verdict.fault->message;
    }
}

Outcome TrialRunner::run(const BuiltJob &job) {
    Outcome out;
    double call_s = setup_.limits.call_s;
    if (auto known = known_s_.find(job.incumbent); known != known_s_.end()) {
        call_s = std::min(call_s, std::max(2.0, 20 * known->second));
    }
    try {
        uint64_t seed = draw_.fill(job.seed);
        out = outcome_from_json(run_child(job, call_s));
        out.seed = seed;
    } catch (const Error &e) {
        thaw_all(builds_root_); // it may have died while it held them
        const Diagnostic &d = e.diagnostics.at(0);
        bool alarm = d.message.find(strsignal(SIGALRM)) != std::string::npos;
        out.status = alarm || d.code == "K0941" ? Status::TooLong
                     : d.code == "K0942"        ? Status::OutOfMemory
                     : d.code == "K0940"        ? Status::Crashed
                                                : Status::DeviceFault;
        out.message = alarm ? fmt::format("the kernel did not end in {:.3g} s", call_s) : d.message;
        out.diagnostics = e.diagnostics;
    }
    out.number = job.number;
    if (out.ok()) {
        judge_after(!job.incumbent.empty(), out);
    }
    if (out.ok() && setup_.floor_ms > 0 && out.times.ms < setup_.floor_ms / 1.25) {
        out.status = Status::Incredible;
        out.message =
            fmt::format("{:.4g} ms is less than the {:.4g} ms that the device's measured ceilings allow",
                        out.times.ms, setup_.floor_ms);
    }
    if (out.ok()) {
        known_s_[job.object] = out.times.ms / 1e3;
    }
    return out;
}

} // namespace kiln::search
