#include "dsl/support/Process.h"

#include "dsl/support/Interrupt.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <csignal>
#include <cstring>
#include <new>
#include <optional>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace kiln {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int status_out_of_memory = 97;
constexpr size_t most_output = size_t(1) << 20;

struct Pipe {
    int read_end = -1, write_end = -1;
    Pipe() {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC) == 0) {
            read_end = ends[0];
            write_end = ends[1];
        }
    }
    ~Pipe() {
        close_end(read_end);
        close_end(write_end);
    }
    Pipe(const Pipe &) = delete;
    static void close_end(int &end) {
        if (end >= 0) {
            close(end);
            end = -1;
        }
    }
};

/// In the child, before anything else.
void enter_child(pid_t parent, const ProcessLimits &limits) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(1);
    }
    reset_interrupts_in_child();
    rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    if (limits.memory_bytes > 0) {
        rlimit memory = {limits.memory_bytes, limits.memory_bytes};
        setrlimit(RLIMIT_AS, &memory);
    }
}

/// One pipe that the parent drains, or fills from a text.
struct Stream {
    int *fd;
    std::string *into;     ///< where it is read
    std::string_view from; ///< where it is written
    size_t limit = most_output;
};

/// Serves the streams until the child ends and they are closed, or until its time is over. Then reaps it.
ProcessResult attend(pid_t pid, std::vector<Stream> streams, const ProcessLimits &limits) {
    ProcessResult result;
    auto start = Clock::now();
    auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
    bool timed_out = false;
    std::optional<int> status;
    double ended_at = 0;
    std::vector<char> block(1 << 16);
    for (;;) {
        std::vector<pollfd> polled;
        std::vector<Stream *> who;
        for (Stream &stream : streams) {
            if (*stream.fd >= 0) {
                polled.push_back({*stream.fd, static_cast<short>(stream.into ? POLLIN : POLLOUT), 0});
                who.push_back(&stream);
            }
        }
        // A grandchild may hold a pipe open after the child's end: wait for it no longer than a moment.
        if (status && (polled.empty() || elapsed() - ended_at > 0.2)) {
            break;
        }
        poll(polled.data(), polled.size(), status ? 20 : polled.empty() ? 2 : 20);
        for (size_t i = 0; i < polled.size(); i++) {
            Stream &stream = *who[i];
            if (polled[i].revents == 0) {
                continue;
            }
            ssize_t n = stream.into ? read(*stream.fd, block.data(), block.size())
                                    : write(*stream.fd, stream.from.data(), stream.from.size());
            if (n < 0 && (errno == EINTR || errno == EAGAIN)) {
                continue;
            }
            if (n <= 0) {
                Pipe::close_end(*stream.fd);
            } else if (stream.into) {
                stream.into->append(block.data(), n);
                if (stream.into->size() > 2 * stream.limit) {
                    stream.into->erase(0, stream.into->size() - stream.limit);
                }
            } else {
                stream.from.remove_prefix(n);
                if (stream.from.empty()) {
                    Pipe::close_end(*stream.fd);
                }
            }
        }
        int now = 0;
        if (!status && waitpid(pid, &now, WNOHANG) == pid) {
            status = now;
            ended_at = elapsed();
        }
        if (!status && !timed_out && limits.timeout_s > 0 && elapsed() > limits.timeout_s) {
            timed_out = true;
            kill(-pid, SIGKILL);
            kill(pid, SIGKILL);
        }
    }
    kill(-pid, SIGKILL); // what it left behind
    result.seconds = ended_at;
    if (timed_out) {
        result.end = ProcessResult::End::TimedOut;
        result.code = SIGKILL;
    } else if (WIFSIGNALED(*status)) {
        result.end = ProcessResult::End::Signalled;
        result.code = WTERMSIG(*status);
    } else {
        result.end = ProcessResult::End::Exited;
        result.code = WEXITSTATUS(*status);
    }
    return result;
}

void trim(std::string &text) {
    if (text.size() > most_output) {
        text.erase(0, text.size() - most_output);
    }
}

/// The last few lines that are worth showing.
std::vector<std::string> last_lines(const std::string &text, size_t most) {
    std::vector<std::string> lines;
    for (size_t end = text.size(); end > 0 && lines.size() < most;) {
        size_t start = text.rfind('\n', end - 1);
        start = start == std::string::npos ? 0 : start + 1;
        std::string line = text.substr(start, end - start);
        while (!line.empty() && (line.back() == '\n' || line.back() == ' ')) {
            line.pop_back();
        }
        if (!line.empty()) {
            lines.insert(lines.begin(), line.substr(0, 400));
        }
        end = start == 0 ? 0 : start - 1;
    }
    return lines;
}

std::string write_all_json(const std::function<nlohmann::json()> &work, int &exit_status) {
    nlohmann::json document;
    exit_status = 0;
    try {
        document["value"] = work();
    } catch (const Error &error) {
        document["diagnostics"] = nlohmann::json::array();
        for (const Diagnostic &d : error.diagnostics) {
            document["diagnostics"].push_back(to_json(d));
        }
    } catch (const std::bad_alloc &) {
        exit_status = status_out_of_memory;
    } catch (const std::exception &error) {
        std::string text = error.what();
        text.erase(text.find_last_not_of('\n') + 1); // Halide ends its messages with one
        document["exception"] = text;
    } catch (...) {
        document["exception"] = "an exception of unknown type";
    }
    return document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

} // namespace

ProcessResult run_process(const ProcessRequest &request) {
    Pipe in, out, err, started;
    std::vector<char *> argv;
    for (const std::string &arg : request.argv) {
        argv.push_back(const_cast<char *>(arg.c_str()));
    }
    argv.push_back(nullptr);
    // Built before the fork: only async-signal-safe calls may follow it.
    std::map<std::string, std::string> variables;
    for (char **entry = environ; *entry; entry++) {
        std::string_view text = *entry;
        size_t equals = text.find('=');
        variables.emplace(text.substr(0, equals), equals == text.npos ? "" : text.substr(equals + 1));
    }
    for (const auto &[name, value] : request.environment) {
        variables[name] = value;
    }
    std::vector<std::string> lines;
    for (const auto &[name, value] : variables) {
        lines.push_back(name + "=" + value);
    }
    std::vector<char *> environment;
    for (std::string &line : lines) {
        environment.push_back(line.data());
    }
    environment.push_back(nullptr);

    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0) {
        enter_child(parent, request.limits);
        dup2(in.read_end, 0);
        if (request.capture_out) {
            dup2(out.write_end, 1);
        }
        if (request.capture_err) {
            dup2(err.write_end, 2);
        }
        signal(SIGPIPE, SIG_DFL);
        if (request.cwd.empty() || chdir(request.cwd.c_str()) == 0) {
            execvpe(argv[0], argv.data(), environment.data());
        }
        int number = errno;
        [[maybe_unused]] ssize_t n = write(started.write_end, &number, sizeof number);
        _exit(127);
    }
    ProcessResult result;
    if (pid < 0) {
        result.code = errno;
        return result;
    }
    setpgid(pid, pid);
    register_child(pid);
    for (Pipe *pipe : {&out, &err, &started}) {
        Pipe::close_end(pipe->write_end);
    }
    Pipe::close_end(in.read_end);
    fcntl(in.write_end, F_SETFL, O_NONBLOCK);
    if (request.input.empty()) {
        Pipe::close_end(in.write_end);
    }
    auto *previous = signal(SIGPIPE, SIG_IGN);
    std::string failure;
    std::string captured_out, captured_err;
    result = attend(pid,
                    {{&in.write_end, nullptr, request.input},
                     {&out.read_end, &captured_out, {}},
                     {&err.read_end, &captured_err, {}},
                     {&started.read_end, &failure, {}}},
                    request.limits);
    signal(SIGPIPE, previous);
    forget_child(pid);
    if (failure.size() == sizeof(int)) {
        result.end = ProcessResult::End::NotStarted;
        memcpy(&result.code, failure.data(), sizeof(int));
    }
    trim(captured_out);
    trim(captured_err);
    result.out = std::move(captured_out);
    result.err = std::move(captured_err);
    return result;
}

nlohmann::json run_isolated(const std::string &what, const ProcessLimits &limits,
                            const std::function<nlohmann::json()> &work) {
    Pipe answer, err;
    pid_t parent = getpid();
    fflush(nullptr);
    pid_t pid = fork();
    if (pid == 0) {
        enter_child(parent, limits);
        int nothing = open("/dev/null", O_RDWR);
        dup2(nothing, 0);
        dup2(nothing, 1);
        dup2(err.write_end, 2);
        int status = 0;
        std::string text = write_all_json(work, status);
        for (size_t done = 0; done < text.size();) {
            ssize_t n = write(answer.write_end, text.data() + done, text.size() - done);
            if (n < 0 && errno != EINTR) {
                _exit(1);
            }
            done += n > 0 ? n : 0;
        }
        _exit(status); // no destructors: they are the parent's
    }
    if (pid < 0) {
        Diagnostic d;
        d.code = "K0940";
        d.message =
            fmt::format("cannot start a child for {}: {}", what, std::system_category().message(errno));
        throw Error(std::move(d));
    }
    setpgid(pid, pid);
    register_child(pid);
    Pipe::close_end(answer.write_end);
    Pipe::close_end(err.write_end);
    std::string text, error_output;
    ProcessResult result = attend(
        pid, {{&answer.read_end, &text, {}, size_t(1) << 30}, {&err.read_end, &error_output, {}}}, limits);
    forget_child(pid);
    result.err = std::move(error_output);
    nlohmann::json document = nlohmann::json::parse(text, nullptr, false);
    if (!result.ok() || document.is_discarded() || !document.is_object()) {
        throw Error(diagnose(result, what, limits));
    }
    if (document.contains("diagnostics")) {
        std::vector<Diagnostic> diagnostics;
        for (const auto &one : document["diagnostics"]) {
            diagnostics.push_back(diagnostic_from_json(one));
        }
        throw Error(std::move(diagnostics));
    }
    if (document.contains("exception")) {
        Diagnostic d;
        d.code = "K0943";
        d.message = fmt::format("{} threw an exception: {}", what, document["exception"].get<std::string>());
        throw Error(std::move(d));
    }
    return std::move(document["value"]);
}

Diagnostic diagnose(const ProcessResult &result, const std::string &what, const ProcessLimits &limits) {
    Diagnostic d;
    bool memory_said = result.err.find("bad_alloc") != std::string::npos ||
                       result.err.find("out of memory") != std::string::npos;
    switch (result.end) {
    case ProcessResult::End::NotStarted:
        d.code = "K0940";
        d.message = fmt::format("{} did not start: {}", what, std::system_category().message(result.code));
        return d;
    case ProcessResult::End::TimedOut:
        d.code = "K0941";
        d.message = fmt::format("{} took longer than its {} s and was stopped", what, limits.timeout_s);
        break;
    case ProcessResult::End::Exited:
    case ProcessResult::End::Signalled:
        if ((result.end == ProcessResult::End::Exited && result.code == status_out_of_memory) ||
            memory_said) {
            d.code = "K0942";
            d.message = limits.memory_bytes > 0 ? fmt::format("{} needed more than its {} MiB of memory",
                                                              what, limits.memory_bytes >> 20)
                                                : fmt::format("{} ran out of memory", what);
        } else if (result.end == ProcessResult::End::Signalled) {
            d.code = "K0940";
            d.message = fmt::format("{} crashed: {}", what, strsignal(result.code));
        } else {
            d.code = "K0940";
            d.message = fmt::format("{} ended the process with status {}", what, result.code);
        }
        break;
    }
    d.notes = last_lines(result.err, 6);
    return d;
}

} // namespace kiln
