/** \file
 * Ctrl-C: half-written files go, children end, and the exit code is 130. A program that wants this calls
 * handle_interrupts() once; the rest of Kiln only says what is in progress.
 */
#pragma once

#include <filesystem>
#include <functional>

#include <sys/types.h>

namespace kiln {

/// From now on SIGINT, SIGTERM and SIGHUP remove what was registered, kill the registered children with their
/// process groups, run `last_words` and end the program with 128 + the signal's number.
void handle_interrupts(std::function<void()> last_words);

/// A file or folder that must not outlive an interrupted program.
void register_unfinished(const std::filesystem::path &path);
void forget_unfinished(const std::filesystem::path &path);

/// A child that leads a process group of its own.
void register_child(pid_t pid);
void forget_child(pid_t pid);

/// To be called in a forked child first of all: it dies by signals as any program, and cleans up nothing.
void reset_interrupts_in_child();

} // namespace kiln
