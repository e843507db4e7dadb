// Tile kernels: where their directives may stand, and what the hardware's instructions need.
#include "dsl/schedule/CheckBuild.h"
#include "dsl/schedule/Directive.h"
#include "dsl/schedule/Print.h"
#include "dsl/schedule/TileGroup.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

namespace kiln {

namespace {

bool is_stage_directive(const std::string &name) {
    return name == "mma" || name == "pipeline_stage" || name == "whole" || name == "split_reduce" ||
           name == "lag";
}

bool is_copy_directive(const std::string &name) {
    return name == "copy" || name == "swizzle" || name == "stages" || name == "multicast";
}

} // namespace

/// Outer parts of split RVars go around the tile, whose loops are the product's own.
void NestBuilder::gather_tile_loops() {
    std::vector<std::string> inside, around;
    for (const Loop &l : stage->loops) {
        const LoopStep *made = stage->producer_of(l.name);
        const bool is_outer =
            l.is_rvar && made && made->kind == LoopStep::Kind::Split && made->outer == l.name;
        (is_outer ? around : inside).push_back(l.name);
    }
    inside.insert(inside.end(), around.begin(), around.end());
    if (inside.size() > 1) {
        stage->reorder(inside);
    }
}

bool NestBuilder::tile_on_stage(const DirectiveCall &call) {
    if (!is_stage_directive(call.name)) {
        return false;
    }
    const std::string key = call.name == "whole" ? "whole " + call.args[0].text : call.name;
    if (call.name == "whole" && !loop(call.args[0])) {
        return true;
    }
    if (first_choice(call, fmt::format("`{}` of update {}", key, stage->update))) {
        stage->tile.emplace(key, call);
        stage->touched = true;
        if (call.name == "mma") {
            gather_tile_loops();
        }
    }
    return true;
}

bool NestBuilder::tile_on_func(const DirectiveCall &call) {
    const Directive *d = find_directive(call.name);
    if (!d || d->family != "Tile kernels") {
        return false;
    }
    if (first_choice(call, fmt::format("`{}`", call.name))) {
        if (call.name == "tile_kernel" && !call.args.empty() && !cx.nest.find(call.args[0].text)) {
            no_func(call.args[0].text, call.args[0].span);
            return true;
        }
        func->tile.emplace(call.name, call);
    }
    return true;
}

namespace {

/// Registers of a thread beside its accumulators: addresses, barriers, what an epilogue holds (ptxas on our kernels).
constexpr int64_t other_registers = 40;
constexpr int64_t warpgroup_threads = 128, wgmma_rows = 64, wgmma_columns = 256, tma_box = 256;

class TileKernels {
public:
    explicit TileKernels(CheckContext &context) : cx(context), groups(tile_groups(context.nest)) {}

    void run() {
        for (const FuncNest &f : cx.nest.funcs) {
            in_place(f);
        }
        for (const TileGroup &g : groups) {
            group(g);
        }
    }

private:
    CheckContext &cx;
    const std::vector<TileGroup> groups;

    const TileGroup *group_of(const FuncNest &f) const {
        for (const TileGroup &g : groups) {
            if (g.computes(f.name)) {
                return &g;
            }
        }
        return nullptr;
    }

    const DirectiveCall *said(const std::map<std::string, DirectiveCall> &all, const char *name) const {
        auto it = all.find(name);
        return it == all.end() ? nullptr : &it->second;
    }

    // ---- where directives stand

    void in_place(const FuncNest &f) {
        const TileGroup *g = group_of(f);
        for (const auto &[name, call] : f.tile) {
            if (name == "tile_kernel") {
                joined(f, call);
            } else if (is_copy_directive(name)) {
                if (!g || !f.is_wrapper || f.memory != "GPUShared") {
                    cx.report("K1170",
                              fmt::format("`{}` is for a copy into shared memory in a tile kernel", name),
                              call.span,
                              !f.is_wrapper ? fmt::format("`{}` is no wrapper", f.name)
                              : !g          ? fmt::format("`{}` is computed in no tile kernel", f.name)
                                            : fmt::format("`{}` is stored in {}", f.name, f.memory))
                        .helps.push_back("write it for `x.in(acc).compute_at(acc, ko).store_in(GPUShared)`, "
                                         "inside a kernel that is "
                                         "marked `tile_kernel()`");
                }
            } else if (!f.tile.count("tile_kernel")) {
                cx.report("K1170", fmt::format("`{}` is for a tile kernel, and `{}` is none", name, f.name),
                          call.span)
                    .helps.push_back(
                        g ? fmt::format("write it for `{}`", g->kernel->name)
                          : fmt::format("mark the Func after its block loops: `{}.tile_kernel()`", f.name));
            }
        }
        for (const StageNest &stage : f.stages) {
            for (const auto &[key, call] : stage.tile) {
                if (!g) {
                    cx.report("K1170",
                              fmt::format("`{}` is for a tile kernel, and `{}` is computed in none",
                                          call.name, f.name),
                              call.span)
                        .helps.push_back("mark the Func whose blocks it runs in: `y.tile_kernel()`");
                }
            }
        }
    }

    void joined(const FuncNest &f, const DirectiveCall &call) {
        if (call.args.empty()) {
            return;
        }
        const FuncNest *kernel = cx.nest.find(call.args[0].text);
        if (!kernel || !kernel->tile.count("tile_kernel") || !kernel->tile.at("tile_kernel").args.empty()) {
            cx.report("K1171",
                      fmt::format("`{}` cannot join the kernel of `{}`, which is no tile kernel", f.name,
                                  call.args[0].text),
                      call.span)
                .helps.push_back(fmt::format("mark that one: `{}.tile_kernel()`", call.args[0].text));
        }
    }

    /// What the language knows and no pass makes yet.
    void not_made(const DirectiveCall &call, const char *instead) {
        cx.report("K1180", fmt::format("no pass of this version makes `{}`", print_call(call)), call.span)
            .helps.push_back(instead);
    }

    void not_made_yet(const TileGroup &g) {
        for (const FuncNest *f : g.inside) {
            for (const StageNest &stage : f->stages) {
                if (const DirectiveCall *c = said(stage.tile, "mma");
                    c && c->args[1].text == "tf32" && c->args[0].text != "wgmma") {
                    not_made(*c, "TF32 is for `mma(wgmma, tf32)`; multiply in float32 with `mma(fma)`");
                }
            }
        }
    }

    // ---- one kernel

    void group(const TileGroup &g) {
        const DirectiveCall &mark = g.kernel->tile.at("tile_kernel");
        if (cx.target.backend == Backend::Cpu) {
            cx.report(
                  "K1172",
                  fmt::format("a tile kernel needs `cuda` or `opencl`, the target is `{}`", cx.target.str()),
                  mark.span)
                .helps.push_back("use parallel and vectorize for it on a CPU");
            return;
        }
        if (cx.damaged.count(g.kernel->name)) {
            return;
        }
        for (const FuncNest *f : g.outputs) {
            output(g, *f);
        }
        for (const auto *members : {&g.outputs, &g.inside}) {
            for (const FuncNest *f : *members) {
                for (const StageNest &stage : f->stages) {
                    no_threads(g, *f, stage);
                }
            }
        }
        options(g);
        if (cx.target.backend == Backend::OpenCL) {
            without_cuda(g);
        }
        not_made_yet(g);
        int64_t accumulators = 0;
        for (const FuncNest *f : g.inside) {
            for (const StageNest &stage : f->stages) {
                if (const DirectiveCall *mma = said(stage.tile, "mma")) {
                    accumulators += product(g, *f, stage, *mma);
                }
            }
            if (f->is_wrapper) {
                staged(*f);
            }
        }
        registers(g, accumulators);
        shared_memory(g);
    }

    void output(const TileGroup &g, const FuncNest &f) {
        bool blocks = false;
        for (const TileDim &d : tile_dims(f.stages.at(0))) {
            blocks = blocks || d.is_block;
            if (!d.is_plain || !d.size) {
                cx.report("K1173",
                          fmt::format("`{}` of the tile kernel `{}` has no block of constant size", d.var,
                                      g.kernel->name),
                          d.span.line > 0 ? d.span : g.kernel->tile.at("tile_kernel").span,
                          d.is_plain ? fmt::format("it is not split, and its extent is no constant")
                                     : fmt::format("it is split twice or fused"))
                    .helps.push_back(fmt::format(
                        "split it once by a constant, or give its greatest extent: `{}.whole({}, 1024)`",
                        f.name, d.var));
            }
        }
        if (!blocks) {
            cx.report("K1173", fmt::format("the tile kernel `{}` has no block loop", f.name),
                      f.tile.at("tile_kernel").span)
                .helps.push_back("mark the loops around the tile: `gpu_blocks(no, mo)`");
        }
    }

    void no_threads(const TileGroup &g, const FuncNest &f, const StageNest &stage) {
        for (const Loop &l : stage.loops) {
            if (l.kind == LoopKind::GpuThread || l.kind == LoopKind::GpuLane ||
                l.kind == LoopKind::Vectorized || l.kind == LoopKind::Parallel) {
                cx.report("K1174",
                          fmt::format("loop `{}` of `{}` is {} inside the tile kernel `{}`", l.name,
                                      stage.name(), loop_kind_name(l.kind), g.kernel->name),
                          l.kind_by, "a tile kernel deals its tiles to warpgroups by itself")
                    .helps.push_back("leave the mark out");
            }
        }
    }

    /// The consumers' warpgroups and the tile's rows, as read_plan (dsl/tile/build) chooses them.
    struct Rows {
        std::string var;
        int64_t size = 0, consumers = 2, producers = 1;
    };
    Rows rows_of(const TileGroup &g) const {
        Rows r;
        const DirectiveCall *groups = said(g.kernel->tile, "warpgroups");
        const std::string named = groups ? groups->args[2].text : "Auto";
        for (const FuncNest *f : g.outputs) {
            for (const TileDim &d : tile_dims(f->stages.at(0))) {
                const int64_t size = d.size.value_or(0);
                const bool take = named == "Auto"
                                      ? size > 1 && f == g.kernel && (r.var.empty() || !d.loop.empty())
                                      : d.var == named && r.var.empty();
                if (take) {
                    r.var = d.var;
                    r.size = size;
                }
            }
        }
        r.consumers = groups ? groups->args[0].int_value : std::clamp<int64_t>(r.size / wgmma_rows, 1, 2);
        r.producers = groups ? groups->args[1].int_value : 1;
        return r;
    }

    /// OpenCL has no clusters, no asynchronous copies, and does not tell how many work-groups run at once.
    void without_cuda(const TileGroup &g) {
        auto refuse = [&](const DirectiveCall &c) {
            cx.report("K1172",
                      fmt::format("`{}` needs `cuda`, the target is `{}`", print_call(c), cx.target.str()),
                      c.span)
                .helps.push_back(
                    "leave it out: in OpenCL a work-group takes one tile, and its threads copy for "
                    "themselves");
        };
        for (const char *name :
             {"persistent", "dynamic", "cluster", "spread", "ping_pong", "registers", "launch_ahead"}) {
            if (const DirectiveCall *c = said(g.kernel->tile, name)) {
                refuse(*c);
            }
        }
        for (const FuncNest *f : g.inside) {
            if (const DirectiveCall *c = said(f->tile, "stages"); c && c->args[0].int_value > 1) {
                refuse(*c);
            }
        }
    }

    /// Whether some product runs one iteration late.
    bool has_late_product(const TileGroup &g) const {
        const auto is_late = [this](const StageNest &stage) {
            const DirectiveCall *c = said(stage.tile, "pipeline_stage");
            return c && c->args[0].int_value == 1 && said(stage.tile, "mma");
        };
        return std::any_of(g.inside.begin(), g.inside.end(), [&](const FuncNest *f) {
            return std::any_of(f->stages.begin(), f->stages.end(), is_late);
        });
    }

    void options(const TileGroup &g) {
        const auto &on = g.kernel->tile;
        const DirectiveCall *groups = said(on, "warpgroups");
        const Rows rows = rows_of(g);
        if (groups) {
            const int64_t threads = (rows.consumers + rows.producers) * warpgroup_threads;
            if (cx.limits.threads > 0 && threads > cx.limits.threads) {
                cx.report("K1175",
                          fmt::format("{} warpgroups are {} threads, a block has at most {}",
                                      rows.consumers + rows.producers, threads, cx.limits.threads),
                          groups->span)
                    .helps.push_back("use fewer consumers");
            }
            if (groups->args[2].text != "Auto" && rows.var.empty()) {
                cx.report("K1175",
                          fmt::format("`{}` is no Var of an output of the tile kernel `{}`",
                                      groups->args[2].text, g.kernel->name),
                          groups->args[2].span)
                    .helps.push_back("name one whose axis is in one operand of each product");
            }
        }
        if (const DirectiveCall *c = said(on, "ping_pong");
            c && c->args[0].text == "tiles" && rows.consumers != 2) {
            cx.report("K1175",
                      fmt::format("ping_pong is a game of 2 consumers, and there are {}", rows.consumers),
                      c->span)
                .helps.push_back("write `warpgroups(2)`");
        } else if (c && c->args[0].text == "products" && !has_late_product(g)) {
            cx.report("K1175",
                      fmt::format("ping_pong(products) takes turns around a product that runs under another, "
                                  "and none of `{}` does",
                                  g.kernel->name),
                      c->span)
                .helps.push_back("give the last product of a loop with two `pipeline_stage(1)`, or leave "
                                 "ping_pong out");
        }
        if (const DirectiveCall *c = said(on, "dynamic"); c && !said(on, "persistent")) {
            cx.report("K1175", "`dynamic` hands tiles to blocks that stay, and these do not", c->span)
                .helps.push_back("add `persistent()`");
        }
        if (const DirectiveCall *c = said(on, "spread"); c && cx.target.backend == Backend::Cuda) {
            spread(g, *c);
        }
        if (const DirectiveCall *c = said(on, "cluster")) {
            cluster(g, *c);
        }
        for (const FuncNest *f : g.inside) {
            if (const DirectiveCall *c = said(f->tile, "multicast")) {
                multicast(g, *f, *c);
            }
        }
    }

    /// A tile that the blocks of a cluster hold together.
    void spread(const TileGroup &g, const DirectiveCall &call) {
        const std::string &var = call.args[0].text;
        const int64_t blocks = call.args[1].int_value, most = cx.limits.cluster_blocks;
        if (most < 2) {
            cx.report("K1172",
                      fmt::format("clusters need `cuda sm_90a`, the target is `{}`", cx.target.str()),
                      call.span)
                .helps.push_back("leave `spread` out there: a block holds the whole tile");
        } else if (blocks > most) {
            cx.report("K1189",
                      fmt::format("`{}` is spread over {} blocks, the device takes {} in a cluster", var,
                                  blocks, most),
                      call.args[1].span)
                .helps.push_back(fmt::format("write `spread({}, {})`", var, most));
        }
        const std::vector<TileDim> dims = tile_dims(g.kernel->stages.at(0));
        auto d = std::find_if(dims.begin(), dims.end(), [&](const TileDim &x) { return x.var == var; });
        if (d == dims.end() || d->is_block || d->size.value_or(1) <= 1) {
            cx.report("K1189",
                      d == dims.end()
                          ? fmt::format("`{}` is no Var of `{}`", var, g.kernel->name)
                          : fmt::format(
                                "`{}` runs over blocks already, no cluster can share one tile along it", var),
                      call.args[0].span)
                .helps.push_back("name a Var that one tile spans: `whole(j, 131072).spread(j, 8)`");
        } else if (*d->size % blocks != 0) {
            cx.report("K1189",
                      fmt::format("{} elements along `{}` over {} blocks: each needs the same number",
                                  *d->size, var, blocks),
                      call.span)
                .helps.push_back(fmt::format("let the tile span a multiple of {}", blocks));
        }
        for (const char *other : {"cluster", "dynamic", "ping_pong"}) {
            if (const DirectiveCall *c = said(g.kernel->tile, other)) {
                cx.report("K1189",
                          fmt::format(
                              "`{}` gives blocks tiles of their own, and with `spread` those of a cluster "
                              "share one",
                              other),
                          c->span)
                    .helps.push_back(fmt::format("leave out `{}`", other));
            }
        }
        for (const FuncNest *f : g.inside) {
            for (const StageNest &stage : f->stages) {
                if (const DirectiveCall *c = said(stage.tile, "mma")) {
                    cx.report("K1189",
                              fmt::format("`{}` is a product, and only reductions meet over a cluster",
                                          stage.name()),
                              c->span)
                        .helps.push_back("leave out `spread`: products share their operands by `cluster` and "
                                         "`multicast`");
                }
            }
        }
    }

    void cluster(const TileGroup &g, const DirectiveCall &call) {
        const int64_t x = call.args[0].int_value, y = call.args[1].int_value, most = cx.limits.cluster_blocks;
        if (cx.target.feature != "sm_90a") {
            cx.report("K1172",
                      fmt::format("clusters need `cuda sm_90a`, the target is `{}`", cx.target.str()),
                      call.span)
                .helps.push_back("leave `cluster` and `multicast` out there");
            return;
        }
        if (most > 0 && x * y > most) {
            cx.report("K1181",
                      fmt::format("cluster({}, {}) has {} blocks, the device takes {} in a cluster", x, y,
                                  x * y, most),
                      call.span)
                .helps.push_back(fmt::format("use at most {} blocks", most));
        }
        int64_t loops = 0;
        for (const Loop &l : g.kernel->stages.at(0).loops) {
            loops += l.kind == LoopKind::GpuBlock;
        }
        if (y > 1 && loops < 2) {
            cx.report("K1181",
                      fmt::format("cluster({}, {}) runs along two block loops, and `{}` has {}", x, y,
                                  g.kernel->name, loops),
                      call.span)
                .helps.push_back(fmt::format("write `cluster({})`", x * y));
        }
        if (const DirectiveCall *c = said(g.kernel->tile, "dynamic")) {
            cx.report("K1181",
                      "`dynamic` hands tiles to single blocks, and those of a cluster take theirs together",
                      c->span)
                .helps.push_back("leave out `dynamic` or `cluster`");
        }
    }

    void multicast(const TileGroup &g, const FuncNest &f, const DirectiveCall &call) {
        const DirectiveCall *copy = said(f.tile, "copy"), *size = said(g.kernel->tile, "cluster");
        if (!size || size->args[0].int_value * size->args[1].int_value == 1) {
            cx.report("K1182",
                      fmt::format(
                          "`{}` is to come for all blocks of a cluster, and the blocks of `{}` are in none",
                          f.name, g.kernel->name),
                      call.span)
                .helps.push_back(
                    fmt::format("write `{}.cluster(2)`, or leave out the multicast", g.kernel->name));
        }
        if (copy && copy->args[0].text != "tma") {
            cx.report("K1182",
                      fmt::format("multicast is done by the TMA, and `{}` comes by copy({})", f.name,
                                  copy->args[0].text),
                      call.span)
                .helps.push_back("write `copy(tma)`");
        }
        if (rows_of(g).producers == 0) {
            cx.report("K1182",
                      fmt::format("multicast fills slots ahead, and `{}` has no warpgroup that does",
                                  g.kernel->name),
                      call.span)
                .helps.push_back("give it a producer: `warpgroups(…, producers = 1)`");
        }
    }

    /// Columns of a product: the Var of its Func that is not the row axis.
    struct Shape {
        std::string row, column;
        std::optional<int64_t> rows, columns;
    };
    std::optional<Shape> shape_of(const TileGroup &g, const FuncNest &f) const {
        Shape s;
        const Rows rows = rows_of(g);
        for (size_t d = 0; d < f.args.size(); d++) {
            const std::optional<int64_t> extent =
                d < f.needed_extents.size() ? f.needed_extents[d] : std::nullopt;
            if (f.args[d] == rows.var) {
                s.row = f.args[d];
                s.rows = extent;
            } else if (!extent || *extent > 1) {
                s.column = f.args[d];
                s.columns = extent;
            }
        }
        return s.row.empty() || s.column.empty() ? std::nullopt : std::optional(s);
    }

    /// Returns the accumulator's registers a thread.
    int64_t product(const TileGroup &g, const FuncNest &f, const StageNest &stage, const DirectiveCall &mma) {
        const std::string &kind = mma.args[0].text;
        const int need = kind == "wgmma" ? 90 : kind == "mma_sync" ? 80 : 0;
        if (kind == "wgmma" && cx.target.feature != "sm_90a") {
            cx.report("K1172", fmt::format("wgmma needs `cuda sm_90a`, the target is `{}`", cx.target.str()),
                      mma.span)
                .helps.push_back("use `mma(mma_sync)` or `mma(fma)` there");
        } else if (cx.target.level() < need) {
            cx.report("K1172",
                      fmt::format("{} needs `cuda sm_{}`, the target is `{}`", kind, need, cx.target.str()),
                      mma.span)
                .helps.push_back("use `mma(fma)` there");
        }
        const Rows rows = rows_of(g);
        const DirectiveCall *turns = said(g.kernel->tile, "ping_pong");
        const bool takes_turns = turns && turns->args[0].text == "tiles";
        const int64_t share = takes_turns ? 1 : rows.consumers;
        const std::optional<Shape> s = shape_of(g, f);
        if (!s || !s->rows || !s->columns) {
            return 0;
        }
        if (kind == "wgmma" && *s->rows % (wgmma_rows * share) != 0) {
            cx.report(
                  "K1176",
                  fmt::format("`{}` has {} rows in a block, wgmma needs a multiple of {}", f.name, *s->rows,
                              wgmma_rows * share),
                  mma.span,
                  takes_turns
                      ? fmt::format("each consumer takes a whole tile, in instructions of {} rows",
                                    wgmma_rows)
                      : fmt::format("{} consumers of {} rows each, along `{}`", share, wgmma_rows, s->row))
                .helps.push_back(fmt::format("split `{}` by {}{}", s->row,
                                             (*s->rows / (wgmma_rows * share) + 1) * wgmma_rows * share,
                                             share > 1 ? ", or use fewer consumers" : ""));
        }
        if (kind == "wgmma" && (*s->columns % 8 != 0 || *s->columns > wgmma_columns)) {
            cx.report("K1176",
                      fmt::format("`{}` has {} columns in a block, wgmma needs a multiple of 8 up to {}",
                                  f.name, *s->columns, wgmma_columns),
                      mma.span, fmt::format("along `{}`", s->column))
                .helps.push_back(
                    fmt::format("split `{}` by {}", s->column,
                                *s->columns > wgmma_columns ? wgmma_columns : (*s->columns / 8 + 1) * 8));
        }
        return *s->rows * *s->columns / (warpgroup_threads * share);
    }

    void registers(const TileGroup &g, int64_t accumulators) {
        const Rows rows = rows_of(g);
        const DirectiveCall *given = said(g.kernel->tile, "registers");
        const int64_t unit = cx.limits.registers_unit, most = cx.limits.registers;
        if (unit <= 0 || most <= 0 || accumulators == 0) {
            return;
        }
        // What setmaxnreg can give a consumer, when the producer keeps little.
        const int64_t producer = given ? given->args[1].int_value : 40;
        const int64_t fair = (unit / warpgroup_threads - producer * rows.producers) / rows.consumers / 8 * 8;
        const int64_t consumer = given ? given->args[0].int_value : std::min<int64_t>({fair, most, 240});
        if (given && (consumer * rows.consumers + producer * rows.producers) * warpgroup_threads > unit) {
            cx.report("K1177",
                      fmt::format("{} consumers of {} registers and {} producers of {} need {} registers, a "
                                  "multiprocessor has {}",
                                  rows.consumers, consumer, rows.producers, producer,
                                  (consumer * rows.consumers + producer * rows.producers) * warpgroup_threads,
                                  unit),
                      given->span)
                .helps.push_back(fmt::format("give the consumers {} or less", fair));
        }
        if (accumulators + other_registers > consumer) {
            const DirectiveCall &mark = g.kernel->tile.at("tile_kernel");
            cx.report("K1177",
                      fmt::format("the accumulators of `{}` take {} registers a thread and the rest about "
                                  "{}, a consumer has {}",
                                  g.kernel->name, accumulators, other_registers, consumer),
                      given ? given->span : mark.span)
                .helps.push_back("use a smaller block, or more consumers");
        }
    }

    // ---- copies

    /// The block that one copy brings, from what its reader needs.
    std::vector<std::optional<int64_t>> box_of(const FuncNest &f) const { return f.needed_extents; }

    void staged(const FuncNest &f) {
        const DirectiveCall *copy = said(f.tile, "copy");
        const std::string kind = copy ? copy->args[0].text : cx.target.feature == "sm_90a" ? "tma" : "plain";
        const Span span = copy ? copy->span : f.made_by;
        if (kind == "tma" && cx.target.feature != "sm_90a") {
            cx.report(
                  "K1172",
                  fmt::format("copies by the TMA need `cuda sm_90a`, the target is `{}`", cx.target.str()),
                  span)
                .helps.push_back("use `copy(cp_async)` or `copy(plain)` there");
            return;
        }
        if (kind == "cp_async" && cx.target.level() < 80) {
            cx.report("K1172",
                      fmt::format("cp_async needs `cuda sm_80`, the target is `{}`", cx.target.str()), span)
                .helps.push_back("use `copy(plain)` there");
            return;
        }
        const auto box = box_of(f);
        if (kind != "tma" || box.empty() || !f.info) {
            return;
        }
        for (size_t d = 1; d < box.size(); d++) {
            if (box[d] && *box[d] > tma_box) {
                cx.report(
                      "K1178",
                      fmt::format(
                          "the TMA moves boxes of at most {} along a dimension, and `{}` has {} along `{}`",
                          tma_box, f.name, *box[d], f.args[d]),
                      span)
                    .helps.push_back("split that dimension by less, or use another copy");
            }
        }
        const int64_t bytes = f.info->bytes_per_element();
        if (box[0] && *box[0] * bytes % 16 != 0) {
            cx.report(
                  "K1178",
                  fmt::format("the TMA moves rows of whole 16 bytes, and those of `{}` have {} ({} of {})",
                              f.name, *box[0] * bytes, *box[0], bytes),
                  span)
                .helps.push_back(fmt::format("make its tile a multiple of {} along `{}`",
                                             16 / std::gcd<int64_t>(16, bytes), f.args[0]));
        }
        if (f.args.size() > 5) {
            cx.report(
                  "K1178",
                  fmt::format("the TMA knows at most 5 dimensions, and `{}` has {}", f.name, f.args.size()),
                  span)
                .helps.push_back("use another copy");
        }
    }

    void shared_memory(const TileGroup &g) {
        int64_t bytes = 0;
        std::vector<std::string> parts;
        const FuncNest *deepest = nullptr;
        int64_t deepest_bytes = 0;
        std::map<std::string, int64_t> counted;
        for (const FuncNest *f : g.inside) {
            if (!f->is_wrapper || f->memory != "GPUShared" || !f->info) {
                continue;
            }
            const auto box = box_of(*f);
            int64_t slot = f->info->bytes_per_element();
            bool known = !box.empty();
            for (const auto &extent : box) {
                known = known && extent;
                slot *= extent.value_or(1);
            }
            if (!known) {
                continue;
            }
            const DirectiveCall *stages = said(f->tile, "stages");
            const int64_t depth = stages ? stages->args[0].int_value : 1;
            // Wrappers that copy the same become one: whether they do shows when the kernel is made.
            int64_t &of_input = counted[f->info->name];
            bytes += std::max<int64_t>(slot * depth - of_input, 0);
            of_input = std::max(of_input, slot * depth);
            parts.push_back(fmt::format("{} x {} for `{}`", depth, slot, f->name));
            if (slot * depth > deepest_bytes) {
                deepest = f;
                deepest_bytes = slot * depth;
            }
        }
        if (cx.limits.shared_bytes > 0 && bytes > cx.limits.shared_bytes && deepest) {
            const DirectiveCall *stages = said(deepest->tile, "stages");
            std::string all;
            for (const std::string &p : parts) {
                all += (all.empty() ? "" : ", ") + p;
            }
            cx.report(
                  "K1179",
                  fmt::format(
                      "the copies of the tile kernel `{}` need {} bytes of shared memory, the device has {}",
                      g.kernel->name, bytes, cx.limits.shared_bytes),
                  stages ? stages->span : deepest->made_by, all)
                .helps.push_back("use fewer stages, or smaller blocks");
        }
    }
};

} // namespace

void check_tile(CheckContext &context) {
    TileKernels(context).run();
}

} // namespace kiln
