/** \file
 * What a person sees on stderr while Kiln works for longer than a second: what, how far, how long still. On a
 * terminal one line that renews itself, otherwise a plain line every few seconds, nothing where it is off.
 */
#pragma once

#include <memory>
#include <string>

namespace kiln {

enum class ProgressMode { Off, Plain, Terminal };

/// Of the whole program; Off until this is called. The command line picks Terminal where stderr is one.
void set_progress_mode(ProgressMode mode);

struct ActivityState;

/// One piece of work, from construction to destruction. They nest: the innermost is shown.
class Activity {
public:
    /// `what` in the form "building gemm for cpu avx2". `total` steps, or 0 where the number is not known.
    explicit Activity(std::string what, size_t total = 0);
    ~Activity();
    Activity(const Activity &) = delete;
    Activity &operator=(const Activity &) = delete;

    /// `done` of the steps are over and `detail` comes next. From any thread, as often as one likes.
    void at(size_t done, std::string detail = "");

private:
    std::shared_ptr<ActivityState> state_;
};

/// Takes the renewed line off the terminal, so that other text can be printed. It comes back by itself.
void hide_progress();

} // namespace kiln
