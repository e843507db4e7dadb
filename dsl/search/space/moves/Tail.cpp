#include "dsl/search/space/moves/Moves.h"

#include <fmt/format.h>

namespace kiln::search {

std::vector<Step> tail_steps(const PlanContext &cx, const Plan &plan) {
    std::vector<Step> out;
    for (const auto &[func, f] : plan.funcs) {
        if (f.place.where == Where::Inline || cx.info(func).is_extern) {
            continue;
        }
        for (Tail tail : {Tail::Guard, Tail::Shift, Tail::Round}) {
            if (tail != f.tail) {
                const char *name = tail == Tail::Guard   ? "guarded"
                                   : tail == Tail::Shift ? "shifted"
                                                         : "rounded up";
                out.push_back({fmt::format("{} tails {}", func, name),
                               [func = func, tail](Plan &changed) { changed.funcs.at(func).tail = tail; }});
            }
        }
    }
    return out;
}

} // namespace kiln::search
