#include "dsl/support/Progress.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include <pthread.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace kiln {

using Clock = std::chrono::steady_clock;

struct ActivityState {
    std::string what, detail;
    size_t total = 0, done = 0;
    Clock::time_point start = Clock::now();
    Clock::time_point last_line = start;
    bool shown = false;
};

namespace {

constexpr double first_after_s = 1.0;
constexpr double plain_every_s = 5.0;

// Not through stdio: its lock may be held by whoever printed when we forked.
void put(const std::string &text) {
    [[maybe_unused]] ssize_t n = write(2, text.data(), text.size());
}

double since(Clock::time_point time) {
    return std::chrono::duration<double>(Clock::now() - time).count();
}

std::string duration(double seconds) {
    if (seconds < 100) {
        return fmt::format("{:.0f} s", seconds);
    }
    double minutes = std::floor(seconds / 60);
    return fmt::format("{:.0f} min {:.0f} s", minutes, seconds - 60 * minutes);
}

size_t terminal_width() {
    winsize size = {};
    return ioctl(2, TIOCGWINSZ, &size) == 0 && size.ws_col > 10 ? size.ws_col : 80;
}

std::string describe(const ActivityState &state) {
    double age = since(state.start);
    std::string text = state.what;
    if (state.total > 0) {
        text += fmt::format(": {} of {}", state.done, state.total);
    }
    if (!state.detail.empty()) {
        text += (state.total > 0 ? ", " : ": ") + state.detail;
    }
    text += fmt::format(", {} so far", duration(age));
    if (state.done > 0 && state.total > state.done) {
        text += fmt::format(", about {} still", duration(age / state.done * (state.total - state.done)));
    }
    return text;
}

/// One thread shows the innermost piece of work of the program.
class Display {
public:
    /// Never destroyed, so that the thread can outlive main().
    static Display &instance() {
        static auto *display = new Display;
        return *display;
    }

    Display() {
        // A fork must not copy the lock while another thread holds it.
        pthread_atfork([] { instance().mutex_.lock(); }, [] { instance().mutex_.unlock(); },
                       [] { instance().mutex_.unlock(); });
    }

    void set_mode(ProgressMode mode) {
        std::lock_guard lock(mutex_);
        hide();
        mode_ = mode;
    }

    void push(std::shared_ptr<ActivityState> state) {
        std::lock_guard lock(mutex_);
        stack_.push_back(std::move(state));
        if (mode_ != ProgressMode::Off && !running_) {
            running_ = true;
            std::thread([this] { run(); }).detach();
        }
        changed_.notify_all();
    }

    void pop(const std::shared_ptr<ActivityState> &state) {
        std::lock_guard lock(mutex_);
        hide();
        if (state->shown && mode_ == ProgressMode::Plain) {
            put(fmt::format("kiln: {}: done after {}\n", state->what, duration(since(state->start))));
        }
        std::erase(stack_, state);
    }

    void update(ActivityState &state, size_t done, std::string detail) {
        std::lock_guard lock(mutex_);
        state.done = done;
        state.detail = std::move(detail);
    }

    void hide_now() {
        std::lock_guard lock(mutex_);
        hide();
    }

private:
    void hide() {
        if (on_screen_) {
            put("\r\033[K");
            on_screen_ = false;
        }
    }

    bool due(const ActivityState &state) const {
        return mode_ != ProgressMode::Off && since(state.start) >= first_after_s &&
               (mode_ == ProgressMode::Terminal || !state.shown || since(state.last_line) >= plain_every_s);
    }

    void run() {
        std::unique_lock lock(mutex_);
        for (;;) {
            if (stack_.empty()) {
                changed_.wait(lock);
                continue;
            }
            ActivityState &state = *stack_.back();
            if (due(state)) {
                state.shown = true;
                state.last_line = Clock::now();
                if (mode_ == ProgressMode::Terminal) {
                    put("\r\033[K" + describe(state).substr(0, terminal_width() - 1));
                    on_screen_ = true;
                } else {
                    put("kiln: " + describe(state) + "\n");
                }
            }
            changed_.wait_for(lock, std::chrono::milliseconds(100));
        }
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<std::shared_ptr<ActivityState>> stack_;
    ProgressMode mode_ = ProgressMode::Off;
    bool running_ = false, on_screen_ = false;
};

} // namespace

void set_progress_mode(ProgressMode mode) {
    Display::instance().set_mode(mode);
}

void hide_progress() {
    Display::instance().hide_now();
}

Activity::Activity(std::string what, size_t total) : state_(std::make_shared<ActivityState>()) {
    state_->what = std::move(what);
    state_->total = total;
    Display::instance().push(state_);
}

Activity::~Activity() {
    Display::instance().pop(state_);
}

void Activity::at(size_t done, std::string detail) {
    Display::instance().update(*state_, done, std::move(detail));
}

} // namespace kiln
