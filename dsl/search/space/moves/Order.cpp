#include "dsl/search/space/moves/Moves.h"

#include <fmt/format.h>

namespace kiln::search {

std::vector<Step> order_steps(const PlanContext &cx, const Plan &plan) {
    std::vector<Step> out;
    for (const auto &[func, f] : plan.funcs) {
        if (f.place.where == Where::Inline || cx.info(func).is_extern) {
            continue;
        }
        for (size_t i = 1; i < f.order.size(); i++) {
            out.push_back({fmt::format("{} loops {} and {} exchanged", func, i - 1, i),
                           [func = func, i](Plan &changed) {
                               std::vector<int> &order = changed.funcs.at(func).order;
                               std::swap(order[i - 1], order[i]);
                           }});
        }
    }
    return out;
}

} // namespace kiln::search
