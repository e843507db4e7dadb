#include "dsl/search/space/moves/Moves.h"

#include <fmt/format.h>

namespace kiln::search {

std::vector<Step> parallel_steps(const PlanContext &cx, const Plan &plan) {
    std::vector<Step> out;
    for (const auto &[func, f] : plan.funcs) {
        if (f.place.where != Where::Root || cx.info(func).is_extern || cx.is_gpu) {
            continue;
        }
        int dims = static_cast<int>(cx.info(func).args.size());
        for (int fused = 0; fused < dims; fused++) {
            if (fused != f.fused) {
                out.push_back(
                    {fmt::format("{} tasks over {} loops", func, fused == 0 ? dims : fused),
                     [func = func, fused](Plan &changed) { changed.funcs.at(func).fused = fused; }});
            }
        }
    }
    return out;
}

} // namespace kiln::search
