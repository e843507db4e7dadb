/** \file
 * Schedules as commands take them: a file that is read and parsed, its faults as diagnostics with their source.
 */
#pragma once

#include "apps/kiln/Command.h"
#include "dsl/schedule/Knobs.h"
#include "dsl/schedule/Parser.h"

#include <string>
#include <vector>

namespace kiln::cli {

struct ScheduleFile {
    std::string file, text;
    std::vector<Schedule> schedules; ///< what could be read
    std::vector<Diagnostic> diagnostics;
};

/// Reads and parses. Throws Error where the file cannot be read (K0930…); faults in the text, also that there is no
/// schedule in it, are in the result.
ScheduleFile read_schedule_file(const std::string &file);
ScheduleFile parse_schedule_text(const std::string &file, const std::string &text);

/// The knob values out of repeated `--knob k=v`.
KnobValues parse_knobs(const std::vector<std::string> &assignments);

} // namespace kiln::cli
