#include "dsl/search/measure/Freeze.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

namespace kiln::search {

namespace {

namespace fs = std::filesystem;

/// Parents of all processes.
std::map<pid_t, pid_t> parents() {
    std::map<pid_t, pid_t> all;
    std::error_code error;
    for (fs::directory_iterator it("/proc", error), end; !error && it != end; it.increment(error)) {
        std::string name = it->path().filename().string();
        if (name.find_first_not_of("0123456789") != std::string::npos) {
            continue;
        }
        std::ifstream in(it->path() / "stat");
        std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
        // `pid (name) state ppid`: the name may hold blanks and brackets.
        size_t close = text.rfind(')');
        if (close == std::string::npos || close + 4 >= text.size()) {
            continue;
        }
        all[std::stoi(name)] = static_cast<pid_t>(std::strtol(text.c_str() + close + 4, nullptr, 10));
    }
    return all;
}

std::vector<pid_t> below(pid_t root, pid_t except) {
    std::map<pid_t, pid_t> parent = parents();
    std::vector<pid_t> found;
    for (const auto &[pid, unused] : parent) {
        pid_t at = pid;
        // Processes that end while they are listed may make the table inconsistent, but not endless.
        for (int step = 0; step < 64 && at > 1 && at != root && at != except; step++) {
            auto it = parent.find(at);
            at = it == parent.end() ? 0 : it->second;
        }
        if (at == root && pid != root) {
            found.push_back(pid);
        }
    }
    return found;
}

} // namespace

Freeze::Freeze(pid_t root, pid_t except) {
    // Twice: one of them may have started another in between.
    for (int look = 0; look < 2; look++) {
        for (pid_t pid : below(root, except)) {
            if (std::find(frozen_.begin(), frozen_.end(), pid) == frozen_.end() && kill(pid, SIGSTOP) == 0) {
                frozen_.push_back(pid);
            }
        }
    }
}

Freeze::~Freeze() {
    for (pid_t pid : frozen_) {
        kill(pid, SIGCONT);
    }
}

void thaw_all(pid_t root) {
    if (root <= 0) {
        return;
    }
    for (pid_t pid : below(root, 0)) {
        kill(pid, SIGCONT);
    }
}

} // namespace kiln::search
