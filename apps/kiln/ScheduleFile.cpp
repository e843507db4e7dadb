#include "apps/kiln/ScheduleFile.h"

#include "dsl/support/Files.h"

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
