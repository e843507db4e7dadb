#include "dsl/support/Interrupt.h"

#include <csignal>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

namespace kiln {

namespace {

struct InProgress {
    std::mutex mutex;
    std::set<std::filesystem::path> files;
    std::set<pid_t> children;
};

// Never destroyed: the thread that cleans up may outlive main().
InProgress &in_progress() {
    static auto *state = [] {
        auto *made = new InProgress;
        // A fork must not copy the lock while another thread holds it.
        pthread_atfork([] { in_progress().mutex.lock(); }, [] { in_progress().mutex.unlock(); },
                       [] { in_progress().mutex.unlock(); });
        return made;
    }();
    return *state;
}

int wake_pipe[2] = {-1, -1};
constexpr int signals[] = {SIGINT, SIGTERM, SIGHUP};

void on_signal(int number) {
    unsigned char byte = static_cast<unsigned char>(number);
    [[maybe_unused]] ssize_t n = write(wake_pipe[1], &byte, 1);
}

void clean_up_and_exit(int number, const std::function<void()> &last_words) {
    InProgress &state = in_progress();
    // Held to the end, so that no thread starts a file or a child behind our back.
    state.mutex.lock();
    for (pid_t pid : state.children) {
        kill(-pid, SIGKILL);
    }
    for (const auto &path : state.files) {
        std::error_code ignored;
        std::filesystem::remove_all(path, ignored);
    }
    if (last_words) {
        last_words();
    }
    _exit(128 + number);
}

} // namespace

void handle_interrupts(std::function<void()> last_words) {
    if (wake_pipe[0] >= 0 || pipe2(wake_pipe, O_CLOEXEC) != 0) {
        return;
    }
    in_progress();
    std::thread([last_words = std::move(last_words)] {
        unsigned char number = 0;
        while (read(wake_pipe[0], &number, 1) != 1) {
        }
        clean_up_and_exit(number, last_words);
    }).detach();
    for (int number : signals) {
        struct sigaction action = {};
        // A signal that the parent ignores (nohup) stays ignored.
        if (sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN) {
            continue;
        }
        action = {};
        action.sa_handler = on_signal;
        action.sa_flags = SA_RESTART;
        sigaction(number, &action, nullptr);
    }
}

void register_unfinished(const std::filesystem::path &path) {
    std::lock_guard lock(in_progress().mutex);
    in_progress().files.insert(path);
}

void forget_unfinished(const std::filesystem::path &path) {
    std::lock_guard lock(in_progress().mutex);
    in_progress().files.erase(path);
}

void register_child(pid_t pid) {
    std::lock_guard lock(in_progress().mutex);
    in_progress().children.insert(pid);
}

void forget_child(pid_t pid) {
    std::lock_guard lock(in_progress().mutex);
    in_progress().children.erase(pid);
}

void reset_interrupts_in_child() {
    for (int number : signals) {
        struct sigaction action = {};
        if (sigaction(number, nullptr, &action) == 0 && action.sa_handler == on_signal) {
            action = {};
            action.sa_handler = SIG_DFL;
            sigaction(number, &action, nullptr);
        }
    }
}

} // namespace kiln
