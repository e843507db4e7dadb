/** \file
 * Knobs, `require` and the arithmetic of schedules. A knob is named by an argument or a `require` and takes
 * one value of its domain; with values for all knobs a schedule is one member of its family.
 */
#pragma once

#include "dsl/schedule/Schedule.h"

#include <map>

namespace kiln {

/// Values by name, integers in decimal. As in VariantRequest::knobs. Knobs not named take their first value.
using KnobValues = std::map<std::string, std::string>;

/// Every knob with a value: those of `values`, else the first of its domain. Appends K0605 (no such knob) and
/// K0606 (not in the domain; the first value then stands in, so that checking can go on).
KnobValues complete_knobs(const Schedule &schedule, const KnobValues &values,
                          std::vector<Diagnostic> &diagnostics);

/// Replaces the knobs in `node` by their values and folds what has become constant: integer arithmetic,
/// comparisons (to 1 or 0), &&, ||, !, min, max, select. Division and % round towards minus infinity, as
/// Halide's. Names that are no knobs stay. Appends K0609 (operands of the wrong type) and K0610 (overflow,
/// division by zero).
Node fold(const Node &node, const KnobValues &values, const std::string &file,
          std::vector<Diagnostic> &diagnostics);

/// The `require`s that these values break, each as K0607 with the condition and the values in it; K0608 where
/// a condition names something that is no knob.
std::vector<Diagnostic> check_requires(const Schedule &schedule, const KnobValues &values);

/// How many members the family has, before `require`; saturates at INT64_MAX.
int64_t family_size(const Schedule &schedule);

} // namespace kiln
