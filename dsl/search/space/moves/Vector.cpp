#include "dsl/search/space/moves/Moves.h"

#include <fmt/format.h>

namespace kiln::search {

std::vector<Step> vector_steps(const PlanContext &cx, const Plan &plan) {
    std::vector<Step> out;
    for (const auto &[func, f] : plan.funcs) {
        if (f.place.where == Where::Inline || cx.info(func).is_extern) {
            continue;
        }
        int native = cx.is_gpu ? 4 : cx.native_lanes(func);
        std::vector<std::pair<int, int>> choices = {{-1, 1}};
        for (int d = 0; d < static_cast<int>(cx.info(func).args.size()) && d < 3; d++) {
            for (int lanes : {native / 2, native, native * 2, native * 4}) {
                if (lanes > 1 && lanes <= (cx.is_gpu ? 8 : 64)) {
                    choices.emplace_back(d, lanes);
                }
            }
        }
        for (auto [d, lanes] : choices) {
            if (d != f.vector_dim || lanes != f.lanes) {
                out.push_back({fmt::format("{} vectors of {} along dimension {}", func, lanes, d),
                               [func = func, d = d, lanes = lanes](Plan &changed) {
                                   changed.funcs.at(func).vector_dim = d;
                                   changed.funcs.at(func).lanes = lanes;
                               }});
            }
        }
    }
    return out;
}

} // namespace kiln::search
