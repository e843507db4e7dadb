// Where Funcs are computed, stored and allocated.
#include "dsl/schedule/CheckContext.h"
#include "dsl/schedule/TileGroup.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

namespace kiln {

namespace {

class Placement {
public:
    explicit Placement(CheckContext &context) : cx(context) {}

    void run() {
        for (FuncNest &f : cx.nest.funcs) {
            if (!f.is_input) {
                for (NestLevel *level : {&f.compute, &f.store, &f.hoist}) {
                    resolve(f, *level);
                }
            }
        }
        break_circles();
        for (FuncNest &f : cx.nest.funcs) {
            if (!f.is_input && !f.is_output) {
                check(f);
            }
        }
    }

private:
    CheckContext &cx;
    std::map<std::string, std::set<std::string>> reached;

    /// Everything that `func` needs, itself among it.
    const std::set<std::string> &needs(const std::string &func) {
        if (auto it = reached.find(func); it != reached.end()) {
            return it->second;
        }
        std::set<std::string> all = {func};
        std::vector<std::string> todo = {func};
        while (!todo.empty()) {
            const FuncNest *f = cx.nest.find(todo.back());
            todo.pop_back();
            for (const std::string &callee : f ? f->callees : std::vector<std::string>()) {
                if (all.insert(callee).second) {
                    todo.push_back(callee);
                }
            }
        }
        return reached[func] = std::move(all);
    }

    static bool has_loop(const StageNest &stage, const std::string &loop) {
        return loop == "outermost" || stage.find(loop) ||
               std::any_of(stage.specializations.begin(), stage.specializations.end(),
                           [&](const StageNest &special) { return has_loop(special, loop); });
    }

    static std::string loops_text(const FuncNest &f) {
        std::vector<std::string> parts;
        for (const StageNest &stage : f.stages) {
            parts.push_back(stage.loops.empty()
                                ? fmt::format("`{}` has none", stage.name())
                                : fmt::format("`{}`: {}", stage.name(), fmt::join(stage.loop_names(), ", ")));
        }
        return fmt::format("loops, inner first: {}", fmt::join(parts, "; "));
    }

    /// Forgets a faulty level, so that it makes no echoes.
    static void drop(FuncNest &f, NestLevel &level) {
        bool compute = &level == &f.compute;
        Span span = level.span;
        level = {};
        level.kind = compute ? NestLevel::Kind::Root : NestLevel::Kind::Inlined;
        if (compute) {
            level.span = span;
            f.store = f.hoist = {};
        }
    }

    void resolve(FuncNest &f, NestLevel &level) {
        if (level.kind != NestLevel::Kind::At) {
            return;
        }
        const FuncNest *host = cx.nest.find(level.func);
        if (!host) {
            cx.report("K0101", fmt::format("no Func `{}`", level.func), level.span,
                      "the schedule makes no such wrapper")
                .helps.push_back(fmt::format("schedule `{}` in a statement of its own", level.func));
            return drop(f, level);
        }
        if (is_folded_in(*host)) {
            Diagnostic &d = cx.report(
                "K0305",
                fmt::format("`{}` is computed inline, so it has no loops for `{}`", host->name, f.name),
                level.span);
            d.helps.push_back(
                fmt::format("give `{}` a place of its own: `{}.compute_root()`", host->name, host->name));
            return drop(f, level);
        }
        const StageNest *chosen = nullptr;
        for (const StageNest &stage : host->stages) {
            if ((level.update != any_stage && stage.update != level.update) || !has_loop(stage, level.loop)) {
                continue;
            }
            bool reads = std::any_of(stage.reads.begin(), stage.reads.end(),
                                     [&](const ReadInfo &r) { return needs(r.func).count(f.name) > 0; });
            if (!chosen || reads) {
                chosen = &stage;
            }
            if (reads) {
                break;
            }
        }
        if (!chosen) {
            if (!cx.damaged.count(host->name)) {
                no_loop(f, *host, level);
            }
            return drop(f, level);
        }
        level.update = chosen->update;
    }

    void no_loop(const FuncNest &f, const FuncNest &host, const NestLevel &level) {
        Diagnostic &d = cx.report("K0107", fmt::format("no loop `{}` in `{}`", level.loop, host.name),
                                  level.span, loops_text(host));
        std::vector<std::string> names;
        for (const StageNest &stage : host.stages) {
            for (const Loop &l : stage.loops) {
                names.push_back(l.name);
            }
            if (const LoopStep *step = stage.consumer_of(level.loop)) {
                std::string now = step->kind == LoopStep::Kind::Split
                                      ? fmt::format("split into `{}` and `{}`", step->outer, step->inner)
                                  : step->kind == LoopStep::Kind::Fuse
                                      ? fmt::format("fused into `{}`", step->old)
                                      : "renamed or moved away";
                d.notes.push_back(fmt::format("`{}` was {} on {}", level.loop, now, where(step->span)));
            }
        }
        if (std::string near = nearest(level.loop, names); !near.empty()) {
            d.helps.push_back(fmt::format("did you mean `{}`?", near));
        }
    }

    void break_circles() {
        for (FuncNest &f : cx.nest.funcs) {
            std::vector<std::string> path = {f.name};
            const FuncNest *at = &f;
            while (at && at->compute.kind == NestLevel::Kind::At && path.size() <= cx.nest.funcs.size()) {
                path.push_back(at->compute.func);
                at = cx.nest.find(at->compute.func);
                if (at == &f) {
                    cx.report("K0318", fmt::format("`{}` is computed inside itself", f.name), f.compute.span,
                              fmt::format("the places go in a circle: {}", fmt::join(path, " in ")))
                        .helps.push_back(fmt::format("compute `{}` where its readers are", f.name));
                    drop(f, f.compute);
                    break;
                }
            }
        }
    }

    void add_places(Diagnostic &d, const FuncNest &f) {
        std::vector<std::string> places = cx.legal_places(f.name);
        if (places.size() > 4) {
            places.erase(places.begin(), places.end() - 4);
        }
        places.push_back("compute_root()");
        d.helps.push_back("legal are " + names_text(places));
    }

    void check(FuncNest &f) {
        if (f.compute.span.line > 0 && f.is_inlined() && !is_folded_in(f)) {
            cx.report("K0303", fmt::format("`{}` cannot be computed inline", f.name), f.compute.span,
                      f.is_extern ? "it is an extern stage" : "it has updates")
                .helps.push_back("compute it at root or at a loop of a Func that reads it");
        }
        if (is_folded_in(f)) {
            auto call = cx.first_call.find(f.name);
            if (call != cx.first_call.end()) {
                Diagnostic &d = cx.report(
                    "K0302",
                    fmt::format("`{}` is computed inline, so `{}` has no effect", f.name, call->second->name),
                    call->second->span, "an inlined Func has no loops and no storage");
                add_places(d, f);
            }
            return;
        }
        auto call = cx.first_call.find(f.name);
        if (f.is_inlined() && call != cx.first_call.end()) {
            Diagnostic &d = cx.report(
                "K0324", fmt::format("`{}` has a schedule but no place to be computed", f.name),
                call->second->span, "without one it is computed anew in the innermost loop of each reader");
            add_places(d, f);
            f.compute.kind = NestLevel::Kind::Root;
            return;
        }
        if (f.compute.kind == NestLevel::Kind::At) {
            check_compute(f);
        }
        check_outer(f, f.store, f.compute, "stored", "computed");
        check_outer(f, f.hoist, f.store, "allocated", "stored");
        check_race(f);
    }

    bool encloses(const CheckContext::Chain &chain, const NestLevel &level) const {
        return std::any_of(chain.begin(), chain.end(), [&](const LoopNest::Enclosing &e) {
            return e.func->name == level.func && e.loop().name == level.loop;
        });
    }

    /// Outputs of one tile kernel, and their updates, share its block loops.
    bool in_same_tile_kernel(const CheckContext::Chain &chain, const NestLevel &level) const {
        const FuncNest *host = cx.nest.find(level.func);
        const std::string kernel = host ? tile_kernel_of(*host) : "";
        return !kernel.empty() && std::any_of(chain.begin(), chain.end(), [&](const LoopNest::Enclosing &e) {
            return tile_kernel_of(*e.func) == kernel && (e.func->name != level.func || e.stage->update >= 0);
        });
    }

    void check_compute(FuncNest &f) {
        const NestLevel &level = f.compute;
        const std::vector<CheckContext::Chain> &uses = cx.uses_of(f.name);
        if (level.loop == "outermost" || !cx.nest.stage(level.func, level.update)->find(level.loop)) {
            return; // around all loops, or in a specialization: Halide judges
        }
        const CheckContext::Chain *outside = nullptr;
        size_t inside = 0;
        for (const CheckContext::Chain &chain : uses) {
            if (encloses(chain, level) || in_same_tile_kernel(chain, level)) {
                inside++;
            } else {
                outside = &chain;
            }
        }
        if (inside == 0) {
            Diagnostic &d = cx.report(
                "K0304",
                fmt::format("`{}` is not used inside loop `{}` of `{}`", f.name, level.loop, level.func),
                level.span, fmt::format("`{}` is read by {}", f.name, names_text(f.callers, "nothing")));
            add_places(d, f);
            return drop(f, f.compute);
        }
        if (outside) {
            std::string other =
                outside->empty() ? "a stage without loops" : "`" + outside->back().func->name + "`";
            Diagnostic &d = cx.report(
                "K0306",
                fmt::format("`{}` is also used outside loop `{}` of `{}`", f.name, level.loop, level.func),
                level.span, fmt::format("by {}", other));
            add_places(d, f);
            return drop(f, f.compute);
        }
        between_gpu_loops(f, *cx.nest.stage(level.func, level.update));
    }

    /// The loops of blocks, and those of threads, are one launch: nothing can be computed between two of them.
    void between_gpu_loops(const FuncNest &f, const StageNest &stage) {
        int index = stage.index_of(f.compute.loop);
        auto group = [](LoopKind kind) {
            return kind == LoopKind::GpuBlock                                 ? 1
                   : kind == LoopKind::GpuThread || kind == LoopKind::GpuLane ? 2
                                                                              : 0;
        };
        int own = group(stage.loops[index].kind);
        int innermost = 0;
        while (innermost < index && group(stage.loops[innermost].kind) != own) {
            innermost++;
        }
        if (own == 0 || innermost == index) {
            return;
        }
        const char *word = own == 1 ? "block" : "thread";
        Diagnostic &d = cx.report(
            "K0407",
            fmt::format("`{}` would be computed between the {} loops of `{}`", f.name, word, stage.name()),
            f.compute.span,
            fmt::format("`{}` is a {} loop inside `{}`", stage.loops[innermost].name, word, f.compute.loop));
        d.helps.push_back(fmt::format("compute it at the innermost {} loop: `compute_at({}, {})`", word,
                                      f.compute.func, stage.loops[innermost].name));
        d.helps.push_back("or at root");
    }

    /// A place around another: `outer` must be the same as `inner` or enclose it.
    void check_outer(FuncNest &f, NestLevel &outer, const NestLevel &inner, const char *outer_word,
                     const char *inner_word) {
        if (outer.span.line == 0) {
            Span none = outer.span;
            outer = inner;
            outer.span = none;
            return;
        }
        if (outer.kind == NestLevel::Kind::Root || outer.same_place(inner)) {
            return;
        }
        bool ok = outer.loop == "outermost";
        for (const LoopNest::Enclosing &e : cx.nest.enclosing(inner)) {
            ok = ok || (e.func->name == outer.func && e.loop().name == outer.loop);
        }
        if (!ok) {
            std::vector<std::string> places;
            for (const LoopNest::Enclosing &e : cx.nest.enclosing(inner)) {
                places.push_back(fmt::format("({}, {})", e.func->name, e.loop().name));
            }
            places.push_back("root");
            cx.report("K0307",
                      fmt::format("`{}` is {} at {}, which does not enclose where it is {}", f.name,
                                  outer_word, outer.str(), inner_word),
                      outer.span, fmt::format("it is {} at {}", inner_word, inner.str()))
                .helps.push_back("legal are " + names_text(places));
            outer = inner;
        }
    }

    void check_race(const FuncNest &f) {
        if (f.store.same_place(f.compute) || f.compute.kind != NestLevel::Kind::At) {
            return;
        }
        auto find = [](const CheckContext::Chain &chain, const NestLevel &level) {
            int at = -1;
            for (size_t i = 0; i < chain.size() && level.kind == NestLevel::Kind::At; i++) {
                at = chain[i].func->name == level.func && chain[i].loop().name == level.loop
                         ? static_cast<int>(i)
                         : at;
            }
            return at;
        };
        for (const CheckContext::Chain &chain : cx.uses_of(f.name)) {
            for (int i = find(chain, f.store) + 1; i <= find(chain, f.compute); i++) {
                const Loop &l = chain[i].loop();
                if (l.kind == LoopKind::Serial || l.kind == LoopKind::Unrolled) {
                    continue;
                }
                Diagnostic &d = cx.report(
                    "K0323",
                    fmt::format("iterations of `{}` would share one storage of `{}`", l.name, f.name),
                    f.store.span.line > 0 ? f.store.span : f.compute.span,
                    fmt::format("`{}` of `{}` is {} since {}", l.name, chain[i].func->name,
                                loop_kind_name(l.kind), where(l.kind_by)));
                d.notes.push_back(
                    fmt::format("`{}` is stored outside that loop and computed inside it", f.name));
                d.helps.push_back(
                    fmt::format("store it inside: `store_at({}, {})`", chain[i].func->name, l.name));
                return;
            }
        }
    }
};

} // namespace

void check_placement(CheckContext &context) {
    Placement(context).run();
}

} // namespace kiln
