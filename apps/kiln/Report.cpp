#include "apps/kiln/Report.h"

#include "dsl/support/Files.h"
#include "dsl/support/Progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

namespace kiln::cli {

namespace {

std::string source_of(const std::string &file, const std::map<std::string, std::string> &sources) {
    if (auto it = sources.find(file); it != sources.end()) {
        return it->second;
    }
    if (file.empty()) {
        return "";
    }
    try {
        return read_text_file(file, "source");
    } catch (const Error &) {
        return ""; // the diagnostic still has its place, only the line is not shown
    }
}

void print(FILE *stream, const std::string &text) {
    hide_progress();
    fwrite(text.data(), 1, text.size(), stream);
    fflush(stream);
}

} // namespace

int exit_code_of(const std::vector<Diagnostic> &diagnostics) {
    int code = exit_ok;
    for (const Diagnostic &d : diagnostics) {
        if (d.severity != Severity::Error) {
            continue;
        }
        int wanted = exit_fault;
        if (d.code == "K0704" || d.code == "K0903") {
            wanted = exit_unavailable;
        } else if (d.code >= "K0701" && d.code <= "K0703") {
            wanted = exit_internal;
        } else if (d.code.rfind("K092", 0) == 0) {
            wanted = exit_usage;
        } else if (d.code.rfind("K094", 0) == 0) {
            wanted = exit_internal;
        }
        code = std::max(code, wanted);
    }
    return code;
}

std::string render_with_sources(const std::vector<Diagnostic> &diagnostics,
                                const std::map<std::string, std::string> &sources) {
    if (diagnostics.empty()) {
        return "";
    }
    // Grouped by file in the order of first appearance; in each, in the order of the source.
    std::vector<std::string> files;
    for (const Diagnostic &d : diagnostics) {
        if (std::find(files.begin(), files.end(), d.file) == files.end()) {
            files.push_back(d.file);
        }
    }
    std::string out;
    size_t errors = 0;
    for (const std::string &file : files) {
        std::string source = source_of(file, sources);
        std::vector<Diagnostic> here;
        std::copy_if(diagnostics.begin(), diagnostics.end(), std::back_inserter(here),
                     [&](const Diagnostic &d) { return d.file == file; });
        std::stable_sort(here.begin(), here.end(), [](const Diagnostic &a, const Diagnostic &b) {
            return std::pair(a.span.line, a.span.column) < std::pair(b.span.line, b.span.column);
        });
        for (const Diagnostic &d : here) {
            out += (out.empty() ? "" : "\n") + render(d, source);
            errors += d.severity == Severity::Error;
        }
    }
    if (diagnostics.size() > 1) {
        size_t warnings = diagnostics.size() - errors;
        out += fmt::format("\n{} error{}, {} warning{}\n", errors, errors == 1 ? "" : "s", warnings,
                           warnings == 1 ? "" : "s");
    }
    return out;
}

int print_report(const std::string &command, const Report &report, bool json) {
    int code = std::max(report.exit_code, exit_code_of(report.diagnostics));
    if (!json) {
        print(stdout, report.text);
        print(stderr, render_with_sources(report.diagnostics, report.sources));
        return code;
    }
    nlohmann::ordered_json document;
    document["command"] = command;
    document["ok"] = code == exit_ok;
    document["exit_code"] = code;
    for (const auto &[key, value] : report.data.items()) {
        document[key] = value;
    }
    document["diagnostics"] = nlohmann::ordered_json::array();
    for (const Diagnostic &d : report.diagnostics) {
        document["diagnostics"].emplace_back(to_json(d));
    }
    print(stdout, document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
    return code;
}

} // namespace kiln::cli
