/** \file
 * The round trips that every schedule in any test must make.
 */
#pragma once

#include "dsl/schedule/Canonical.h"
#include "dsl/schedule/Parser.h"
#include "dsl/schedule/Print.h"

#include <gtest/gtest.h>

namespace kiln::test {

/// Reads a text that must be right, with the schedules' round trips: text to schedule to text is stable and keeps the
/// meaning; canonical form prints, reads back as itself and is its own canonical form.
inline std::vector<Schedule> expect_round_trip(const std::string &text, const KnobValues &knobs = {}) {
    ParseResult first = parse_schedules(text, "test.sched");
    EXPECT_TRUE(first.diagnostics.empty()) << render_all(first.diagnostics, *first.source);
    std::string printed = print_text(first.schedules);
    ParseResult second = parse_schedules(printed, "printed.sched");
    EXPECT_TRUE(second.diagnostics.empty()) << render_all(second.diagnostics, *second.source);
    EXPECT_EQ(print_text(second.schedules), printed);
    EXPECT_TRUE(second.schedules == first.schedules) << printed;

    for (const Schedule &schedule : first.schedules) {
        CanonicalResult expanded = canonicalize(schedule, knobs);
        EXPECT_TRUE(expanded.diagnostics.empty()) << render_all(expanded.diagnostics, *first.source);
        std::string text = print_text(expanded.schedule);
        ParseResult read = parse_schedules(text, "canonical.sched");
        EXPECT_TRUE(read.diagnostics.empty()) << render_all(read.diagnostics, *read.source);
        if (read.schedules.size() != 1) {
            ADD_FAILURE() << text;
            continue;
        }
        EXPECT_TRUE(read.schedules[0] == expanded.schedule) << text;
        EXPECT_EQ(print_text(canonical(read.schedules[0])), text);
    }
    return first.schedules;
}

} // namespace kiln::test
