#include "dsl/search/space/RenderStage.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace kiln::search {

namespace {

/// Copies of the loop body that unrolling may make, vectors together.
constexpr int64_t most_unrolled = 64;

std::string clean(std::string name) {
    std::replace(name.begin(), name.end(), '.', '_');
    return name;
}

class StageRenderer {
public:
    StageRenderer(const PlanContext &cx, const std::string &func, const FuncPlan &f, int stage,
                  const PlanContext::Sizes &sizes, StageLoops &out)
        : cx(cx), func(func), f(f), stage(stage), info(cx.info(func)),
          dims(info.stages[static_cast<size_t>(stage)].dims), sizes(sizes), out(out),
          suffix(stage == 0 ? "" : std::to_string(stage - 1)) {}

    std::string run() {
        for (int d : f.order) {
            if (d < static_cast<int>(info.args.size()) && has_dim(info.args[static_cast<size_t>(d)])) {
                pure_dim(d);
            }
        }
        reductions();
        return finish();
    }

private:
    const PlanContext &cx;
    const std::string &func;
    const FuncPlan &f;
    int stage;
    const FuncInfo &info;
    const std::vector<DimInfo> &dims;
    const PlanContext::Sizes &sizes;
    StageLoops &out;
    std::string suffix, splits, kinds;
    std::array<std::vector<std::string>, Reduce + 1> at; ///< loops by level, innermost first
    std::vector<std::string> reduce_outer, reduce_inner;
    std::vector<std::string> vectors, unrolled;
    int64_t copies = 1;

    bool has_dim(const std::string &name) const {
        return std::any_of(dims.begin(), dims.end(),
                           [&](const DimInfo &d) { return !d.is_rvar && d.name == name; });
    }

    std::string tail(int64_t size, int64_t factor) const {
        if (size % factor == 0 && f.place.where == Where::At) {
            return "";
        }
        if (stage > 0) {
            return size % factor == 0 && f.tail == Tail::Round ? ", RoundUp" : "";
        }
        return f.tail == Tail::Shift   ? ", ShiftInwards"
               : f.tail == Tail::Round ? info.is_output ? "" : ", RoundUp"
                                       : "";
    }

    std::string fresh(const std::string &dim, const char *part) const {
        return fmt::format("{}_{}{}", clean(dim), part, suffix);
    }

    void pure_dim(int d) {
        static const char *parts[] = {"t", "a", "b", "r"};
        const std::string &name = info.args[static_cast<size_t>(d)];
        std::string now = name;
        int64_t size = std::max<int64_t>(1, sizes.domain[static_cast<size_t>(d)]);
        bool made = false; // `now` is the inner part of a split: its extent is a constant
        for (int level = Task; level < tile_levels; level++) {
            int64_t part = sizes.tile[level][static_cast<size_t>(d)];
            if (part >= size) {
                continue;
            }
            std::string outer = fresh(name, parts[level]);
            if (part == 1) {
                splits += fmt::format(".rename({}, {})", now, outer);
                at[level].push_back(outer);
                return;
            }
            std::string inner = fresh(name, level == Block   ? "i"
                                            : level == Task  ? "ti"
                                            : level == Outer ? "ai"
                                                             : "bi");
            splits += fmt::format(".split({}, {}, {}, {}{})", now, outer, inner, part,
                                  made ? "" : tail(size, part));
            at[level].push_back(outer);
            now = inner;
            size = part;
            made = true;
        }
        inside(d, name, now, size, made || constant_domain(d));
    }

    /// Whether what is computed of a dimension is a constant: a part of it, in a tile, by readers that all move alike.
    bool constant_domain(int d) const {
        size_t dim = static_cast<size_t>(d);
        const std::vector<int64_t> &whole = cx.algorithm(func).extents;
        bool read_there = info.callers.size() == 1 && info.callers[0] == f.place.host;
        return f.place.where == Where::At && f.place.level >= Inner && read_there && dim < whole.size() &&
               sizes.domain[dim] < whole[dim] && cx.read_alike(func, dim);
    }

    /// What is left of a dimension inside its tiles: vectors and copies.
    void inside(int d, const std::string &name, std::string now, int64_t size, bool is_constant) {
        bool is_vector = d == f.vector_dim && f.lanes > 1 && size > 1;
        if (is_vector && size > f.lanes) {
            std::string u = fresh(name, "u"), v = fresh(name, "v");
            splits += fmt::format(".split({}, {}, {}, {}{})", now, u, v, f.lanes,
                                  is_constant ? "" : tail(size, f.lanes));
            vectors.push_back(v);
            rest(u, (size + f.lanes - 1) / f.lanes, is_constant);
            return;
        }
        if (is_vector && is_constant && (size & (size - 1)) == 0) {
            vectors.push_back(now);
            return;
        }
        rest(now, size, is_constant);
    }

    void rest(const std::string &loop, int64_t size, bool is_constant) {
        bool unroll = is_constant && size > 1 && copies * size <= most_unrolled;
        if (unroll) {
            copies *= size;
            unrolled.push_back(loop);
        } else if (size > 1 || !is_constant) {
            at[Block].push_back(loop);
        } else {
            unrolled.push_back(loop); // one iteration
        }
    }

    void reductions() {
        bool first = true;
        for (const DimInfo &d : dims) {
            if (!d.is_rvar) {
                continue;
            }
            std::string now = d.name;
            if (first && f.reduce > 0 && (!d.extent || f.reduce < *d.extent)) {
                std::string o = fresh(d.name, "o"), i = fresh(d.name, "i");
                splits += fmt::format(".split({}, {}, {}, {})", now, o, i, f.reduce);
                reduce_outer.push_back(o);
                now = i;
                if (f.reduce_unroll > 1 && f.reduce % f.reduce_unroll == 0 && f.reduce > f.reduce_unroll) {
                    std::string ro = fresh(d.name, "m"), u = fresh(d.name, "u");
                    splits += fmt::format(".split({}, {}, {}, {})", now, ro, u, f.reduce_unroll);
                    reduce_inner.push_back(ro);
                    unrolled.push_back(u);
                } else if (f.reduce_unroll > 1 && f.reduce <= f.reduce_unroll) {
                    unrolled.push_back(now);
                } else {
                    reduce_inner.push_back(now);
                }
            } else if (first && f.reduce_unroll > 1 && (!d.extent || f.reduce_unroll < *d.extent)) {
                std::string o = fresh(d.name, "m"), u = fresh(d.name, "u");
                splits += fmt::format(".split({}, {}, {}, {})", now, o, u, f.reduce_unroll);
                reduce_inner.push_back(o);
                unrolled.push_back(u);
            } else {
                (first ? reduce_inner : reduce_outer).push_back(now);
            }
            first = false;
        }
    }

    std::string finish() {
        // Innermost first.
        std::vector<std::string> order = vectors;
        order.insert(order.end(), unrolled.begin(), unrolled.end());
        std::vector<std::pair<int, std::vector<std::string>>> nest;
        std::vector<std::string> both = reduce_inner;
        both.insert(both.end(), reduce_outer.begin(), reduce_outer.end());
        bool outside = f.reduce_outside && !reduce_outer.empty();
        nest.emplace_back(Reduce, outside ? reduce_inner : both);
        nest.emplace_back(Block, at[Block]);
        if (cx.is_gpu) {
            nest.emplace_back(Outer, at[Outer]);
            nest.emplace_back(Inner, at[Inner]);
        } else {
            nest.emplace_back(Inner, at[Inner]);
            nest.emplace_back(Outer, at[Outer]);
        }
        if (outside) {
            nest.emplace_back(Reduce, reduce_outer);
        }
        nest.emplace_back(Task, at[Task]);
        out.levels.assign(Reduce + 1, "");
        for (const auto &[level, loops] : nest) {
            order.insert(order.end(), loops.begin(), loops.end());
            // What depends on the reduction is computed in its outer loop.
            if (!loops.empty() && (level != Reduce || out.levels[Reduce].empty() || outside)) {
                out.levels[level] = level == Reduce && !outside && !reduce_outer.empty()
                                        ? reduce_outer.front()
                                        : loops.front();
            }
        }
        for (auto it = nest.rbegin(); it != nest.rend(); ++it) {
            out.nesting.push_back(it->first);
        }
        std::string text = splits;
        if (order.size() > 1) {
            text += fmt::format(".reorder({})", fmt::join(order, ", "));
        }
        for (const std::string &v : vectors) {
            kinds += fmt::format(".vectorize({})", v);
        }
        for (const std::string &u : unrolled) {
            kinds += fmt::format(".unroll({})", u);
        }
        return text + (cx.is_gpu ? gpu_kinds() : cpu_kinds());
    }

    std::string cpu_kinds() {
        std::vector<std::string> tasks = at[Task];
        if (f.place.where != Where::Root || tasks.empty()) {
            return kinds;
        }
        std::reverse(tasks.begin(), tasks.end()); // outermost first
        size_t fused =
            f.fused <= 0 ? tasks.size() : std::min<size_t>(tasks.size(), static_cast<size_t>(f.fused));
        std::string loop = tasks[0], text;
        for (size_t i = 1; i < fused; i++) {
            std::string task = i + 1 == fused ? "task" + suffix : fmt::format("task{}_{}", suffix, i);
            text += fmt::format(".fuse({}, {}, {})", tasks[i], loop, task);
            loop = task;
        }
        if (fused == tasks.size()) {
            out.levels[Task] = loop;
        }
        return text + kinds + fmt::format(".parallel({})", loop);
    }

    std::string gpu_kinds() {
        std::string text = kinds;
        if (f.place.where == Where::Root) {
            std::vector<std::string> blocks = at[Task];
            if (blocks.empty()) {
                return text + (at[Inner].empty() ? ".gpu_single_thread()" : "");
            }
            std::string fuses;
            while (blocks.size() > 3) {
                std::string loop = fmt::format("blocks{}_{}", suffix, blocks.size());
                fuses += fmt::format(".fuse({}, {}, {})", blocks[blocks.size() - 2], blocks.back(), loop);
                blocks.pop_back();
                blocks.back() = loop;
            }
            out.levels[Task] = blocks.front();
            text = fuses + text + fmt::format(".gpu_blocks({})", fmt::join(blocks, ", "));
        }
        bool has_threads = f.place.where == Where::Root || f.place.level == Task;
        if (has_threads && !at[Inner].empty()) {
            std::vector<std::string> threads = at[Inner];
            threads.resize(std::min<size_t>(threads.size(), 3));
            text += fmt::format(".gpu_threads({})", fmt::join(threads, ", "));
        }
        return text;
    }
};

} // namespace

std::string StageLoops::innermost_at(int level) const {
    std::string loop;
    for (int l : nesting) {
        if (!levels[static_cast<size_t>(l)].empty()) {
            loop = levels[static_cast<size_t>(l)];
        }
        if (l == level) {
            break;
        }
    }
    return loop;
}

std::string render_stage(const PlanContext &cx, const std::string &func, const FuncPlan &plan, int stage,
                         const PlanContext::Sizes &sizes, StageLoops &loops) {
    return StageRenderer(cx, func, plan, stage, sizes, loops).run();
}

std::string render_rfactor(const PlanContext &cx, const std::string &func, const FuncPlan &f, int stage,
                           const std::string &place, const PlanContext::Sizes &sizes) {
    const FuncInfo &info = cx.info(func);
    const std::vector<DimInfo> &dims = info.stages[static_cast<size_t>(stage)].dims;
    std::string r, pure;
    for (const DimInfo &d : dims) {
        if (d.is_rvar && r.empty()) {
            r = d.name;
        }
    }
    std::string part = fmt::format("{}_part{}", func, stage == 1 ? "" : std::to_string(stage - 1));
    std::string base = clean(r);
    std::string update = fmt::format("{}.update({})", func, stage - 1);
    std::string u = base + "_p", uo = base + "_po", uv = base + "_pv", ro = base + "_o", ri = base + "_i";
    std::string where = place.empty() ? ".compute_root()" : place;
    std::string text = fmt::format("  {} = {}.split({}, {}, {}, {}, GuardWithIf).rfactor({}, {});\n", part,
                                   update, r, ro, ri, f.rfactor, ri, u);
    if (cx.is_gpu) {
        text += fmt::format("  {}{}.store_in(GPUShared).gpu_threads({});\n", part, where, u);
        text += fmt::format("  {}.update().reorder({}, {}).gpu_threads({});\n", part, ro, u, u);
        return text;
    }
    // The Func's own dimensions stay around the vectors.
    std::vector<std::string> outer;
    for (const DimInfo &d : dims) {
        if (!d.is_rvar) {
            outer.push_back(d.name);
        }
    }
    int lanes = std::min(f.rfactor, cx.native_lanes(func));
    bool copies = f.rfactor > lanes;
    std::string split = copies ? fmt::format(".split({}, {}, {}, {})", u, uo, uv, lanes) : "";
    std::string vector =
        copies ? fmt::format(".vectorize({}).unroll({})", uv, uo) : fmt::format(".vectorize({})", u);
    std::vector<std::string> order = copies ? std::vector<std::string>{uv, uo} : std::vector<std::string>{u};
    std::vector<std::string> init = order, sum = order;
    sum.push_back(ro);
    init.insert(init.end(), outer.begin(), outer.end());
    sum.insert(sum.end(), outer.begin(), outer.end());
    bool first_rvar_only =
        std::count_if(dims.begin(), dims.end(), [](const DimInfo &d) { return d.is_rvar; }) == 1;
    auto reorder = [](const std::vector<std::string> &loops) {
        return loops.size() > 1 ? fmt::format(".reorder({})", fmt::join(loops, ", ")) : std::string();
    };
    std::string parallel = f.place.where == Where::Root && !outer.empty()
                               ? fmt::format(".parallel({})", outer.back())
                               : std::string();
    text += fmt::format("  {}{}{}{}{}{};\n", part, where, split, reorder(init), vector, parallel);
    if (first_rvar_only) {
        text += fmt::format("  {}.update(){}{}{}{};\n", part, split, reorder(sum), vector, parallel);
    } else {
        text += fmt::format("  {}.update(){}{}{};\n", part, split, vector, parallel);
    }
    return text;
}

} // namespace kiln::search
