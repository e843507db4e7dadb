/** \file
 * How two schedules differ, by what they say and not by how they are laid out.
 */
#pragma once

#include "dsl/schedule/Schedule.h"

#include <string>
#include <vector>

namespace kiln::cli {

/// Lines of `a` and `b` that only one has, with "- " or "+ " before them, in order; nothing for what they share.
std::vector<std::string> diff_lines(const std::vector<std::string> &a, const std::vector<std::string> &b);

/// The differences of two files' schedules, by meaning (dsl/schedule/Diff.h): schedules are paired by name, one that
/// only one file has shows as a whole.
std::vector<std::string> diff_schedules(const std::vector<Schedule> &a, const std::vector<Schedule> &b);

/// The differences of two texts: of their schedules where both parse, of their lines otherwise.
std::vector<std::string> diff_texts(const std::string &a, const std::string &b);

} // namespace kiln::cli
