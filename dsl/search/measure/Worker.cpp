#include "dsl/search/measure/Worker.h"

#include "dsl/lower/Tools.h"
#include "dsl/search/measure/Freeze.h"
#include "dsl/support/Interrupt.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace kiln::search {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void cannot_start(const fs::path &program, const std::string &why) {
    Diagnostic d;
    d.code = "K1320";
    d.message = fmt::format("cannot start `{}`: {}", program.string(), why);
    d.helps = {"it lies beside `kiln-build`: install Kiln whole, or let KILN_MEASURE_TOOL name it"};
    throw Error(std::move(d));
}

double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

} // namespace

void Worker::start() {
    if (pid_ > 0) {
        return;
    }
    const char *named = std::getenv("KILN_MEASURE_TOOL");
    fs::path program = named && *named ? fs::path(named) : kiln_root() / "bin" / "kiln-measure";
    if (!fs::exists(program)) {
        cannot_start(program, "it is not there");
    }
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) != 0) {
        cannot_start(program, strerror(errno));
    }
    if (pipe2(out, O_CLOEXEC) != 0) {
        close(in[0]);
        close(in[1]);
        cannot_start(program, strerror(errno));
    }
    std::string path = program.string();
    char *const argv[] = {path.data(), nullptr};
    pid_t parent = getpid();
    // Only async-signal-safe calls after it: other threads build.
    pid_t pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) {
            _exit(1);
        }
        reset_interrupts_in_child();
        dup2(in[0], 0);
        dup2(out[1], 1);
        signal(SIGPIPE, SIG_DFL);
        execv(path.c_str(), argv);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    if (pid < 0) {
        close(in[1]);
        close(out[0]);
        cannot_start(program, strerror(errno));
    }
    setpgid(pid, pid);
    register_child(pid);
    pid_ = pid;
    to_ = in[1];
    from_ = out[0];
    buffer_.clear();
    std::string answer;
    if (send(to_json(setup_).dump() + "\n")) {
        answer = receive(120);
    }
    nlohmann::json json = nlohmann::json::parse(answer, nullptr, false);
    if (!json.is_discarded() && json.contains("diagnostics")) {
        std::vector<Diagnostic> diagnostics;
        for (const nlohmann::json &d : json["diagnostics"]) {
            diagnostics.push_back(diagnostic_from_json(d));
        }
        stop();
        throw Error(std::move(diagnostics));
    }
    if (json.is_discarded() || !json.contains("ready")) {
        stop();
        cannot_start(program, "it ended before it was ready");
    }
}

bool Worker::send(const std::string &line) {
    for (size_t done = 0; done < line.size();) {
        ssize_t n = write(to_, line.data() + done, line.size() - done);
        if (n < 0 && errno != EINTR) {
            return false;
        }
        done += n > 0 ? static_cast<size_t>(n) : 0;
    }
    return true;
}

std::string Worker::receive(double seconds) {
    double end = now() + seconds;
    for (;;) {
        if (size_t at = buffer_.find('\n'); at != std::string::npos) {
            std::string line = buffer_.substr(0, at);
            buffer_.erase(0, at + 1);
            return line;
        }
        double left = end - now();
        pollfd polled = {from_, POLLIN, 0};
        if (left <= 0 || poll(&polled, 1, static_cast<int>(std::min(left, 1.0) * 1000) + 1) < 0) {
            if (left <= 0 || errno != EINTR) {
                return "";
            }
            continue;
        }
        if (polled.revents == 0) {
            continue;
        }
        char block[1 << 16];
        ssize_t n = read(from_, block, sizeof block);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return "";
        }
        buffer_.append(block, static_cast<size_t>(n));
    }
}

Outcome Worker::run(const BuiltJob &job) {
    Outcome out;
    out.number = job.number;
    try {
        start();
    } catch (const Error &e) {
        out.diagnostics = e.diagnostics;
        out.message = e.diagnostics.at(0).message;
        return out;
    }
    nlohmann::json message = {{"number", job.number},
                              {"object", job.object.string()},
                              {"incumbent", job.incumbent.string()},
                              {"seed", job.seed}};
    std::string answer;
    // It has limits of its own, and ends its children by them; this is for when it hangs itself.
    if (send(message.dump() + "\n")) {
        answer = receive(60 + 60 * setup_.limits.call_s + 20 * setup_.limits.time_s);
    }
    nlohmann::json json = nlohmann::json::parse(answer, nullptr, false);
    if (json.is_discarded()) {
        stop();
        thaw_all(getpid());
        out.message = "the process that measures ended in the middle of the trial";
        return out;
    }
    return outcome_from_json(json);
}

void Worker::stop() {
    pid_t pid = pid_.exchange(0);
    if (pid <= 0) {
        return;
    }
    // Its children die with it (PR_SET_PDEATHSIG).
    kill(-pid, SIGKILL);
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    forget_child(pid);
    close(to_);
    close(from_);
    to_ = from_ = -1;
}

void Worker::interrupt() {
    if (pid_t pid = pid_; pid > 0) {
        kill(-pid, SIGKILL);
    }
}

} // namespace kiln::search
