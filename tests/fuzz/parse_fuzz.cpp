// What must hold for any bytes whatever: no crash and no exception, printable reports, and round trips of all that
// was read without a fault.
#include "dsl/schedule/Canonical.h"
#include "dsl/schedule/Diff.h"
#include "dsl/schedule/Parser.h"
#include "dsl/schedule/Print.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <cstdlib>

namespace {

using namespace kiln;

/// Ends the process, as libFuzzer wants it.
void expect(bool holds, const char *what, const std::string &detail = "") {
    if (!holds) {
        std::fprintf(stderr, "parse_fuzz: %s\n%s\n", what, detail.c_str());
        std::abort();
    }
}

/// Reports render and become JSON, which only takes valid UTF-8.
void check_reports(const std::vector<Diagnostic> &diagnostics, const std::string &source) {
    render_all(diagnostics, source);
    for (const Diagnostic &d : diagnostics) {
        to_json(d).dump();
        expect(d.code.size() == 5 && !d.message.empty(), "a report without code or message");
    }
}

void check_canonical(const Schedule &schedule, const std::string &source, bool is_sound) {
    CanonicalResult result = canonicalize(schedule);
    check_reports(result.diagnostics, source);
    std::string text = print_text(result.schedule);
    if (is_sound && result.diagnostics.empty()) {
        ParseResult read = parse_schedules(text, "canonical");
        expect(read.diagnostics.empty(), "canonical form does not parse", text);
        expect(read.schedules[0] == result.schedule, "canonical form reads back differently", text);
        CanonicalResult again = canonicalize(read.schedules[0]);
        expect(again.diagnostics.empty(), "canonical form has faults", text);
        expect(print_text(again.schedule) == text, "canonical form of a canonical form differs", text);
        expect(schedule_diff(schedule, result.schedule).find("\n  ") == std::string::npos,
               "a schedule differs from its canonical form", text);
        expect(schedule_diff(schedule, schedule).empty(), "a schedule differs from itself", text);
    }
    print_kiln(schedule);
    try {
        print_halide(schedule, PipelineInfo());
    } catch (const Error &error) {
        check_reports(error.diagnostics, source);
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    std::string text(reinterpret_cast<const char *>(data), size);
    ParseResult parsed = parse_schedules(text, "fuzz");
    check_reports(parsed.diagnostics, *parsed.source);
    expect(!parsed.schedules.empty() || !parsed.diagnostics.empty(), "neither a schedule nor a report", text);
    if (parsed.diagnostics.empty()) {
        std::string printed = print_text(parsed.schedules);
        ParseResult read = parse_schedules(printed, "printed");
        expect(read.diagnostics.empty(), "the printed text does not parse",
               render_all(read.diagnostics, *read.source) + printed);
        expect(read.schedules == parsed.schedules, "the printed text means something else", printed);
        expect(print_text(read.schedules) == printed, "printing is not stable",
               printed + "\n--- then ---\n" + print_text(read.schedules));
    }
    for (const Schedule &schedule : parsed.schedules) {
        check_canonical(schedule, *parsed.source, parsed.diagnostics.empty());
    }
    return 0;
}
