#include "dsl/tile/build/ReadPlan.h"
#include "dsl/tile/ir/Ir.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln::tile {

namespace {

/// Rows of one warpgroup's wgmma (PTX ISA: m64).
constexpr int rows_of_warpgroup = 64;

int number(const DirectiveCall &call, size_t i) {
    return int(call.args[i].int_value);
}

class Reader {
public:
    explicit Reader(const TileGroup &group) : group_(group) {}

    TilePlan run() {
        plan_.kernel = group_.kernel->name;
        for (const FuncNest *f : group_.outputs) {
            blocks_of(*f);
        }
        grid();
        for (const auto *members : {&group_.outputs, &group_.inside}) {
            for (const FuncNest *f : *members) {
                member(*f);
            }
        }
        for (const FuncNest *f : group_.before) {
            plan_.outside.insert(f->name);
        }
        kernel(group_.kernel->tile);
        return std::move(plan_);
    }

private:
    const TileGroup &group_;
    TilePlan plan_;

    void blocks_of(const FuncNest &f) {
        for (const TileDim &d : tile_dims(f.stages.at(0))) {
            if (!d.size || !d.is_plain) {
                refuse(
                    "K1101",
                    fmt::format("`{}` of the tile kernel `{}` has no block of constant size", d.var, f.name),
                    d.span,
                    {fmt::format("split it by a constant, or give its greatest extent: `{}.whole({}, n)`",
                                 f.name, d.var)});
            }
            const BlockDim block{d.var, d.loop, int(*d.size)};
            auto known = std::find_if(plan_.blocks.begin(), plan_.blocks.end(),
                                      [&](const BlockDim &b) { return b.var == d.var; });
            if (known == plan_.blocks.end()) {
                plan_.blocks.push_back(block);
            } else if (known->loop != block.loop || known->size != block.size) {
                refuse("K1101",
                       fmt::format("`{}` of `{}` runs over blocks of {} by `{}`, and that of another output "
                                   "by blocks of {} by `{}`",
                                   d.var, f.name, block.size, block.loop, known->size, known->loop),
                       d.span, {"split both alike, and give the loops the same names"});
            }
        }
    }

    void grid() {
        for (const Loop &l : group_.kernel->stages.at(0).loops) {
            if (l.kind == LoopKind::GpuBlock) {
                plan_.grid.push_back(l.name);
            }
        }
    }

    void member(const FuncNest &f) {
        if (f.is_wrapper) {
            copy(f);
            return;
        }
        const bool is_output = std::count(group_.outputs.begin(), group_.outputs.end(), &f) > 0;
        if (!is_output && f.stages.size() == 1) {
            plan_.tiles.insert(f.name);
        }
        for (const StageNest &stage : f.stages) {
            if (stage.update >= 0) {
                update(f, stage);
                split(f, stage);
            }
        }
    }

    void update(const FuncNest &f, const StageNest &stage) {
        for (const TileDim &d : tile_dims(stage)) {
            if (!d.is_rvar) {
                continue;
            }
            if (!d.is_plain) {
                refuse("K1130", fmt::format("`{}` of `{}` is split twice or fused", d.var, stage.name()),
                       d.span, {"split it once: the inner loop is the tile, the outer one runs around it"});
            }
            if (d.is_whole) {
                plan_.whole[f.name][d.var] = int(*d.size);
            } else if (!d.loop.empty() && d.size) {
                plan_.split[f.name][d.var] = int(*d.size);
            }
        }
        if (auto it = stage.tile.find("mma"); it != stage.tile.end()) {
            MmaPlan &mma = plan_.products[f.name];
            const std::string &kind = it->second.args[0].text;
            mma.kind = kind == "wgmma"      ? MmaKind::Wgmma
                       : kind == "mma_sync" ? MmaKind::MmaSync
                                            : MmaKind::Fma;
            mma.span = it->second.span;
            mma.tf32 = it->second.args[1].text == "tf32";
            if (auto stage_call = stage.tile.find("pipeline_stage"); stage_call != stage.tile.end()) {
                mma.stage = number(stage_call->second, 0);
            }
        }
    }

    void split(const FuncNest &f, const StageNest &stage) {
        if (auto it = stage.tile.find("split_reduce"); it != stage.tile.end()) {
            plan_.splits[f.name] = {number(it->second, 0), it->second.span};
        }
        if (auto it = stage.tile.find("lag"); it != stage.tile.end()) {
            plan_.lags[f.name] = {number(it->second, 0), it->second.span};
        }
    }

    void copy(const FuncNest &f) {
        const std::string &name = f.info->name;
        CopyPlan copy;
        copy.span = f.made_by;
        copy.registers = f.memory == "Register";
        if (auto it = f.tile.find("copy"); it != f.tile.end()) {
            const std::string &kind = it->second.args[0].text;
            copy.kind = kind == "tma"        ? CopyKind::Tma
                        : kind == "cp_async" ? CopyKind::CpAsync
                                             : CopyKind::Plain;
            copy.span = it->second.span;
        }
        if (auto it = f.tile.find("swizzle"); it != f.tile.end()) {
            copy.swizzle = number(it->second, 0);
        }
        if (auto it = f.tile.find("stages"); it != f.tile.end()) {
            copy.stages = number(it->second, 0);
        }
        if (auto it = f.tile.find("multicast"); it != f.tile.end()) {
            copy.multicast = true;
            copy.span = it->second.span;
        }
        auto [known, fresh] = plan_.copies.emplace(name, copy);
        const CopyPlan &first = known->second;
        if (!fresh &&
            (first.kind != copy.kind || first.swizzle != copy.swizzle || first.stages != copy.stages ||
             first.registers != copy.registers || first.multicast != copy.multicast)) {
            refuse("K1131",
                   fmt::format("`{}` is staged in two ways in the tile kernel `{}`", name, plan_.kernel),
                   copy.span, {fmt::format("give one wrapper for all its readers: `{}.in({{a, b}})`", name)});
        }
    }

    void kernel(const std::map<std::string, DirectiveCall> &said) {
        auto find = [&](const char *name) {
            auto it = said.find(name);
            return it == said.end() ? nullptr : &it->second;
        };
        const DirectiveCall *groups = find("warpgroups");
        plan_.rows = groups && groups->args[2].text != "Auto" ? groups->args[2].text : default_rows();
        plan_.consumers = groups ? number(*groups, 0) : default_consumers();
        const bool copies =
            !plan_.products.empty() || std::any_of(plan_.copies.begin(), plan_.copies.end(),
                                                   [](const auto &c) { return !c.second.registers; });
        plan_.producers = !copies ? 0 : groups ? number(*groups, 1) : 1;
        if (const DirectiveCall *c = find("registers")) {
            plan_.consumer_registers = number(*c, 0);
            plan_.producer_registers = number(*c, 1);
        }
        if (const DirectiveCall *c = find("persistent")) {
            plan_.persistent = number(*c, 0);
        }
        if (const DirectiveCall *c = find("cluster")) {
            plan_.cluster_x = number(*c, 0);
            plan_.cluster_y = number(*c, 1);
            plan_.cluster_span = c->span;
        }
        if (const DirectiveCall *c = find("slow_warp")) {
            plan_.slow_warp = number(*c, 0);
        }
        if (const DirectiveCall *c = find("spread")) {
            plan_.spread = c->args[0].text;
            plan_.spread_blocks = number(*c, 1);
            plan_.spread_span = c->span;
        }
        plan_.dynamic = find("dynamic");
        if (const DirectiveCall *c = find("ping_pong")) {
            (c->args[0].text == "tiles" ? plan_.ping_pong : plan_.turns) = true;
        }
        plan_.launch_ahead = find("launch_ahead");
        const DirectiveCall *epilogue = find("epilogue");
        plan_.direct = epilogue && epilogue->args[0].text == "direct";
    }

    /// The last Var whose tile does not span its dimension: m of y(n, m), the rows of a norm.
    /// A single dimension of a block without a product is a column: the lanes lie along it.
    std::string default_rows() const {
        std::string rows;
        int wide = 0;
        for (const BlockDim &b : plan_.blocks) {
            wide += b.size > 1;
            if (b.size > 1 && (rows.empty() || !b.loop.empty())) {
                rows = b.var;
            }
        }
        return plan_.products.empty() && wide < 2 ? "" : rows;
    }

    int default_consumers() const {
        for (const BlockDim &b : plan_.blocks) {
            if (b.var == plan_.rows && !plan_.products.empty()) {
                return std::clamp(b.size / rows_of_warpgroup, 1, 2);
            }
        }
        return 2;
    }
};

} // namespace

TilePlan read_plan(const TileGroup &group) {
    return Reader(group).run();
}

void fit_target(TilePlan &plan, const Target &target) {
    const bool open_cl = target.backend == Backend::OpenCL;
    for (auto &[view, copy] : plan.copies) {
        // The checker has refused what the target lacks where a schedule says it.
        if (copy.kind == CopyKind::Tma && target.feature != "sm_90a") {
            copy.kind = !open_cl && target.level() >= 80 ? CopyKind::CpAsync : CopyKind::Plain;
        }
    }
    if (target.feature != "sm_90a") { // barriers that copies arrive on, and stores by TMA, are Hopper's
        plan.producers = 0;
    }
}

} // namespace kiln::tile
