#include "dsl/search/features/Features.h"

#include "dsl/schedule/Canonical.h"
#include "dsl/schedule/CheckSchedule.h"
#include "dsl/search/features/LoopFeatures.h"
#include "dsl/search/features/Roofline.h"
#include "dsl/search/features/TileFeatures.h"
#include "dsl/search/space/Alternatives.h"

namespace kiln::search {

Features features(const Problem &asked, const Schedule &schedule) {
    const Problem &problem = problem_of_schedule(asked, schedule);
    CanonicalResult canonical = canonicalize(schedule);
    if (has_errors(canonical.diagnostics)) {
        throw Error(canonical.diagnostics);
    }
    ScheduleAnalysis sized = analyse_schedule(canonical.schedule, problem.sized, problem.target,
                                              problem.device.limits, canonical.damaged);
    if (has_errors(sized.diagnostics)) {
        throw Error(sized.diagnostics);
    }
    Features out;
    loop_features(problem, sized.nest, canonical.schedule, out);
    tile_features(problem, sized.nest, out);
    estimate_ms(out, problem.device);
    return out;
}

} // namespace kiln::search
