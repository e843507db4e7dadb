/** \file
 * A schedule as text, as Kiln's C++ form and as plain Halide calls.
 */
#pragma once

#include "dsl/schedule/Knobs.h"
#include "dsl/schedule/PipelineInfo.h"
#include "dsl/schedule/Schedule.h"

namespace kiln {

/// The schedule language, in one fixed layout, comments kept: print_text(parse(print_text(s))) ==
/// print_text(s). Shorthands stay as they are; print_text(canonical(s)) shows them expanded.
std::string print_text(const Schedule &schedule);
/// Several schedules in one file, in order, with a blank line between.
std::string print_text(const std::vector<Schedule> &schedules);

/// Parts of it, for messages.
std::string print_node(const Node &node);
std::string print_call(const DirectiveCall &call);
std::string print_statement(const Statement &statement);
/// A string in double quotes with its escapes; also a C++ literal.
std::string print_string(const std::string &text);
/// `macro name(a, b) { … }`, each line after `indent`.
std::string print_macro(const Macro &macro, const std::string &indent = "");
/// `{64, 128..256 step 16}`
std::string print_domain(const Node &domain);

/// C++ that builds the same schedule through ScheduleBuilder (Builder.h).
std::string print_kiln(const Schedule &schedule);

/// C++ of plain Halide calls, a block to paste into a generator whose Funcs and RDoms are in scope under
/// their names; it declares the Vars and RVars that it needs. Knobs take `values`, macros are expanded,
/// shorthands stay Halide's own. `info` tells RVars from Vars and dimensions of buffers. Throws kiln::Error
/// as canonical does.
std::string print_halide(const Schedule &schedule, const PipelineInfo &info, const KnobValues &values = {});

} // namespace kiln
