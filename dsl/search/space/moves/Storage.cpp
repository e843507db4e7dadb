#include "dsl/search/space/moves/Moves.h"

#include <fmt/format.h>

namespace kiln::search {

std::vector<Step> storage_steps(const PlanContext &cx, const Plan &plan) {
    std::vector<Step> out;
    for (const auto &[func, f] : plan.funcs) {
        if (f.place.where == Where::Inline || cx.is_output(func) || cx.info(func).is_extern) {
            continue;
        }
        if (f.place.where == Where::At && !cx.is_gpu) {
            // Further out in the same Func: what neighbouring iterations share is kept.
            std::vector<std::optional<PlanPlace>> stores = {std::nullopt};
            for (int level = Task; level < f.place.level; level++) {
                stores.push_back(PlanPlace{Where::At, f.place.host, level});
            }
            for (const auto &store : stores) {
                if (store != f.store) {
                    out.push_back(
                        {fmt::format("{} stored at {}", func, store ? level_name(store->level) : "its place"),
                         [func = func, store](Plan &changed) { changed.funcs.at(func).store = store; }});
                }
            }
        }
        if (f.storage.size() + cx.info(func).args.size() >= 2 && cx.info(func).args.size() >= 2) {
            std::vector<int> order = f.storage;
            if (order.empty()) {
                for (size_t d = 0; d < cx.info(func).args.size(); d++) {
                    order.push_back(static_cast<int>(d));
                }
            }
            for (size_t i = 1; i < order.size(); i++) {
                std::vector<int> changed_order = order;
                std::swap(changed_order[i - 1], changed_order[i]);
                bool natural = true;
                for (size_t d = 0; d < order.size(); d++) {
                    natural = natural && changed_order[d] == static_cast<int>(d);
                }
                if (natural) {
                    changed_order.clear();
                }
                out.push_back({fmt::format("{} storage dimensions {} and {} exchanged", func, i - 1, i),
                               [func = func, changed_order](Plan &changed) {
                                   changed.funcs.at(func).storage = changed_order;
                               }});
            }
        }
        for (int align : {0, 8, 16, 32}) {
            if (align != f.align) {
                out.push_back(
                    {fmt::format("{} rows of multiples of {}", func, align),
                     [func = func, align](Plan &changed) { changed.funcs.at(func).align = align; }});
            }
        }
    }
    return out;
}

} // namespace kiln::search
