// Loops over blocks that carry a result in registers: rows of queries stay, blocks of keys and values stream by.
#include "dsl/search/space/tile/Families.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>

namespace kiln::search {

namespace {

int64_t rounded(int64_t n) {
    return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(16, n))));
}

int64_t extent_of(const PlanContext &cx, const std::string &func, const std::string &arg) {
    const FuncInfo &f = cx.info(func);
    size_t d = static_cast<size_t>(std::find(f.args.begin(), f.args.end(), arg) - f.args.begin());
    const std::vector<int64_t> &extents = cx.algorithm(func).extents;
    return d < extents.size() ? extents[d] : 1;
}

/// The RVar's extent is known for all sizes: it needs no `whole`.
bool is_constant(const PlanContext &cx, const ProductForm &p) {
    for (const DimInfo &d : cx.problem.info.find(p.func)->stages[1].dims) {
        if (d.name == p.rvar) {
            return d.extent.has_value();
        }
    }
    return false;
}

} // namespace

std::vector<FamilyText> carried_families(const PlanContext &cx, const CarriedKernel &k) {
    const std::string &type = k.products.front().rows.type;
    const bool is_16_bit = type == "bfloat16" || type == "float16";
    if (k.batch.size() > 2 || !is_16_bit || !cx.is_tile) {
        return {};
    }
    const int64_t column = rounded(extent_of(cx, k.output, k.column));
    const std::string io = k.row + "o", ii = k.row + "i";
    // Tiles of one batch follow each other: they share what streams by.
    std::vector<std::string> blocks =
        k.batch.empty() ? std::vector<std::string>{io} : std::vector<std::string>{k.batch.front(), io};
    for (size_t b = 1; b < k.batch.size(); b++) {
        blocks.push_back(k.batch[b]);
    }
    const std::string grid = fmt::format("{}", fmt::join(blocks, ", ")), &innermost = blocks.front();
    std::vector<FamilyText> out;
    // Whether a running maximum may stay behind, and whether consumers issue their products in turn.
    struct Style {
        const char *name, *options;
        bool lags, turns;
    };
    constexpr const char *dealt = ".persistent(1).dynamic().warpgroups(consumers = rows / 64)",
                         *once = ".warpgroups(consumers = rows / 64)";
    for (const Style &style :
         {Style{"carried", dealt, false, false}, Style{"carried_once", once, false, false},
          Style{"carried_lag", dealt, true, false}, Style{"carried_turns", dealt, false, true},
          Style{"carried_lag_turns", dealt, true, true}, Style{"carried_once_turns", once, false, true}}) {
        FamilyText f;
        f.name = style.name;
        f.knobs = "rows in {128, 192, 64}, depth in {2, 3, 1, 4}";
        f.add(fmt::format(
            "{}.split({}, {}, {}, rows).whole({}, {}).reorder({}, {}, {}).gpu_blocks({}).tile_kernel()",
            k.output, k.row, io, ii, k.column, column, k.column, ii, grid, grid));
        for (const std::string &extra : k.extra) {
            f.add(fmt::format("{}.split({}, {}, {}, rows).reorder({}, {}).gpu_blocks({}).tile_kernel({})",
                              extra, k.row, io, ii, ii, grid, grid, k.output));
        }
        f.add(k.output + style.options + (style.turns ? ".ping_pong(products)" : ""));
        f.add(fmt::format("{}.compute_at({}, {}).store_in(Register)", k.carrier, k.output, innermost));
        std::vector<std::string> order = cx.info(k.carrier).args;
        f.add(fmt::format("{}.update().reorder({}, {}){}", k.carrier, fmt::join(order, ", "), k.loop,
                          style.lags ? ".lag(8)" : ""));
        for (const std::string &func : k.inside) {
            f.add(fmt::format("{}.compute_at({}, {}).store_in(Register)", func, k.carrier, k.loop));
            for (size_t i = 0; i < k.products.size(); i++) {
                const ProductForm &p = k.products[i];
                if (p.func == func) {
                    std::string whole =
                        is_constant(cx, p) ? "" : fmt::format(".whole({}, {})", p.rvar, rounded(p.extent));
                    f.add(fmt::format("{}.update(){}.mma(wgmma){}", func, whole,
                                      i + 1 == k.products.size() ? ".pipeline_stage(1)" : ""));
                }
            }
        }
        for (size_t i = 0; i < k.products.size(); i++) {
            for (const Operand *o : {&k.products[i].rows, &k.products[i].columns}) {
                if (o->buffer.empty()) {
                    continue; // computed inside
                }
                const bool stays = i == 0 && o == &k.products[i].rows;
                f.add(fmt::format("{}.in({}).compute_at({}, {}).store_in(GPUShared).copy(tma){}", o->buffer,
                                  o->reader, stays ? k.output : k.carrier, stays ? innermost : k.loop,
                                  stays ? "" : ".stages(depth)"));
            }
        }
        out.push_back(std::move(f));
    }
    return out;
}

} // namespace kiln::search
