/** \file
 * What a command found, and the one place that prints it: text for people, or one JSON document.
 */
#pragma once

#include "dsl/support/Diagnostic.h"

#include <nlohmann/json.hpp>

#include <map>
#include <string>
#include <vector>

namespace kiln::cli {

/// The exit codes of `kiln`; docs/cli.md describes them.
enum ExitCode {
    exit_ok = 0,
    exit_fault = 1,       ///< the user's input is at fault, or a check failed
    exit_usage = 2,       ///< the command line is at fault
    exit_internal = 3,    ///< Kiln is at fault, or a child crashed or ran over a limit
    exit_unavailable = 4, ///< this machine lacks the device or the tool
};

struct Report {
    std::string text; ///< for people, on stdout
    nlohmann::ordered_json data = nlohmann::ordered_json::object();
    std::vector<Diagnostic> diagnostics;
    /// The texts that the diagnostics' spans point into, by file name; others are read from disk.
    std::map<std::string, std::string> sources;
    int exit_code = exit_ok; ///< errors among the diagnostics raise it

    void add(const std::vector<Diagnostic> &more) {
        diagnostics.insert(diagnostics.end(), more.begin(), more.end());
    }
};

/// The exit code that these diagnostics ask for.
int exit_code_of(const std::vector<Diagnostic> &diagnostics);

/// The diagnostics as text, each with its source line.
std::string render_with_sources(const std::vector<Diagnostic> &diagnostics,
                                const std::map<std::string, std::string> &sources);

/// Prints and returns the program's exit code. JSON: {"command", "ok", "exit_code", the report's data,
/// "diagnostics"} on stdout and nothing else there. Text: the report on stdout, diagnostics on stderr.
int print_report(const std::string &command, const Report &report, bool json);

} // namespace kiln::cli
