/** \file
 * A chosen schedule as the C++ that Halide writes to `NAME.schedule.h`.
 */
#pragma once

#include "dsl/schedule/Knobs.h"
#include "dsl/schedule/PipelineInfo.h"
#include "dsl/schedule/Schedule.h"

#include <Halide.h>

#include <map>
#include <string>

namespace kiln::search {

/// Statements over `pipeline`, which Halide declares: Funcs and RVars taken out of it, then the schedule's calls. `names`
/// are those of the Funcs in the schedule, by Halide's. Where two RDoms of the pipeline share a name in schedules, no C++ of
/// this form says which is meant: then it is the schedule as text, commented out.
std::string schedule_source(const Schedule &schedule, const KnobValues &knobs, const PipelineInfo &info,
                            Halide::Pipeline pipeline, const std::map<std::string, std::string> &names);

} // namespace kiln::search
