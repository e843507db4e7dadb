#include "dsl/search/space/moves/Moves.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace kiln::search {

namespace {

constexpr int64_t tile_sizes[] = {1,   2,   3,    4,    5,    6,    8,     10,    12,   16,  20,
                                  24,  32,  40,   48,   64,   80,   96,    128,   160,  192, 256,
                                  384, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536};

} // namespace

std::vector<Step> tile_steps(const PlanContext &cx, const Plan &plan) {
    std::vector<Step> out;
    for (const auto &[func, f] : plan.funcs) {
        if (f.place.where == Where::Inline || cx.info(func).is_extern) {
            continue;
        }
        PlanContext::Sizes sizes = cx.sizes(plan, func);
        for (int level = f.place.where == Where::At ? Outer : Task; level < tile_levels; level++) {
            for (size_t d = 0; d < sizes.domain.size(); d++) {
                int64_t now = f.tile[level][d],
                        most = level == Task ? sizes.domain[d] : sizes.tile[level - 1][d];
                std::vector<int64_t> values(std::begin(tile_sizes), std::end(tile_sizes));
                values.push_back(0);
                if (level == Block) {
                    values.push_back(INT32_MAX);
                }
                for (int64_t v : values) {
                    bool useful = v != now && (v == 0 || v == INT32_MAX || v < most) &&
                                  (level != Block || v == INT32_MAX || v <= 64);
                    if (useful) {
                        out.push_back(
                            {fmt::format("{} {} tile of dimension {}: {}", func, level_name(level), d, v),
                             [func = func, level, d, v](Plan &changed) {
                                 changed.funcs.at(func).tile[level][d] = v;
                             }});
                    }
                }
            }
        }
    }
    return out;
}

} // namespace kiln::search
