/** \file
 * Text to Schedule. The grammar is docs/schedule.ebnf.
 */
#pragma once

#include "dsl/schedule/Schedule.h"

namespace kiln {

struct ParseResult {
    std::vector<Schedule> schedules; ///< in file order; after errors only what could be read
    std::vector<Diagnostic> diagnostics;
    std::shared_ptr<const std::string> source; ///< for render()
    bool ok() const { return !has_errors(diagnostics); }
};

/// Reads every `schedule … { … }` of a text and reports all its faults (K0001–K0021, K0040, K0041,
/// K0601–K0604). Never throws and never crashes, whatever the bytes. `file` is only for messages. Which
/// directives exist is not looked at here: see canonicalize.
ParseResult parse_schedules(std::string text, std::string file);

/// One expression, as in an argument: `bm / 2`. Used by the C++ form. Null and diagnostics when it is not
/// one.
std::optional<Node> parse_expression(std::string text, std::vector<Diagnostic> &diagnostics);

} // namespace kiln
