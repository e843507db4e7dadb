#include "apps/kiln/ScheduleFile.h"

#include "dsl/support/Files.h"

#include <fmt/format.h>

namespace kiln::cli {

ScheduleFile read_schedule_file(const std::string &file) {
    return parse_schedule_text(file, read_text_file(file, "schedule"));
}

ScheduleFile parse_schedule_text(const std::string &file, const std::string &text) {
    ScheduleFile result;
    result.file = file;
    result.text = text;
    ParseResult parsed = parse_schedules(text, file);
    result.schedules = std::move(parsed.schedules);
    result.diagnostics = std::move(parsed.diagnostics);
    if (result.schedules.empty() && !has_errors(result.diagnostics)) {
        Diagnostic d;
        d.code = "K0938";
        d.message = fmt::format("`{}` holds no schedule", file);
        d.helps.push_back("a schedule reads `schedule NAME { op GENERATOR  target cpu  … }`");
        result.diagnostics.push_back(std::move(d));
    }
    return result;
}

KnobValues parse_knobs(const std::vector<std::string> &assignments) {
    KnobValues values;
    for (const std::string &assignment : assignments) {
        auto [name, value] = split_assignment("--knob", assignment);
        values.insert_or_assign(name, value);
    }
    return values;
}

} // namespace kiln::cli
