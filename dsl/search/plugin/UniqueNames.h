/** \file
 * Pipelines from anywhere: their Funcs under names that a schedule can use, and copies to try schedules on.
 */
#pragma once

#include "dsl/schedule/apply/Describe.h"

#include <Halide.h>

#include <map>
#include <string>
#include <vector>

namespace kiln::search {

/// A name for each Func, by Halide's own: what schedule_name gives where that is an identifier and no other Func has it;
/// else with `_2`, `_3`, … in the order of the pipeline, producers first.
std::map<std::string, std::string> unique_names(const std::vector<Halide::Func> &outputs);

/// A copy of the pipeline whose Funcs carry those names (an input's with `_im`), to read and not to compile. Parameters and
/// images stay the same ones.
std::vector<Halide::Func> renamed_copy(const std::vector<Halide::Func> &outputs,
                                       const std::map<std::string, std::string> &names);

/// A copy under Halide's own names, to try a schedule on.
std::vector<Halide::Func> plain_copy(const std::vector<Halide::Func> &outputs);

/// The Funcs of `outputs` themselves under those names: for apply_schedule.
FuncMap funcs_by_name(const std::vector<Halide::Func> &outputs,
                      const std::map<std::string, std::string> &names);

} // namespace kiln::search
