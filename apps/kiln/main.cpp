#include "apps/kiln/CommandLine.h"
#include "dsl/support/Interrupt.h"
#include "dsl/support/Progress.h"

#include <Halide.h>
#include <fmt/format.h>

#include <cstdio>

#include <unistd.h>

namespace kiln::cli {

namespace {

Diagnostic fault_of_kiln(const std::string &what) {
    Diagnostic d;
    d.code = "K0943";
    d.message = fmt::format("a fault inside Kiln: {}", what);
    d.helps.push_back("please report it with the command line and the files that led to it");
    return d;
}

/// Nothing but diagnostics leaves here, whatever was thrown below.
Report run_command(Command &command, const Settings &settings) {
    Report report;
    try {
        return command.run(settings);
    } catch (const Error &error) {
        report.diagnostics = error.diagnostics;
    } catch (const Halide::Error &error) {
        report.diagnostics = {fault_of_kiln(error.what())};
    } catch (const std::exception &error) {
        report.diagnostics = {fault_of_kiln(error.what())};
    } catch (...) {
        report.diagnostics = {fault_of_kiln("an exception of unknown type")};
    }
    return report;
}

int run(int argc, const char *const *argv) {
    CommandLine line;
    CommandLine::Parsed parsed = line.parse(argc, argv);
    if (!parsed.faults.empty()) {
        Report report;
        report.diagnostics = parsed.faults;
        return print_report(parsed.path, report, line.settings.json);
    }
    if (!parsed.command) {
        Report report;
        report.text = parsed.text;
        report.data["text"] = parsed.text;
        return print_report(parsed.path, report, line.settings.json);
    }
    if (!line.settings.quiet) {
        set_progress_mode(isatty(2) ? ProgressMode::Terminal : ProgressMode::Plain);
    }
    Report report = run_command(*parsed.command, line.settings);
    return print_report(parsed.path, report, line.settings.json);
}

} // namespace

} // namespace kiln::cli

int main(int argc, char **argv) {
    kiln::handle_interrupts([] { kiln::hide_progress(); });
    int code = kiln::cli::run(argc, argv);
    // Not through static destructors: user's shared objects may hold state that Halide's needs.
    fflush(nullptr);
    _exit(code);
}
