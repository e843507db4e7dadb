#include "dsl/search/space/moves/Moves.h"

#include <fmt/format.h>

namespace kiln::search {

std::vector<Step> reduce_steps(const PlanContext &cx, const Plan &plan) {
    std::vector<Step> out;
    for (const auto &[func, f] : plan.funcs) {
        if (f.place.where == Where::Inline || !cx.has_update(func) || f.rfactor > 0) {
            continue;
        }
        for (int v : {0, 2, 4, 8, 16, 32, 64, 128, 256, 512}) {
            if (v != f.reduce) {
                out.push_back({fmt::format("{} reduction by {}", func, v),
                               [func = func, v](Plan &changed) { changed.funcs.at(func).reduce = v; }});
            }
        }
        for (int v : {1, 2, 4, 8}) {
            if (v != f.reduce_unroll) {
                out.push_back(
                    {fmt::format("{} {} steps of the reduction in a row", func, v),
                     [func = func, v](Plan &changed) { changed.funcs.at(func).reduce_unroll = v; }});
            }
        }
        out.push_back({fmt::format("{} reduction {} the tiles", func, f.reduce_outside ? "inside" : "around"),
                       [func = func](Plan &changed) {
                           bool &outside = changed.funcs.at(func).reduce_outside;
                           outside = !outside;
                       }});
    }
    return out;
}

} // namespace kiln::search
