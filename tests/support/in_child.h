/** \file
 * Work in a child process, for what may abort, crash or hang.
 */
#pragma once

#include <csignal>
#include <functional>
#include <string>

#include <sys/wait.h>
#include <unistd.h>

namespace kiln::test {

constexpr unsigned child_deadline_s = 60;

/// Runs `work` in a child of its own, where Halide's numbering starts afresh, and returns what it gives; "took too long"
/// where it has not ended after child_deadline_s, "died of signal N", or "died" where it ended in any other way.
inline std::string in_child(const std::function<std::string()> &work) {
    int ends[2];
    if (pipe(ends) != 0) {
        return "no pipe";
    }
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        alarm(child_deadline_s);
        std::string text = work();
        for (size_t at = 0; at < text.size();) {
            ssize_t written = write(ends[1], text.data() + at, text.size() - at);
            if (written <= 0) {
                _exit(1);
            }
            at += static_cast<size_t>(written);
        }
        _exit(0);
    }
    close(ends[1]);
    std::string text;
    char buffer[65536];
    for (ssize_t n = 0; (n = read(ends[0], buffer, sizeof buffer)) > 0;) {
        text.append(buffer, static_cast<size_t>(n));
    }
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status)) {
        return WTERMSIG(status) == SIGALRM ? "took too long"
                                           : "died of signal " + std::to_string(WTERMSIG(status));
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? text : "died";
}

} // namespace kiln::test
