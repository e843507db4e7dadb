#include "dsl/search/collect/TimeCandidates.h"

#include "dsl/check/Problem.h"
#include "dsl/generator/Create.h"
#include "dsl/schedule/apply/Apply.h"
#include "dsl/support/Interrupt.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <ctime>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace kiln::search {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

/// The target without what only shipped libraries want.
Halide::Target jit_target(const Target &target) {
    std::string text = target.halide();
    for (const char *unwanted : {"-no_runtime", "-user_context", "-large_buffers"}) {
        if (size_t at = text.find(unwanted); at != std::string::npos) {
            text.erase(at, std::string(unwanted).size());
        }
    }
    return Halide::Target(text);
}

/// One call, returning when its work is done.
using Call = std::function<void()>;

/// In the child: the pipeline compiled, with inputs in place.
struct Compiled {
    std::unique_ptr<Halide::Internal::AbstractGenerator> generator;
    std::unique_ptr<kiln::Problem> memory;
    Halide::Pipeline pipeline;
    std::vector<Halide::Buffer<>> outputs;
    Halide::Target target;

    Compiled(const TimeSetup &setup, const Schedule &canonical) : target(jit_target(setup.target)) {
        generator = create_generator(setup.generator, setup.params, target);
        pipeline = generator->build_pipeline();
        FuncMap funcs = funcs_of(pipeline.outputs());
        apply_schedule(canonical, funcs, setup.target);
        pipeline.compile_jit(target);
        kiln::Algorithm algorithm(setup.generator, setup.params, target);
        memory = std::make_unique<kiln::Problem>(algorithm.arguments, setup.workload);
        memory->fill(Fill::Random, 1);
        memory->touch_host();
        bind();
    }

    void run() {
        pipeline.realize(Halide::Realization(outputs), target);
        if (target.has_gpu_feature()) {
            for (Halide::Buffer<> &b : outputs) {
                b.device_sync();
            }
        }
    }

private:
    void bind() {
        using namespace Halide::Internal;
        std::map<std::string, std::vector<int>> by_name;
        for (int i = 0; i < memory->count(); i++) {
            const KernelArgument &a = memory->argument(i);
            if (a.kind == KernelArgument::Kind::Output) {
                outputs.emplace_back(*memory->buffer(i));
            } else {
                by_name[a.name].push_back(i);
            }
        }
        for (const AbstractGenerator::ArgInfo &info : generator->arginfos()) {
            if (info.dir != ArgInfoDirection::Input) {
                continue;
            }
            for (Halide::Parameter &p : generator->input_parameter(info.name)) {
                auto it = by_name.find(p.name());
                if (it == by_name.end()) {
                    it = by_name.find(info.name);
                }
                int i = it->second.front();
                if (p.is_buffer()) {
                    p.set_buffer(Halide::Buffer<>(*memory->buffer(i)));
                } else {
                    p.set_scalar(p.type(), scalar(p.type(), memory->scalar(i)));
                }
            }
        }
    }

    static halide_scalar_value_t scalar(const Halide::Type &type, double value) {
        halide_scalar_value_t v{};
        if (type == Halide::Float(32)) {
            v.u.f32 = static_cast<float>(value);
        } else if (type == Halide::Float(64)) {
            v.u.f64 = value;
        } else {
            v.u.i64 = static_cast<int64_t>(value);
        }
        return v;
    }
};

/// Of one thread the time that it was running, which others on a busy machine do not add to; else the clock on the wall.
double seconds(bool one_thread) {
    timespec t{};
    clock_gettime(one_thread ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// One round: a call that warms the caches up, then the fastest of a few samples of at least half a millisecond.
double time_of(const Call &call, bool one_thread) {
    constexpr double sample_s = 5e-4, round_s = 15e-3;
    call();
    double start = seconds(one_thread);
    call();
    double once = std::max((seconds(one_thread) - start), 1e-7);
    int repeats = std::max(1, static_cast<int>(std::ceil(sample_s / once)));
    int samples = std::clamp(static_cast<int>(round_s / (once * repeats)), 0, 20);
    double best = once;
    for (int s = 0; s < samples; s++) {
        start = seconds(one_thread);
        for (int i = 0; i < repeats; i++) {
            call();
        }
        best = std::min(best, (seconds(one_thread) - start) / repeats);
    }
    return best * 1e3;
}

struct Child {
    size_t index = 0;
    pid_t pid = -1;
    int from = -1, to = -1;
    Clock::time_point started;
    std::vector<double> ms; ///< a round each
};

/// Never returns.
[[noreturn]] void child_main(const TimeSetup &setup, const Schedule &canonical, int in, int out) {
    reset_interrupts_in_child();
    int nowhere = open("/dev/null", O_RDWR);
    dup2(nowhere, 1);
    dup2(nowhere, 2);
    if (setup.target.backend == Backend::Cpu) { // drivers of GPUs reserve address space as they like
        rlimit limit{setup.bytes, setup.bytes};
        setrlimit(RLIMIT_AS, &limit);
    }
    setenv("HL_NUM_THREADS", std::to_string(std::max(1, setup.threads)).c_str(), 1);
    try {
        Compiled compiled(setup, canonical);
        char byte = 'r';
        bool one_thread = setup.target.backend == Backend::Cpu && setup.threads == 1;
        bool alive = write(out, &byte, 1) == 1;
        // A round for each byte that comes, until the parent has enough and kills.
        while (alive && read(in, &byte, 1) == 1) {
            double ms = time_of([&] { compiled.run(); }, one_thread);
            alive = write(out, &ms, sizeof ms) == sizeof ms;
        }
    } catch (const Halide::Error &) {
    } catch (const std::exception &) {
    }
    _exit(1);
}

Child start(const TimeSetup &setup, const Schedule &canonical, size_t index) {
    int down[2], up[2];
    Child c;
    c.index = index;
    c.started = Clock::now();
    if (pipe2(down, O_CLOEXEC) != 0) {
        return c;
    }
    if (pipe2(up, O_CLOEXEC) != 0) {
        close(down[0]);
        close(down[1]);
        return c;
    }
    c.pid = fork();
    if (c.pid == 0) {
        setpgid(0, 0);
        close(down[1]);
        close(up[0]);
        child_main(setup, canonical, down[0], up[1]);
    }
    close(down[0]);
    close(up[1]);
    c.to = down[1];
    c.from = up[0];
    if (c.pid > 0) {
        setpgid(c.pid, c.pid);
        register_child(c.pid);
    }
    return c;
}

void finish(Child &c) {
    if (c.pid > 0) {
        kill(-c.pid, SIGKILL);
        kill(c.pid, SIGKILL);
        waitpid(c.pid, nullptr, 0);
        forget_child(c.pid);
    }
    for (int *fd : {&c.to, &c.from}) {
        if (*fd >= 0) {
            close(*fd);
            *fd = -1;
        }
    }
    c.pid = -1;
}

/// Waits until all have compiled or failed, `jobs` of them at once.
std::vector<Child> compile_all(const TimeSetup &setup, const std::vector<Schedule> &canonical, size_t begin,
                               size_t end) {
    std::vector<Child> running, ready;
    size_t next = begin;
    while (next < end || !running.empty()) {
        while (next < end && running.size() < static_cast<size_t>(std::max(1, setup.jobs))) {
            running.push_back(start(setup, canonical[next], next));
            next++;
        }
        std::vector<pollfd> fds;
        for (const Child &c : running) {
            fds.push_back({c.from, POLLIN, 0});
        }
        poll(fds.data(), fds.size(), 50);
        for (size_t i = running.size(); i-- > 0;) {
            Child &c = running[i];
            char byte = 0;
            bool spoke = fds[i].revents != 0;
            if (spoke && read(c.from, &byte, 1) == 1) {
                ready.push_back(c);
            } else if (spoke || c.pid < 0 || seconds_since(c.started) > setup.compile_s) {
                finish(c);
            } else {
                continue;
            }
            running.erase(running.begin() + static_cast<long>(i));
        }
    }
    std::sort(ready.begin(), ready.end(), [](const Child &a, const Child &b) { return a.index < b.index; });
    return ready;
}

/// Another round of this child. False where it crashed or took too long.
bool time_round(const TimeSetup &setup, Child &c) {
    char byte = 'g';
    double ms = 0;
    if (write(c.to, &byte, 1) != 1) {
        return false;
    }
    pollfd fd{c.from, POLLIN, 0};
    if (poll(&fd, 1, static_cast<int>(2e3 * setup.run_s + 500)) != 1 ||
        read(c.from, &ms, sizeof ms) != sizeof ms || !(ms > 0) || !std::isfinite(ms)) {
        return false;
    }
    c.ms.push_back(ms);
    return true;
}

/// Nothing yet where the fastest rounds do not agree. What disturbs a machine only ever adds time: so it is the fastest
/// round that counts, once another one confirms it.
std::optional<double> settled(const Child &c, size_t least, double agreement) {
    if (c.ms.size() < least) {
        return std::nullopt;
    }
    std::vector<double> sorted = c.ms;
    std::sort(sorted.begin(), sorted.end());
    return sorted[1] <= agreement * sorted[0] ? std::optional(sorted[0]) : std::nullopt;
}

/// Rounds over all of them in turn, so that whatever disturbs the machine for a while disturbs all alike.
void time_all(const TimeSetup &setup, std::vector<Child> ready, std::vector<Timed> &out) {
    constexpr size_t least = 3, most = 8;
    constexpr double long_ms = 60;
    for (size_t round = 0; round < most && !ready.empty(); round++) {
        std::vector<Child> left;
        for (Child &c : ready) {
            bool ran = time_round(setup, c);
            // Two rounds of a long call are as long as many of a short one.
            std::optional<double> ms = settled(c, ran && c.ms[0] > long_ms ? 2 : least, 1.05);
            if (!ran) {
                out[c.index] = {0, "crashed, hung, or took too long"};
            } else if (ms) {
                out[c.index] = {*ms, ""};
            } else {
                left.push_back(std::move(c));
                continue;
            }
            finish(c);
        }
        ready = std::move(left);
    }
    for (Child &c : ready) {
        std::optional<double> ms = settled(c, least, 1.1);
        out[c.index] = ms ? Timed{*ms, ""} : Timed{0, "its rounds did not agree: the machine was busy"};
        finish(c);
    }
}

} // namespace

std::vector<Timed> time_candidates(const TimeSetup &setup, const std::vector<Schedule> &canonical,
                                   const std::function<void(size_t)> &progress) {
    std::vector<Timed> out(canonical.size(), {0, "did not compile, or not in time"});
    size_t chunk = static_cast<size_t>(std::max(1, setup.jobs)) * 6;
    for (size_t begin = 0; begin < canonical.size(); begin += chunk) {
        size_t end = std::min(begin + chunk, canonical.size());
        time_all(setup, compile_all(setup, canonical, begin, end), out);
        if (progress) {
            progress(end);
        }
    }
    return out;
}

} // namespace kiln::search
