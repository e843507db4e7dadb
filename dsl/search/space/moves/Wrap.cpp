#include "dsl/search/space/moves/Moves.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln::search {

namespace {

std::vector<std::vector<int>> storage_orders(size_t dims) {
    std::vector<std::vector<int>> out = {{}};
    if (dims >= 2) {
        std::vector<int> swapped;
        for (size_t d = 0; d < dims; d++) {
            swapped.push_back(static_cast<int>(d));
        }
        std::swap(swapped[0], swapped[1]);
        out.push_back(swapped);
    }
    return out;
}

} // namespace

std::vector<Step> wrap_steps(const PlanContext &cx, const Plan &plan) {
    std::vector<Step> out;
    for (size_t i = 0; i < plan.wraps.size(); i++) {
        out.push_back(
            {fmt::format("no copy of {} for {}", plan.wraps[i].producer, plan.wraps[i].consumer),
             [i](Plan &changed) { changed.wraps.erase(changed.wraps.begin() + static_cast<long>(i)); }});
    }
    // Worth a copy is what a reduction reads again and again.
    for (const auto &[func, f] : plan.funcs) {
        if (f.place.where == Where::Inline || !cx.has_update(func) || f.rfactor > 0) {
            continue;
        }
        std::set<std::string> read;
        for (const Access &access : cx.algorithm(func).stages.back().reads) {
            read.insert(access.func);
        }
        std::vector<PlanPlace> places = cx.places(plan, func);
        for (int level : {static_cast<int>(Task), static_cast<int>(Outer), static_cast<int>(Inner),
                          static_cast<int>(Reduce)}) {
            places.push_back({Where::At, func, level});
        }
        for (const std::string &producer : read) {
            auto it = plan.funcs.find(producer);
            bool is_input = cx.info(producer).is_input;
            if (!is_input && (it == plan.funcs.end() || it->second.place.where == Where::Inline)) {
                continue;
            }
            int lanes = cx.is_gpu ? 1
                                  : std::max(1, 32 / static_cast<int>(std::max<int64_t>(
                                                         4, cx.info(producer).bytes_per_element())));
            for (const PlanPlace &place : places) {
                for (const std::vector<int> &storage : storage_orders(cx.info(producer).args.size())) {
                    WrapPlan w{producer, func, place, lanes, storage};
                    if (std::find(plan.wraps.begin(), plan.wraps.end(), w) != plan.wraps.end()) {
                        continue;
                    }
                    out.push_back({fmt::format("copy of {} for {} at {}.{}{}", producer, func, place.host,
                                               level_name(place.level), storage.empty() ? "" : " transposed"),
                                   [w](Plan &changed) {
                                       std::erase_if(changed.wraps, [&](const WrapPlan &o) {
                                           return o.producer == w.producer && o.consumer == w.consumer;
                                       });
                                       changed.wraps.push_back(w);
                                   }});
                }
            }
        }
    }
    return out;
}

} // namespace kiln::search
