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

double time_of(const Call &call) {
    call();
    Clock::time_point start = Clock::now();
    call();
    double once = seconds_since(start);
    if (once > 0.3) {
        return once * 1e3;
    }
    int repeats = std::max(1, static_cast<int>(std::ceil(2e-3 / std::max(once, 1e-7))));
    std::vector<double> samples;
    for (int s = 0; s < 9; s++) {
        start = Clock::now();
        for (int i = 0; i < repeats; i++) {
            call();
        }
        samples.push_back(seconds_since(start) / repeats);
    }
    std::nth_element(samples.begin(), samples.begin() + 2, samples.end());
    return samples[2] * 1e3;
}

struct Child {
    size_t index = 0;
    pid_t pid = -1;
    int from = -1, to = -1;
    Clock::time_point started;
    bool ready = false;
};

/// Never returns.
[[noreturn]] void child_main(const TimeSetup &setup, const Schedule &canonical, int in, int out) {
    reset_interrupts_in_child();
    int nowhere = open("/dev/null", O_RDWR);
    dup2(nowhere, 1);
    dup2(nowhere, 2);
    rlimit limit{setup.bytes, setup.bytes};
    setrlimit(RLIMIT_AS, &limit);
    setenv("HL_NUM_THREADS", std::to_string(std::max(1, setup.threads)).c_str(), 1);
    try {
        Compiled compiled(setup, canonical);
        char byte = 'r';
        if (write(out, &byte, 1) != 1 || read(in, &byte, 1) != 1) {
            _exit(1);
        }
        double ms = time_of([&] { compiled.run(); });
        _exit(write(out, &ms, sizeof ms) == sizeof ms ? 0 : 1);
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

std::optional<double> time_one(const TimeSetup &setup, Child &c) {
    char byte = 'g';
    double ms = 0;
    std::optional<double> result;
    if (write(c.to, &byte, 1) == 1) {
        pollfd fd{c.from, POLLIN, 0};
        // Two calls, and nine samples that are short where the calls are.
        if (poll(&fd, 1, static_cast<int>(2e3 * setup.run_s + 1500)) == 1 &&
            read(c.from, &ms, sizeof ms) == sizeof ms && ms > 0 && std::isfinite(ms)) {
            result = ms;
        }
    }
    finish(c);
    return result;
}

} // namespace

std::vector<std::optional<double>> time_candidates(const TimeSetup &setup,
                                                   const std::vector<Schedule> &canonical,
                                                   const std::function<void(size_t)> &progress) {
    std::vector<std::optional<double>> out(canonical.size());
    size_t chunk = static_cast<size_t>(std::max(1, setup.jobs)) * 4;
    for (size_t begin = 0; begin < canonical.size(); begin += chunk) {
        size_t end = std::min(begin + chunk, canonical.size());
        for (Child &c : compile_all(setup, canonical, begin, end)) {
            out[c.index] = time_one(setup, c);
        }
        if (progress) {
            progress(end);
        }
    }
    return out;
}

} // namespace kiln::search
