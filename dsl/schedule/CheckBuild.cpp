#include "dsl/schedule/CheckBuild.h"
#include "dsl/schedule/Canonical.h"
#include "dsl/schedule/Print.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace kiln {

namespace {

IndexInfo identity_index(const std::string &arg) {
    IndexInfo index;
    index.loops = {arg};
    index.is_affine = true;
    index.terms = {{arg, 1}};
    return index;
}

Loop loop_of(const DimInfo &d) {
    Loop loop;
    loop.name = d.name;
    loop.is_rvar = d.is_rvar;
    loop.is_pure = d.is_pure;
    loop.extent = d.extent;
    loop.extent_text = d.extent_text;
    return loop;
}

void replace(std::vector<std::string> &names, const std::string &old, const std::string &fresh) {
    std::vector<std::string> out;
    for (const std::string &name : names) {
        const std::string &kept = name == old ? fresh : name;
        if (!kept.empty() && std::find(out.begin(), out.end(), kept) == out.end()) {
            out.push_back(kept);
        }
    }
    names = std::move(out);
}

/// The stage's loops as they are become what it starts from: what rfactor does to both its Funcs.
void start_afresh(StageNest &stage) {
    stage.dims.clear();
    stage.steps.clear();
    for (const Loop &loop : stage.loops) {
        DimInfo d;
        d.name = loop.name;
        d.is_rvar = loop.is_rvar;
        d.is_pure = loop.is_pure;
        d.extent = loop.extent;
        d.extent_text = loop.extent_text;
        stage.dims.push_back(std::move(d));
    }
}

} // namespace

void NestBuilder::add_func(const FuncInfo &info) {
    FuncNest f;
    f.name = info.name;
    f.info = &info;
    f.is_output = info.is_output;
    f.is_input = info.is_input;
    f.is_extern = info.is_extern;
    f.args = info.args;
    f.callers = info.callers;
    f.callees = info.callees;
    if (info.is_output) {
        f.compute.kind = f.store.kind = f.hoist.kind = NestLevel::Kind::Root;
    }
    for (size_t i = 0; i < info.stages.size(); i++) {
        const StageInfo &from = info.stages[i];
        StageNest s;
        s.func = info.name;
        s.update = static_cast<int>(i) - 1;
        s.dims = from.dims;
        s.reads = from.reads;
        s.is_associative = from.is_associative;
        s.is_commutative = from.is_commutative;
        for (const DimInfo &d : from.dims) {
            s.loops.push_back(loop_of(d));
        }
        f.stages.push_back(std::move(s));
    }
    cx.nest.funcs.push_back(std::move(f));
}

void NestBuilder::init() {
    for (const FuncInfo &info : cx.pipeline.funcs) {
        add_func(info);
    }
    const Schedule &s = cx.schedule;
    if (!s.op.empty() && !cx.pipeline.generator.empty() && s.op != cx.pipeline.generator) {
        Diagnostic &d = cx.report(
            "K0112",
            fmt::format("the schedule is for `{}`, the generator is `{}`", s.op, cx.pipeline.generator),
            s.op_span);
        d.helps.push_back(fmt::format("write `op {}` if it fits that generator too", cx.pipeline.generator));
    }
}

void NestBuilder::run() {
    init();
    for (const Statement &s : cx.schedule.statements) {
        statement = &s;
        if (!select(s.stage)) {
            continue;
        }
        for (const DirectiveCall &call : s.calls) {
            if (call.name != "compute_inline") {
                cx.first_call.emplace(func->name, &call);
            }
            apply(call);
        }
    }
    func = nullptr;
    stage = nullptr;
}

void NestBuilder::no_func(const std::string &name, Span span) {
    std::vector<std::string> names;
    for (const FuncNest &f : cx.nest.funcs) {
        if (!f.is_wrapper) {
            names.push_back(f.name);
        }
    }
    Diagnostic &d = cx.report("K0101",
                              cx.pipeline.generator.empty()
                                  ? fmt::format("no Func `{}`", name)
                                  : fmt::format("no Func `{}` in `{}`", name, cx.pipeline.generator),
                              span, "its Funcs are " + names_text(names));
    if (std::string near = nearest(name, names); !near.empty()) {
        d.helps.push_back(fmt::format("did you mean `{}`?", near));
    }
}

bool NestBuilder::select(const StageRef &ref) {
    std::string key = ref.func;
    if (ref.is_wrapper) {
        StageRef whole = ref;
        whole.update = -1;
        key = whole.str();
        if (!cx.nest.find(key) && !make_wrapper(ref, key)) {
            return false;
        }
    }
    func = cx.nest.find(key);
    if (!func) {
        no_func(ref.func, ref.func_span);
        return false;
    }
    if (func->is_input) {
        Diagnostic &d =
            cx.report("K0103", fmt::format("`{}` is an input, which has no loops to schedule", ref.func),
                      ref.func_span);
        std::string reader = func->callers.empty() ? "" : func->callers[0];
        d.helps.push_back(fmt::format("schedule a copy of it: `{}.in({})`", ref.func, reader));
        return false;
    }
    size_t index = static_cast<size_t>(ref.update + 1);
    if (index >= func->stages.size()) {
        size_t updates = func->stages.empty() ? 0 : func->stages.size() - 1;
        Diagnostic &d = cx.report("K0102", fmt::format("no update {} in `{}`", ref.update, key), ref.span,
                                  updates == 0   ? fmt::format("`{}` has only its pure definition", key)
                                  : updates == 1 ? fmt::format("`{}` has one update, number 0", key)
                                                 : fmt::format("`{}` has updates 0 to {}", key, updates - 1));
        if (updates > 0) {
            d.helps.push_back(fmt::format("write `{}.update({})`", key, updates - 1));
        } else {
            d.helps.push_back(fmt::format("schedule `{}` itself", key));
        }
        return false;
    }
    stage = &func->stages[index];
    return true;
}

bool NestBuilder::make_wrapper(const StageRef &ref, const std::string &key) {
    FuncNest *wrapped = cx.nest.find(ref.func);
    if (!wrapped) {
        no_func(ref.func, ref.func_span);
        return false;
    }
    std::vector<std::string> consumers = ref.wrapper_for;
    if (consumers.empty()) {
        for (const std::string &caller : wrapped->callers) {
            const FuncNest *c = cx.nest.find(caller);
            if (c && !c->is_wrapper) {
                consumers.push_back(caller);
            }
        }
        if (consumers.empty()) {
            Diagnostic &d = cx.report("K0104", fmt::format("nothing reads `{}`", ref.func), ref.span,
                                      "so a wrapper of it has no use");
            d.helps.push_back(fmt::format("schedule `{}` itself", ref.func));
            return false;
        }
    }
    for (const std::string &name : consumers) {
        if (!cx.nest.find(name)) {
            no_func(name, ref.span);
            return false;
        }
        if (std::find(wrapped->callers.begin(), wrapped->callers.end(), name) == wrapped->callers.end()) {
            Diagnostic &d = cx.report(
                "K0104", fmt::format("`{}` does not read `{}`", name, ref.func), ref.span,
                fmt::format("`{}` is read by {}", ref.func, names_text(wrapped->callers, "nothing")));
            for (const std::string &caller : wrapped->callers) {
                const FuncNest *c = cx.nest.find(caller);
                if (c && c->is_wrapper &&
                    std::find(c->callers.begin(), c->callers.end(), name) != c->callers.end()) {
                    d.notes.push_back(
                        fmt::format("it reads it through `{}`, made on {}", caller, where(c->made_by)));
                }
            }
            return false;
        }
    }
    FuncNest w;
    w.name = key;
    w.info = wrapped->info;
    w.is_wrapper = true;
    w.args = wrapped->args;
    w.callers = consumers;
    w.callees = {ref.func};
    w.made_by = ref.span;
    StageNest s;
    s.func = key;
    ReadInfo read;
    read.func = ref.func;
    for (const std::string &arg : w.args) {
        DimInfo d;
        d.name = arg;
        d.extent_text = fmt::format("extent({})", arg);
        s.loops.push_back(loop_of(d));
        s.dims.push_back(std::move(d));
        read.indices.push_back(identity_index(arg));
    }
    s.reads = {read};
    w.stages = {s};
    for (const std::string &name : consumers) {
        FuncNest *c = cx.nest.find(name);
        replace(c->callees, ref.func, key);
        for (StageNest &reader : c->stages) {
            std::vector<StageNest *> all = {&reader};
            for (StageNest &special : reader.specializations) {
                all.push_back(&special);
            }
            for (StageNest *one : all) {
                for (ReadInfo &r : one->reads) {
                    r.func = r.func == ref.func ? key : r.func;
                }
            }
        }
        replace(wrapped->callers, name, "");
    }
    wrapped->callers.push_back(key);
    auto at = std::find_if(cx.nest.funcs.begin(), cx.nest.funcs.end(),
                           [&](const FuncNest &f) { return f.name == ref.func; });
    cx.nest.funcs.insert(at + 1, std::move(w));
    return true;
}

void NestBuilder::apply(const DirectiveCall &call) {
    if (call.name == "specialize") {
        specialize(call);
    } else if (call.name == "rfactor") {
        rfactor(call);
    } else if (!on_stage(call)) {
        on_func(call);
    }
}

void NestBuilder::check_condition(const Node &node) {
    if (node.kind == Node::Kind::Name) {
        const std::vector<std::string> &scalars = cx.pipeline.scalars;
        if (std::find(scalars.begin(), scalars.end(), node.text) == scalars.end()) {
            Diagnostic &d = cx.report("K0116", fmt::format("no scalar input `{}` to test", node.text),
                                      node.span, "scalar inputs are " + names_text(scalars));
            if (std::string near = nearest(node.text, scalars); !near.empty()) {
                d.helps.push_back(fmt::format("did you mean `{}`?", near));
            } else {
                d.helps.push_back("test a scalar input or the size of a buffer: `y.extent(x) >= 8`");
            }
        }
        return;
    }
    if (node.kind != Node::Kind::Call || !node.is_method) {
        for (const Node &arg : node.args) {
            check_condition(arg);
        }
        return;
    }
    const Node &buffer = node.args[0], &dim = node.args[1];
    const FuncInfo *f = cx.pipeline.find(buffer.text);
    if (!f || (!f->is_input && !f->is_output)) {
        std::vector<std::string> buffers;
        for (const FuncInfo &candidate : cx.pipeline.funcs) {
            if (candidate.is_input || candidate.is_output) {
                buffers.push_back(candidate.name);
            }
        }
        Diagnostic &d = cx.report("K0116", fmt::format("`{}` is no input or output buffer", buffer.text),
                                  buffer.span, "buffers are " + names_text(buffers));
        if (std::string near = nearest(buffer.text, buffers); !near.empty()) {
            d.helps.push_back(fmt::format("did you mean `{}`?", near));
        }
        return;
    }
    int64_t index = dim.kind == Node::Kind::Int
                        ? dim.int_value
                        : std::find(f->args.begin(), f->args.end(), dim.text) - f->args.begin();
    if (index < 0 || index >= static_cast<int64_t>(f->args.size())) {
        cx.report("K0116", fmt::format("no dimension `{}` in `{}`", print_node(dim), f->name), dim.span,
                  fmt::format("its dimensions are {}", names_text(f->args)));
    }
}

void NestBuilder::specialize(const DirectiveCall &call) {
    check_condition(call.args[0]);
    std::string condition = print_node(call.args[0]);
    for (StageNest &known : stage->specializations) {
        if (known.conditions.back() == condition) {
            stage = &known;
            return;
        }
    }
    std::string fail_key = stage->name() + " fail";
    if (auto it = chosen.find(fail_key); it != chosen.end() && stage->conditions.empty()) {
        cx.report("K0218", "`specialize` comes after `specialize_fail`", call.span,
                  "it could never be reached")
            .helps.push_back(fmt::format("move it before {}", where(it->second->span)));
    }
    StageNest special = *stage;
    special.specializations.clear();
    special.conditions.push_back(condition);
    stage->specializations.push_back(std::move(special));
    stage = &stage->specializations.back();
}

void NestBuilder::rfactor(const DirectiveCall &call) {
    if (!stage->is_associative) {
        Diagnostic &d = cx.report(
            "K0216", fmt::format("`{}` cannot be split into parts that are combined later", stage->name()),
            call.span, "its operator is not known to be associative");
        if (func->info && static_cast<size_t>(stage->update + 1) < func->info->stages.size()) {
            d.notes.push_back("the definition is `" + func->info->stages[stage->update + 1].source + "`");
        }
        d.helps.push_back(
            "rfactor needs a sum, product, minimum, maximum or another associative combination");
    }
    if (cx.nest.find(statement->binding)) {
        cx.report("K0105", fmt::format("the pipeline already has a Func `{}`", statement->binding),
                  statement->binding_span)
            .helps.push_back("give the result of `rfactor` another name");
        return;
    }
    std::vector<std::pair<std::string, std::string>> preserved;
    bool all = true;
    for (const Node &pair : call.args[0].args) {
        const Loop *l = loop(pair.args[0]);
        if (l && !l->is_rvar) {
            cx.report("K0217", fmt::format("`{}` is no loop of the reduction", l->name), pair.args[0].span,
                      "rfactor keeps loops of RVars")
                .helps.push_back("name an RVar of the update, or a loop split from one");
        }
        all = all && l && l->is_rvar;
        const std::vector<std::string> &args = func->args;
        if (std::find(args.begin(), args.end(), pair.args[1].text) != args.end()) {
            cx.report("K0108",
                      fmt::format("`{}` already has a dimension `{}`", func->name, pair.args[1].text),
                      pair.args[1].span)
                .helps.push_back("give the new Var of `rfactor` another name");
            all = false;
        }
        preserved.emplace_back(pair.args[0].text, pair.args[1].text);
    }
    if (!all || !stage->is_associative) {
        return;
    }
    FuncNest made;
    made.name = statement->binding;
    made.info = func->info;
    made.args = func->args;
    made.made_by = call.span;
    made.callers = {func->name};
    StageNest init, update = *stage, merge = *stage;
    init.func = update.func = made.name;
    update.update = 0;
    for (const std::string &arg : func->args) {
        for (const DimInfo &d : func->stages[0].dims) {
            if (d.name == arg) {
                init.dims.push_back(d);
                init.loops.push_back(loop_of(d));
            }
        }
    }
    ReadInfo read;
    read.func = made.name;
    for (const std::string &arg : func->args) {
        read.indices.push_back(identity_index(arg));
    }
    for (const auto &[rvar, var] : preserved) {
        Loop *l = update.find(rvar);
        DimInfo d;
        d.name = var;
        d.extent = l->extent;
        d.extent_text = l->extent_text;
        init.dims.push_back(d);
        init.loops.push_back(loop_of(d));
        l->name = var;
        l->is_rvar = false;
        l->is_pure = true;
        made.args.push_back(var);
        read.indices.push_back(identity_index(rvar));
    }
    start_afresh(update);
    auto dropped = [&](const Loop &l) {
        return l.is_rvar && std::none_of(preserved.begin(), preserved.end(),
                                         [&](const auto &pair) { return pair.first == l.name; });
    };
    std::vector<std::string> gone;
    for (const Loop &l : merge.loops) {
        if (dropped(l)) {
            gone.push_back(l.name);
        }
    }
    merge.loops.erase(std::remove_if(merge.loops.begin(), merge.loops.end(), dropped), merge.loops.end());
    start_afresh(merge);
    for (const std::string &name : gone) {
        merge.steps.push_back(
            {LoopStep::Kind::Rfactor, name, made.name, "", std::nullopt, "", "", call.span});
    }
    merge.reads = {read};
    for (const ReadInfo &r : update.reads) {
        if (std::find(made.callees.begin(), made.callees.end(), r.func) == made.callees.end()) {
            made.callees.push_back(r.func);
        }
    }
    *stage = merge;
    made.stages = {init, update};
    func->callees = {made.name};
    for (const StageNest &s : func->stages) {
        for (const ReadInfo &r : s.reads) {
            if (std::find(func->callees.begin(), func->callees.end(), r.func) == func->callees.end()) {
                func->callees.push_back(r.func);
            }
        }
    }
    std::string name = func->name;
    for (const std::string &callee : made.callees) {
        FuncNest *producer = cx.nest.find(callee);
        bool still = std::find(func->callees.begin(), func->callees.end(), callee) != func->callees.end();
        if (!still) {
            replace(producer->callers, name, "");
        }
        producer->callers.push_back(made.name);
    }
    auto at = std::find_if(cx.nest.funcs.begin(), cx.nest.funcs.end(),
                           [&](const FuncNest &f) { return f.name == name; });
    at = cx.nest.funcs.insert(at, std::move(made));
    func = &*(at + 1);
    stage = nullptr; // rfactor ends its chain
}

bool NestBuilder::known_stage(const Node &node, StageRef &ref) {
    std::optional<StageRef> found = stage_of(node);
    if (!found) {
        return false; // canonicalize has reported it
    }
    ref = *found;
    bool ok = true;
    if (!ref.is_wrapper) {
        const FuncNest *f = cx.nest.find(ref.func);
        if (!f) {
            no_func(ref.func, ref.func_span.line > 0 ? ref.func_span : node.span);
            ok = false;
        } else if (f->is_input) {
            cx.report("K0103", fmt::format("`{}` is an input, which has no loops", ref.func), node.span)
                .helps.push_back("name the Func that reads it");
            ok = false;
        } else if (ref.update >= 0 && static_cast<size_t>(ref.update + 1) >= f->stages.size()) {
            cx.report("K0102", fmt::format("no update {} in `{}`", ref.update, ref.func), node.span,
                      fmt::format("`{}` has {} updates", ref.func, f->stages.size() - 1));
            ok = false;
        }
    }
    return ok;
}

bool NestBuilder::known_dim(const Node &node) {
    if (std::find(func->args.begin(), func->args.end(), node.text) != func->args.end()) {
        return true;
    }
    Diagnostic &d = cx.report("K0111", fmt::format("no dimension `{}` in `{}`", node.text, func->name),
                              node.span, "its dimensions are " + names_text(func->args));
    if (stage && stage->find(node.text)) {
        d.notes.push_back(
            fmt::format("`{}` is a loop; storage has the dimensions of the definition", node.text));
    }
    if (std::string near = nearest(node.text, func->args); !near.empty()) {
        d.helps.push_back(fmt::format("did you mean `{}`?", near));
    }
    return false;
}

void build_nest(CheckContext &context) {
    NestBuilder(context).run();
}

} // namespace kiln
