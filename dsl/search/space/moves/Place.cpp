#include "dsl/search/space/moves/Moves.h"

#include <fmt/format.h>

namespace kiln::search {

std::vector<Step> place_steps(const PlanContext &cx, const Plan &plan) {
    std::vector<Step> out;
    for (const auto &[func, f] : plan.funcs) {
        if (cx.is_output(func) || cx.must_inline(func) || cx.info(func).is_extern) {
            continue;
        }
        std::vector<PlanPlace> places = cx.places(plan, func);
        places.push_back({Where::Root, "", Task});
        if (cx.info(func).can_be_inlined) {
            places.push_back({Where::Inline, "", Task});
        }
        for (const PlanPlace &p : places) {
            if (p == f.place) {
                continue;
            }
            std::string text = p.where == Where::Root ? "root"
                               : p.where == Where::Inline
                                   ? "inline"
                                   : fmt::format("at {}.{}", p.host, level_name(p.level));
            out.push_back({fmt::format("{} {}", func, text), [func = func, p](Plan &changed) {
                               FuncPlan &g = changed.funcs.at(func);
                               g.place = p;
                               g.store.reset();
                               if (p.where == Where::At && p.level == Block) {
                                   // A tile of its reader: all of it in registers.
                                   for (int64_t &t : g.tile[Block]) {
                                       t = INT32_MAX;
                                   }
                               }
                               std::erase_if(changed.wraps, [&](const WrapPlan &w) {
                                   return p.where == Where::Inline &&
                                          (w.producer == func || w.consumer == func);
                               });
                           }});
        }
    }
    return out;
}

} // namespace kiln::search
