// Folded, bounded, ring-buffered and asynchronous storage, prefetches, shared loops.
#include "dsl/schedule/Canonical.h"
#include "dsl/schedule/CheckContext.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace kiln {

namespace {

class Storage {
public:
    explicit Storage(CheckContext &context) : cx(context) {}

    void run() {
        for (const FuncNest &f : cx.nest.funcs) {
            if (f.is_input) {
                continue;
            }
            bounds(f);
            if (is_folded_in(f)) {
                continue;
            }
            folds(f);
            asynchronous(f);
        }
        for (const CheckContext::Later &later : cx.prefetches) {
            prefetch(later);
        }
        for (const CheckContext::Later &later : cx.compute_withs) {
            compute_with(later);
        }
    }

private:
    CheckContext &cx;

    static int dimension(const FuncNest &f, const std::string &dim) {
        return static_cast<int>(std::find(f.args.begin(), f.args.end(), dim) - f.args.begin());
    }

    static std::optional<int64_t> at(const std::vector<std::optional<int64_t>> &extents, int dim) {
        return dim < static_cast<int>(extents.size()) ? extents[dim] : std::nullopt;
    }

    void folds(const FuncNest &f) {
        for (const FuncNest::Amount &fold : f.folds) {
            if (f.store.same_place(f.compute)) {
                cx.report(
                      "K0313",
                      fmt::format("`fold_storage` has nothing to fold: `{}` is stored where it is computed",
                                  f.name),
                      fold.span, fmt::format("both at {}", f.compute.str()))
                    .helps.push_back(
                        "store it further out with `store_at` or `store_root`, or leave the fold out");
                continue;
            }
            std::optional<int64_t> needed = at(f.needed_extents, dimension(f, fold.dim));
            if (needed && fold.value && *fold.value < *needed) {
                cx.report("K0312",
                          fmt::format("a fold of {} loses values of `{}`: {} along `{}` are in use at once",
                                      *fold.value, f.name, *needed, fold.dim),
                          fold.span, fmt::format("its readers at {} need them", f.compute.str()))
                    .helps.push_back(fmt::format("fold by {} or more", *needed));
            }
        }
    }

    void bounds(const FuncNest &f) {
        auto too_small = [&](const FuncNest::Amount &bound, std::optional<int64_t> needed, const char *what) {
            if (needed && bound.value && *bound.value < *needed) {
                cx.report("K0314",
                          fmt::format("{} {} is too small for `{}`: {} along `{}` are needed", what,
                                      *bound.value, f.name, *needed, bound.dim),
                          bound.span)
                    .helps.push_back(fmt::format("give {} or more", *needed));
            }
        };
        for (const FuncNest::Amount &bound : f.bounds) {
            std::optional<int64_t> needed = at(f.needed_extents, dimension(f, bound.dim));
            if (f.is_output && f.info) {
                for (const DimInfo &d : f.info->stages[0].dims) {
                    if (d.name == bound.dim) {
                        needed = d.extent;
                    }
                }
            }
            too_small(bound, needed, "a bound of");
        }
        for (const FuncNest::Amount &bound : f.storage_bounds) {
            too_small(bound, at(f.stored_extents, dimension(f, bound.dim)), "a storage bound of");
        }
    }

    void asynchronous(const FuncNest &f) {
        if (f.ring_buffer && f.hoist.same_place(f.store)) {
            cx.report(
                  "K0311",
                  fmt::format("a ring buffer needs `{}` allocated outside the loop that fills it", f.name),
                  f.ring_span, fmt::format("it is stored and allocated at {}", f.store.str()))
                .helps.push_back("add `hoist_storage` at a loop further out");
        }
        if (f.async_span.line == 0) {
            return;
        }
        bool split = f.compute.kind == NestLevel::Kind::At &&
                     (!f.store.same_place(f.compute) || (f.ring_buffer && !f.hoist.same_place(f.compute)));
        if (!split) {
            Diagnostic &d =
                cx.report("K0310", fmt::format("`async` has no loop in which `{}` could run ahead", f.name),
                          f.async_span,
                          f.compute.kind == NestLevel::Kind::Root
                              ? "it is computed at root, whole before its readers"
                              : fmt::format("it is stored and computed at {}", f.compute.str()));
            d.helps.push_back(
                "compute it at a loop of its reader and store it outside that loop, or leave `async` out");
        }
        for (const LoopNest::Enclosing &e : cx.nest.enclosing(f.compute)) {
            if (is_gpu_loop(e.loop().kind)) {
                cx.report("K0310", fmt::format("`async` cannot run inside the kernel of `{}`", e.func->name),
                          f.async_span,
                          fmt::format("`{}` is computed inside its loop `{}`", f.name, e.loop().name))
                    .helps.push_back("leave `async` out, or compute the Func outside the kernel");
                break;
            }
        }
    }

    const StageNest *stage_of_later(const CheckContext::Later &later) const {
        const StageNest *stage = cx.nest.stage(later.func, later.update);
        for (const std::string &condition : later.conditions) {
            if (!stage) {
                break;
            }
            auto it = std::find_if(stage->specializations.begin(), stage->specializations.end(),
                                   [&](const StageNest &s) { return s.conditions.back() == condition; });
            stage = it == stage->specializations.end() ? nullptr : &*it;
        }
        return stage;
    }

    bool has_loop(const StageNest &stage, const Node &node) {
        if (stage.find(node.text)) {
            return true;
        }
        if (!cx.damaged.count(stage.func)) {
            Diagnostic &d =
                cx.report("K0107", fmt::format("no loop `{}` in `{}`", node.text, stage.name()), node.span,
                          fmt::format("loops of `{}`, inner first: {}", stage.name(),
                                      fmt::join(stage.loop_names(), ", ")));
            if (std::string near = nearest(node.text, stage.loop_names()); !near.empty()) {
                d.helps.push_back(fmt::format("did you mean `{}`?", near));
            }
        }
        return false;
    }

    /// Reads `func` itself or through inlined Funcs.
    bool reads(const StageNest &stage, const std::string &func, std::set<std::string> &seen) const {
        for (const ReadInfo &read : stage.reads) {
            if (read.func == func) {
                return true;
            }
            const FuncNest *g = cx.nest.find(read.func);
            if (g && is_folded_in(*g) && seen.insert(g->name).second && !g->stages.empty() &&
                reads(g->stages[0], func, seen)) {
                return true;
            }
        }
        return false;
    }

    void prefetch(const CheckContext::Later &later) {
        const StageNest *stage = stage_of_later(later);
        if (!stage) {
            return;
        }
        const Node &what = later.call->args[0], &at = later.call->args[1], &from = later.call->args[2];
        const FuncNest *f = cx.nest.find(what.text);
        if (!f) {
            std::vector<std::string> names = cx.nest.names();
            Diagnostic &d = cx.report("K0101", fmt::format("no Func `{}` to prefetch", what.text), what.span,
                                      "Funcs and inputs are " + names_text(names));
            if (std::string near = nearest(what.text, names); !near.empty()) {
                d.helps.push_back(fmt::format("did you mean `{}`?", near));
            }
            return;
        }
        if (!has_loop(*stage, at) || !has_loop(*stage, from)) {
            return;
        }
        if (stage->index_of(from.text) < stage->index_of(at.text)) {
            cx.report("K0315",
                      fmt::format("`{}` is inside `{}`, so it cannot tell what comes next there", from.text,
                                  at.text),
                      from.span,
                      fmt::format("loops of `{}`, inner first: {}", stage->name(),
                                  fmt::join(stage->loop_names(), ", ")))
                .helps.push_back(fmt::format("name `{}` or a loop outside it as the second loop", at.text));
            return;
        }
        std::set<std::string> seen;
        if (!f->is_input && is_folded_in(*f)) {
            cx.report("K0315",
                      fmt::format("`{}` is computed inline, so there is no memory to prefetch", f->name),
                      what.span)
                .helps.push_back("prefetch what it reads, or compute it at root");
            return;
        }
        // A Func computed inside the loop may be what reads it.
        bool used = reads(*stage, f->name, seen);
        for (const CheckContext::Chain &chain : cx.uses_of(f->name)) {
            for (const LoopNest::Enclosing &e : chain) {
                used = used || (e.func->name == stage->func && e.stage->update == stage->update &&
                                e.index <= stage->index_of(at.text));
            }
        }
        if (!used) {
            cx.report(
                  "K0315",
                  fmt::format("nothing inside loop `{}` of `{}` reads `{}`", at.text, stage->name(), f->name),
                  what.span, fmt::format("`{}` is read by {}", f->name, names_text(f->callers, "nothing")))
                .helps.push_back("move the prefetch to a stage that reads it");
            return;
        }
        // Iterations of a loop that no index follows need the same elements: the prefetch would fetch what is there.
        if (!moves_with(*stage, f->name, from.text)) {
            cx.report("K0315",
                      fmt::format("what `{}` reads of `{}` does not change with `{}`", stage->name(), f->name,
                                  from.text),
                      from.span)
                .helps.push_back("prefetch along a loop that the read follows");
        }
    }

    /// Whether a read of `func` by this stage follows `loop`; true also where that cannot be told.
    bool moves_with(const StageNest &stage, const std::string &func, const std::string &loop) const {
        std::vector<std::string> roots = stage.roots_of(loop);
        bool direct = false;
        for (const ReadInfo &read : stage.reads) {
            if (read.func != func) {
                continue;
            }
            direct = true;
            for (const IndexInfo &index : read.indices) {
                if (index.from_data) {
                    return true;
                }
                for (const std::string &used : index.loops) {
                    if (std::find(roots.begin(), roots.end(), used) != roots.end()) {
                        return true;
                    }
                }
            }
        }
        return !direct;
    }

    void compute_with(const CheckContext::Later &later) {
        const StageNest *stage = stage_of_later(later);
        std::optional<StageRef> ref = stage_of(later.call->args[0]);
        if (!stage || !ref) {
            return;
        }
        StageRef whole = *ref;
        whole.update = -1;
        const Node &loop = later.call->args[1];
        const FuncNest *other = cx.nest.find(whole.str()), *own = cx.nest.find(later.func);
        const StageNest *with = other ? cx.nest.stage(other->name, ref->update) : nullptr;
        if (!with || !own || !has_loop(*with, loop) || !has_loop(*stage, loop)) {
            return;
        }
        for (const auto &[reader, read] : {std::pair(own, other), std::pair(other, own)}) {
            if (depends(*reader, read->name)) {
                cx.report(
                      "K0317",
                      fmt::format("`{}` needs `{}`, so the two cannot share loops", reader->name, read->name),
                      later.call->span)
                    .helps.push_back(
                        fmt::format("use `{}.compute_at({}, {})`", read->name, reader->name, loop.text));
                return;
            }
        }
        if (!own->compute.same_place(other->compute)) {
            cx.report("K0317",
                      fmt::format("`{}` and `{}` are computed at different places", own->name, other->name),
                      later.call->span,
                      fmt::format("at {} and at {}", own->compute.str(), other->compute.str()))
                .helps.push_back("compute both at the same place");
        }
    }

    bool depends(const FuncNest &f, const std::string &on) const {
        std::set<std::string> seen = {f.name};
        std::vector<std::string> todo = {f.name};
        while (!todo.empty()) {
            const FuncNest *g = cx.nest.find(todo.back());
            todo.pop_back();
            for (const std::string &callee : g ? g->callees : std::vector<std::string>()) {
                if (callee == on) {
                    return true;
                }
                if (seen.insert(callee).second) {
                    todo.push_back(callee);
                }
            }
        }
        return false;
    }
};

} // namespace

void check_storage(CheckContext &context) {
    Storage(context).run();
}

} // namespace kiln
