#include "dsl/search/space/moves/Moves.h"

#include <fmt/format.h>

namespace kiln::search {

std::vector<Step> rfactor_steps(const PlanContext &cx, const Plan &plan) {
    std::vector<Step> out;
    for (const auto &[func, f] : plan.funcs) {
        bool associative = false;
        for (const StageInfo &stage : cx.info(func).stages) {
            associative = associative || stage.is_associative;
        }
        if (f.place.where == Where::Inline || !cx.has_update(func) || !associative) {
            continue;
        }
        int lanes = cx.is_gpu ? 32 : cx.native_lanes(func);
        for (int v : {0, lanes, lanes * 2, lanes * 4, lanes * 8}) {
            if (v != f.rfactor) {
                out.push_back({fmt::format("{} {} partial results", func, v),
                               [func = func, v](Plan &changed) { changed.funcs.at(func).rfactor = v; }});
            }
        }
    }
    return out;
}

} // namespace kiln::search
