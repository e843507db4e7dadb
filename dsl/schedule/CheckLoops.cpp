// The directives that make, order and mark loops.
#include "dsl/schedule/CheckBuild.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace kiln {

namespace {

std::string inner_first(const StageNest &stage) {
    return stage.loops.empty() ? fmt::format("`{}` has no loops", stage.name())
                               : fmt::format("loops of `{}` here, inner first: {}", stage.name(),
                                             fmt::join(stage.loop_names(), ", "));
}

std::string what_happened(const StageNest &stage, const LoopStep &step, const std::string &name) {
    switch (step.kind) {
    case LoopStep::Kind::Split:
        return fmt::format("`{}` was split into `{}` and `{}` on {}", name, step.outer, step.inner,
                           where(step.span));
    case LoopStep::Kind::Fuse:
        return fmt::format("`{}` was fused into `{}` on {}", name, step.old, where(step.span));
    case LoopStep::Kind::Rename:
        return fmt::format("`{}` was renamed to `{}` on {}", name, step.inner, where(step.span));
    case LoopStep::Kind::Rfactor:
        return fmt::format("`{}` went into `{}` by `rfactor` on {}", name, step.outer, where(step.span));
    }
    return stage.name();
}

bool predicates_one_side(const std::string &tail) {
    return tail == "PredicateLoads" || tail == "PredicateStores";
}

} // namespace

void NestBuilder::lost(const std::vector<const Node *> &names) {
    for (const Node *name : names) {
        missing[stage->name()].insert(name->text);
    }
}

Loop *NestBuilder::loop(const Node &node) {
    if (Loop *found = stage->find(node.text)) {
        return found;
    }
    if (missing[stage->name()].count(node.text) || cx.damaged.count(func->name)) {
        return nullptr;
    }
    std::vector<std::string> names = stage->loop_names();
    Diagnostic &d = cx.report("K0107", fmt::format("no loop `{}` in `{}`", node.text, stage->name()),
                              node.span, inner_first(*stage));
    if (const LoopStep *step = stage->consumer_of(node.text)) {
        d.notes.push_back(what_happened(*stage, *step, node.text));
    } else {
        for (const StageNest &other : func->stages) {
            if (&other != stage && other.find(node.text)) {
                d.notes.push_back(fmt::format("`{}` has a loop `{}`", other.name(), node.text));
            }
        }
    }
    if (std::string near = nearest(node.text, names); !near.empty()) {
        d.helps.push_back(fmt::format("did you mean `{}`?", near));
    }
    return nullptr;
}

bool NestBuilder::free_name(const Node &node, const std::string &freed, const std::string &freed2) {
    const std::string &name = node.text;
    if (name == freed || name == freed2) {
        return true;
    }
    if (name.find('.') != std::string::npos || name == "outermost") {
        cx.report("K0110", fmt::format("`{}` cannot name a new loop", name), node.span,
                  name == "outermost" ? "it means the place around all loops" : "the dot belongs to RDoms")
            .helps.push_back(name == "outermost"
                                 ? "choose another name"
                                 : fmt::format("write `{}_{}`", name.substr(0, name.find('.')),
                                               name.substr(name.find('.') + 1)));
        return false;
    }
    const Loop *taken = stage->find(name);
    if (!taken) {
        return true;
    }
    Diagnostic &d = cx.report("K0108", fmt::format("`{}` already has a loop `{}`", stage->name(), name),
                              node.span, inner_first(*stage));
    d.notes.push_back(taken->made_by.line > 0 ? fmt::format("it was made on {}", where(taken->made_by))
                                              : "it comes from the algorithm");
    d.helps.push_back("choose another name for the new loop");
    return false;
}

bool NestBuilder::unmarked(const Loop &l, const Node &node) {
    if (l.kind == LoopKind::Serial) {
        return true;
    }
    cx.report("K0205",
              fmt::format("`{}` is already {}, so it cannot be fused", l.name, loop_kind_name(l.kind)),
              node.span, fmt::format("marked on {}", where(l.kind_by)))
        .helps.push_back(fmt::format("fuse before {} and mark the fused loop", where(l.kind_by)));
    return false;
}

bool NestBuilder::on_stage(const DirectiveCall &call) {
    static const std::map<std::string, LoopKind> kinds = {
        {"serial", LoopKind::Serial},        {"parallel", LoopKind::Parallel},
        {"vectorize", LoopKind::Vectorized}, {"unroll", LoopKind::Unrolled},
        {"gpu_blocks", LoopKind::GpuBlock},  {"gpu_threads", LoopKind::GpuThread},
        {"gpu_lanes", LoopKind::GpuLane}};
    if (!stage) {
        return false;
    }
    if (func->is_extern && (kinds.count(call.name) || call.name == "split" || call.name == "fuse" ||
                            call.name == "reorder" || call.name == "rename")) {
        cx.report("K0115", fmt::format("`{}` is an extern stage, whose loops are not Kiln's", func->name),
                  call.name_span)
            .helps.push_back("only its place can be scheduled: compute_root, compute_at, store_at");
        return true;
    }
    auto touched = [&](const std::string &n) {
        return kinds.count(n) || n == "split" || n == "fuse" || n == "reorder" || n == "rename" ||
               n == "unscheduled" || n == "gpu_single_thread";
    };
    stage->touched = stage->touched || touched(call.name);
    if (tile_on_stage(call)) {
        return true;
    }
    if (auto it = kinds.find(call.name); it != kinds.end()) {
        kind(call, it->second);
    } else if (call.name == "split") {
        split(call);
    } else if (call.name == "fuse") {
        fuse(call);
    } else if (call.name == "reorder") {
        reorder(call);
    } else if (call.name == "rename") {
        rename(call);
    } else if (call.name == "gpu_single_thread") {
        gpu_single_thread(call);
    } else if (call.name == "atomic") {
        atomic(call);
    } else if (call.name == "allow_race_conditions") {
        stage->race_conditions_allowed = true;
    } else if (call.name == "partition") {
        loop(call.args[0]);
    } else if (call.name == "prefetch") {
        cx.prefetches.push_back({&call, func->name, stage->update, stage->conditions});
    } else if (call.name == "compute_with") {
        StageRef other;
        if (known_stage(call.args[0], other)) {
            cx.compute_withs.push_back({&call, func->name, stage->update, stage->conditions});
        }
    } else if (call.name == "specialize_fail") {
        if (auto [it, fresh] = chosen.emplace(stage->name() + " fail", &call); !fresh) {
            cx.report("K0218", "a second `specialize_fail`", call.span,
                      fmt::format("the first is on {}", where(it->second->span)))
                .helps.push_back("keep one of them");
        }
    } else {
        return call.name == "unscheduled" || call.name == "never_partition_all" ||
               call.name == "always_partition_all";
    }
    return true;
}

void NestBuilder::split(const DirectiveCall &call) {
    const Node &old = call.args[0], &outer = call.args[1], &inner = call.args[2];
    if (old.text == "outermost") {
        cx.report("K0110", "`outermost` cannot be split", old.span, "it is the place around all loops")
            .helps.push_back("split a loop of the stage");
        lost({&outer, &inner});
        return;
    }
    const Loop *l = loop(old);
    bool ok = l && free_name(outer, old.text) && free_name(inner, old.text);
    if (!ok || !tail_is_legal(call, *l)) {
        lost({&outer, &inner});
        return;
    }
    int64_t factor = call.args[3].int_value;
    stage->split(old.text, outer.text, inner.text, factor, std::to_string(factor), call.args[4].text,
                 call.span);
}

bool NestBuilder::tail_is_legal(const DirectiveCall &call, const Loop &l) {
    const std::string &tail = call.args[4].text;
    Span span = call.args[4].span.line > 0 ? call.args[4].span : call.span;
    bool guards = tail == "Auto" || tail == "GuardWithIf" || tail == "Predicate";
    if (l.is_rvar && !guards) {
        Diagnostic &d = cx.report("K0201", fmt::format("`{}` would run `{}` past its end", tail, l.name),
                                  span, "a loop of a reduction must run exactly its range");
        d.helps.push_back("use `GuardWithIf` (the default) or `Predicate`");
        return false;
    }
    if (stage->update >= 0 && tail == "ShiftInwards") {
        Diagnostic &d = cx.report(
            "K0202", fmt::format("`ShiftInwards` would update some elements of `{}` twice", func->name), span,
            "an update must reach every element once");
        d.helps.push_back("use `GuardWithIf` (the default), `RoundUp` or `ShiftInwardsAndBlend`");
        return false;
    }
    for (const auto &[step, made] : stage->ancestry(l.name)) {
        if (step->kind != LoopStep::Kind::Split) {
            continue;
        }
        bool from_inner = step->inner == made;
        if (predicates_one_side(step->tail) || (from_inner && tail == "PredicateLoads")) {
            const std::string &which = predicates_one_side(step->tail) ? step->tail : tail;
            cx.report("K0203", fmt::format("`{}` needs the innermost split of its loop", which), call.span,
                      fmt::format("`{}` comes from the split of `{}` on {}", l.name, step->old,
                                  where(step->span)))
                .helps.push_back("use `Predicate` or `GuardWithIf`");
            return false;
        }
    }
    return true;
}

bool NestBuilder::keeps_order(const std::vector<std::string> &before, const std::vector<std::string> &after,
                              Span span) {
    if (stage->is_associative && stage->is_commutative) {
        return true;
    }
    std::vector<std::string> impure_before, impure_after;
    for (const std::string &name : before) {
        const Loop *l = stage->find(name);
        if (l && !l->is_pure) {
            impure_before.push_back(name);
        }
    }
    for (const std::string &name : after) {
        if (std::find(impure_before.begin(), impure_before.end(), name) != impure_before.end()) {
            impure_after.push_back(name);
        }
    }
    if (impure_before == impure_after) {
        return true;
    }
    Diagnostic &d =
        cx.report("K0206",
                  fmt::format("another order of {} may change the result of `{}`", names_text(impure_before),
                              stage->name()),
                  span, fmt::format("the order is {}, inner first", fmt::join(impure_before, ", ")));
    if (func->info && static_cast<size_t>(stage->update + 1) < func->info->stages.size()) {
        d.notes.push_back("the definition is `" + func->info->stages[stage->update + 1].source + "`");
    }
    d.helps.push_back("keep these loops in their order; the others may move");
    return false;
}

void NestBuilder::fuse(const DirectiveCall &call) {
    const Node &inner = call.args[0], &outer = call.args[1], &fused = call.args[2];
    const Loop *a = loop(inner), *b = loop(outer);
    bool ok = a && b && unmarked(*a, inner) && unmarked(*b, outer);
    ok = ok && free_name(fused, inner.text, outer.text);
    if (ok) {
        // The outer loop moves next to the inner one.
        std::vector<std::string> before = stage->loop_names(), after = before;
        after.erase(std::find(after.begin(), after.end(), outer.text));
        after.insert(std::find(after.begin(), after.end(), inner.text) + 1, outer.text);
        ok = keeps_order(before, after, call.span);
    }
    if (!ok) {
        lost({&fused});
        return;
    }
    stage->fuse(inner.text, outer.text, fused.text, call.span);
}

void NestBuilder::reorder(const DirectiveCall &call) {
    std::vector<std::string> order;
    bool ok = true;
    for (const Node &node : call.args) {
        ok = loop(node) && ok;
        order.push_back(node.text);
    }
    if (!ok) {
        return;
    }
    StageNest moved = *stage;
    moved.reorder(order);
    if (keeps_order(stage->loop_names(), moved.loop_names(), call.span)) {
        stage->reorder(order);
    }
}

void NestBuilder::rename(const DirectiveCall &call) {
    if (!loop(call.args[0]) || !free_name(call.args[1], call.args[0].text)) {
        lost({&call.args[1]});
        return;
    }
    stage->rename(call.args[0].text, call.args[1].text, call.span);
}

void NestBuilder::kind(const DirectiveCall &call, LoopKind kind) {
    Loop *l = loop(call.args[0]);
    if (!l) {
        return;
    }
    bool gpu = is_gpu_loop(kind);
    if (gpu && cx.target.backend == Backend::Cpu) {
        cx.report("K0401", fmt::format("`{}` needs a GPU, the target is `{}`", call.name, cx.target.str()),
                  call.name_span)
            .helps.push_back("use `parallel` and `vectorize`, or build for `cuda` or `opencl`");
        return;
    }
    if (l->kind != LoopKind::Serial && l->kind != kind && !l->kind_inherited) {
        cx.report("K0208", fmt::format("`{}` is already {}", l->name, loop_kind_name(l->kind)),
                  call.args[0].span, fmt::format("marked on {}", where(l->kind_by)))
            .helps.push_back("keep one of them, or split the loop and mark the parts");
        return;
    }
    bool at_once = kind != LoopKind::Serial && kind != LoopKind::Unrolled;
    if (at_once && !l->is_pure && !stage->atomic && !stage->race_conditions_allowed) {
        Diagnostic &d =
            cx.report("K0207",
                      fmt::format("the iterations of `{}` depend on each other, so it cannot be {}", l->name,
                                  loop_kind_name(kind)),
                      call.args[0].span);
        if (func->info && static_cast<size_t>(stage->update + 1) < func->info->stages.size()) {
            d.notes.push_back("the definition is `" + func->info->stages[stage->update + 1].source + "`");
        }
        if (stage->is_associative && stage->is_commutative) {
            d.helps.push_back(fmt::format("put `atomic()` before `{}`", call.name));
            if (kind != LoopKind::Vectorized) {
                d.helps.push_back("or make independent parts with `rfactor`");
            }
        } else {
            std::vector<std::string> pure;
            for (const Loop &other : stage->loops) {
                if (other.is_pure) {
                    pure.push_back(other.name);
                }
            }
            d.helps.push_back(pure.empty()
                                  ? "leave the loop serial"
                                  : "choose a loop whose iterations are independent: " + names_text(pure));
        }
        return;
    }
    l->kind = kind;
    l->kind_inherited = false;
    l->kind_by = call.span;
}

void NestBuilder::gpu_single_thread(const DirectiveCall &call) {
    if (cx.target.backend == Backend::Cpu) {
        cx.report("K0401",
                  fmt::format("`gpu_single_thread` needs a GPU, the target is `{}`", cx.target.str()),
                  call.name_span)
            .helps.push_back("leave it out: without it the stage runs in one thread too");
        return;
    }
    for (auto [base, kind] :
         {std::pair("single_thread", LoopKind::GpuThread), {"single_block", LoopKind::GpuBlock}}) {
        Loop l;
        l.name = base;
        while (stage->find(l.name)) {
            l.name += "_";
        }
        l.kind = kind;
        l.extent = 1;
        l.extent_text = "1";
        l.made_by = l.kind_by = call.span;
        stage->loops.push_back(l);
        DimInfo d;
        d.name = l.name;
        d.extent = 1;
        stage->dims.push_back(d);
    }
}

void NestBuilder::atomic(const DirectiveCall &call) {
    if (stage->update < 0) {
        cx.report("K0210", fmt::format("`atomic` does nothing on the pure definition of `{}`", func->name),
                  call.span, "it writes every element once")
            .helps.push_back(func->stages.size() > 1 ? fmt::format("write `{}.update().atomic()`", func->name)
                                                     : "leave it out");
        return;
    }
    bool override_test = call.args[0].text == "true";
    if (!override_test && !(stage->is_associative && stage->is_commutative)) {
        Diagnostic &d = cx.report(
            "K0209",
            fmt::format("`{}` gives another result when its steps run in another order", stage->name()),
            call.span, "atomic() needs an associative and commutative update");
        if (func->info && static_cast<size_t>(stage->update + 1) < func->info->stages.size()) {
            d.notes.push_back("the definition is `" + func->info->stages[stage->update + 1].source + "`");
        }
        d.helps.push_back("leave its reduction loops serial, or write `atomic(true)` if you know better");
        stage->race_conditions_allowed = true; // said once is enough
        return;
    }
    stage->atomic = true;
    stage->override_associativity = override_test;
}

} // namespace kiln
