/** \file
 * Stops builds while a CPU kernel is timed: on a machine with few cores they would be what is measured.
 */
#pragma once

#include <sys/types.h>

#include <vector>

namespace kiln::search {

/// While it lives, all descendants of process `root` are stopped but those of `except` (itself included). They are found
/// in /proc; what starts meanwhile runs on.
class Freeze {
public:
    Freeze(pid_t root, pid_t except);
    ~Freeze();
    Freeze(const Freeze &) = delete;
    Freeze &operator=(const Freeze &) = delete;
    const std::vector<pid_t> &frozen() const { return frozen_; }

private:
    std::vector<pid_t> frozen_;
};

/// Lets everything below `root` run: after whoever froze it has died.
void thaw_all(pid_t root);

} // namespace kiln::search
