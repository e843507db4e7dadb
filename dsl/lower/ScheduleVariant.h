/** \file
 * The schedule of one variant: read, chosen, checked and applied to a legalized pipeline.
 */
#pragma once

#include "dsl/lower/BuildProtocol.h"
#include "dsl/lower/Legalize.h"

#include <functional>

namespace kiln {

struct ScheduledVariant {
    std::vector<Diagnostic> diagnostics; ///< with an error nothing was applied
    std::string name;
    std::string text; ///< canonical
    /// Which directives Halide objects to, once it has refused the whole.
    std::function<std::vector<Diagnostic>()> find_faults;
};

/// Applies job.variant's schedule, or the default one where it has none, to pipeline.funcs. `rebuild` makes the
/// same pipeline afresh, unscheduled. K0711 where the text has no schedule for this generator and target.
ScheduledVariant schedule_variant(const CompileJob &job, LegalizedPipeline &pipeline,
                                  std::function<std::vector<Halide::Func>()> rebuild);

} // namespace kiln
