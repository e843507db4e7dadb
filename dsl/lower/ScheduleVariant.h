/** \file
 * The schedule of one variant: read, chosen, checked and applied to a legalized pipeline.
 */
#pragma once

#include "dsl/lower/BuildProtocol.h"
#include "dsl/lower/Legalize.h"
#include "dsl/lower/TileKernels.h"

#include <functional>

namespace kiln {

struct ScheduledVariant {
    std::vector<Diagnostic> diagnostics; ///< with an error nothing was applied
    std::string name;
    std::string text; ///< canonical
    std::vector<TileStage> tiles;
    /// Which directives Halide objects to, once it has refused the whole.
    std::function<std::vector<Diagnostic>()> find_faults;
};

/// `source` legalized afresh, unscheduled, with stages in the place of Funcs.
using LegalizeAgain = std::function<LegalizedPipeline(const std::map<std::string, StageReplacement> &)>;

/// `job` with its schedule's knobs that bear the name of one of the generator's parameters as values of those: what of the
/// algorithm the schedule chooses, such as how long its blocks are. A parameter that the request gives is the knob's value.
CompileJob with_algorithm_knobs(CompileJob job, const std::vector<std::string> &params);

/// Applies job.variant's schedule, or the default one where it has none, to pipeline.funcs, which `again` makes too.
/// With tile kernels the pipeline is made again with stages in it. K0711 where the text has no schedule for this
/// generator and target.
ScheduledVariant schedule_variant(const CompileJob &job, const PipelineSource &source,
                                  LegalizedPipeline &pipeline, LegalizeAgain again);

} // namespace kiln
