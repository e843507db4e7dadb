/** \file
 * Work in a child of its own, with limits: a crash, a hang or a runaway there ends as a diagnostic here.
 */
#pragma once

#include "dsl/support/Diagnostic.h"

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace kiln {

struct ProcessLimits {
    double timeout_s = 0;    ///< wall clock; 0: none
    size_t memory_bytes = 0; ///< of address space; 0: none
};

struct ProcessResult {
    enum class End { Exited, Signalled, TimedOut, NotStarted };
    End end = End::NotStarted;
    int code = 0;         ///< exit status, number of the signal, or errno where it did not start
    std::string out, err; ///< the last 1 MiB of each, where they were captured
    double seconds = 0;
    bool ok() const { return end == End::Exited && code == 0; }
};

struct ProcessRequest {
    std::vector<std::string> argv; ///< argv[0] is looked up in PATH
    std::filesystem::path cwd;
    std::map<std::string, std::string> environment; ///< added to ours
    std::string input;                              ///< its standard input
    bool capture_out = true, capture_err = true;    ///< otherwise they are ours
    ProcessLimits limits;
};

/// Runs a program to its end. Its whole process group is killed at the time limit and when Kiln is
/// interrupted.
ProcessResult run_process(const ProcessRequest &request);

/// Runs `work` in a fork of this process and returns the JSON that it returned. What it prints goes nowhere,
/// unless it dies: then the last lines of stderr become notes. Throws Error with the diagnostics that `work`
/// threw, or K0940 (it died by a signal or left), K0941 (out of time), K0942 (out of memory), K0943 (an
/// exception that is no diagnostic). `what` completes "… crashed": "the generator `gemm`". Not for a process
/// with busy threads.
nlohmann::json run_isolated(const std::string &what, const ProcessLimits &limits,
                            const std::function<nlohmann::json()> &work);

/// The diagnostic for a child that did not end well, as run_isolated gives it.
Diagnostic diagnose(const ProcessResult &result, const std::string &what, const ProcessLimits &limits);

} // namespace kiln
