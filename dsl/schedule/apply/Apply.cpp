#include "dsl/schedule/apply/Apply.h"
#include "dsl/schedule/Canonical.h"
#include "dsl/schedule/apply/Condition.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln {

namespace {

using Halide::Func;
using Halide::RVar;
using Halide::Stage;
using Halide::Var;
using Halide::VarOrRVar;
using Halide::Internal::Dim;

template<typename T>
T enumerator(const std::string &name, const std::vector<std::pair<const char *, T>> &values) {
    for (const auto &[text, value] : values) {
        if (name == text) {
            return value;
        }
    }
    throw std::logic_error(fmt::format("no enumerator {}", name));
}

Halide::TailStrategy tail_of(const std::string &name) {
    using T = Halide::TailStrategy;
    // Auto is GuardWithIf: see apply_schedule.
    return enumerator<T>(name, {{"Auto", T::GuardWithIf},
                                {"RoundUp", T::RoundUp},
                                {"GuardWithIf", T::GuardWithIf},
                                {"Predicate", T::Predicate},
                                {"PredicateLoads", T::PredicateLoads},
                                {"PredicateStores", T::PredicateStores},
                                {"ShiftInwards", T::ShiftInwards},
                                {"ShiftInwardsAndBlend", T::ShiftInwardsAndBlend},
                                {"RoundUpAndBlend", T::RoundUpAndBlend}});
}

Halide::MemoryType memory_of(const std::string &name) {
    using M = Halide::MemoryType;
    return enumerator<M>(name, {{"Auto", M::Auto},
                                {"Heap", M::Heap},
                                {"Stack", M::Stack},
                                {"Register", M::Register},
                                {"GPUShared", M::GPUShared},
                                {"AMXTile", M::AMXTile}});
}

Halide::LoopAlignStrategy align_of(const std::string &name) {
    using A = Halide::LoopAlignStrategy;
    return enumerator<A>(name, {{"Auto", A::Auto},
                                {"AlignStart", A::AlignStart},
                                {"AlignEnd", A::AlignEnd},
                                {"NoAlign", A::NoAlign}});
}

Halide::Partition partition_of(const std::string &name) {
    using P = Halide::Partition;
    return enumerator<P>(name, {{"Auto", P::Auto}, {"Never", P::Never}, {"Always", P::Always}});
}

Halide::PrefetchBoundStrategy prefetch_of(const std::string &name) {
    using P = Halide::PrefetchBoundStrategy;
    return enumerator<P>(
        name, {{"Clamp", P::Clamp}, {"GuardWithIf", P::GuardWithIf}, {"NonFaulting", P::NonFaulting}});
}

Diagnostic fault(const char *code, std::string message, const Schedule &schedule, Span span) {
    Diagnostic d;
    d.code = code;
    d.message = std::move(message);
    d.file = schedule.file;
    d.span = span;
    return d;
}

class Applier {
public:
    Applier(const Schedule &schedule, FuncMap &funcs)
        : schedule(schedule), funcs(funcs), parameters(parameters_of(funcs)) {}

    void run() {
        // Places are named by loops that a later statement may make, so they come after all loops are there.
        for (bool places : {false, true}) {
            for (const Statement &statement : schedule.statements) {
                apply(statement, places);
            }
        }
    }

private:
    const Schedule &schedule;
    FuncMap &funcs;
    PipelineParameters parameters;

    static bool is_place(const std::string &name) {
        return name == "compute_at" || name == "store_at" || name == "hoist_storage" ||
               name == "compute_with";
    }

    Func &func(const std::string &name, Span span) {
        auto it = funcs.find(name);
        if (it == funcs.end()) {
            throw Error(fault("K0502", fmt::format("the pipeline has no Func `{}`", name), schedule, span));
        }
        return it->second;
    }

    /// The Func of a statement; its wrapper is made at the first mention.
    Func &func(const StageRef &ref) {
        if (!ref.is_wrapper) {
            return func(ref.func, ref.span);
        }
        StageRef whole = ref;
        whole.update = -1;
        std::string key = whole.str();
        if (auto it = funcs.find(key); it != funcs.end()) {
            return it->second;
        }
        Func &wrapped = func(ref.func, ref.span);
        Func wrapper;
        if (ref.wrapper_for.empty()) {
            wrapper = wrapped.in();
        } else {
            std::vector<Func> consumers;
            for (const std::string &name : ref.wrapper_for) {
                consumers.push_back(func(name, ref.span));
            }
            wrapper = consumers.size() == 1 ? wrapped.in(consumers[0]) : wrapped.in(consumers);
        }
        return funcs.emplace(key, wrapper).first->second;
    }

    Stage stage_of_ref(const StageRef &ref) {
        Func &f = func(ref);
        return ref.update < 0 ? static_cast<Stage>(f) : f.update(ref.update);
    }

    /// Halide's name for a loop: that of the RVar where the schedule's name is one.
    static std::string halide_name(const std::string &loop,
                                   const std::vector<Halide::Internal::ReductionVariable> &domain) {
        for (const auto &rv : domain) {
            // `r.y` stays `r.y` where rfactor has taken the RDom's other dimensions away.
            std::string dotted = rv.var;
            std::replace(dotted.begin(), dotted.end(), '$', '.');
            if (schedule_name_of_rvar(rv.var, domain) == loop || dotted == loop) {
                return rv.var;
            }
        }
        return loop == "outermost" ? Var::outermost().name() : loop;
    }

    static const Dim *find_dim(const Halide::Internal::StageSchedule &s, const std::string &halide) {
        for (const Dim &dim : s.dims()) {
            if (dim.var == halide || dim.var.ends_with("." + halide)) {
                return &dim;
            }
        }
        return nullptr;
    }

    static VarOrRVar named(const std::string &halide, bool is_rvar) {
        return is_rvar ? VarOrRVar(RVar(halide)) : VarOrRVar(Var(halide));
    }

    static VarOrRVar loop(const Stage &stage, const Node &node) {
        const auto &s = stage.get_schedule();
        std::string name = halide_name(node.text, s.rvars());
        const Dim *dim = find_dim(s, name);
        return named(name, dim && dim->is_rvar());
    }

    static VarOrRVar new_loop(const Stage &stage, const Node &node, bool is_rvar) {
        return named(halide_name(node.text, stage.get_schedule().rvars()), is_rvar);
    }

    Halide::LoopLevel level(const Node &stage_node, const Node &loop_node) {
        std::optional<StageRef> ref = stage_of(stage_node);
        Func &host = func(*ref);
        std::string name = loop_node.text == "outermost" ? Var::outermost().name() : loop_node.text;
        bool is_rvar = false;
        for (int i = -1; i < host.num_update_definitions(); i++) {
            if (ref->update >= 0 && i != ref->update) {
                continue;
            }
            Stage s = i < 0 ? static_cast<Stage>(host) : host.update(i);
            std::string candidate = halide_name(loop_node.text, s.get_schedule().rvars());
            if (const Dim *dim = find_dim(s.get_schedule(), candidate)) {
                name = candidate;
                is_rvar = dim->is_rvar();
                break;
            }
        }
        return Halide::LoopLevel(host, named(name, is_rvar), ref->update < 0 ? -1 : ref->update + 1);
    }

    void apply(const Statement &statement, bool places) {
        Stage stage = stage_of_ref(statement.stage);
        for (const DirectiveCall &call : statement.calls) {
            if (is_place(call.name) != places && call.name != "specialize") {
                continue;
            }
            try {
                if (call.name == "specialize") {
                    stage = stage.specialize(condition_of(call.args[0], funcs, parameters, schedule.file));
                } else if (call.name == "rfactor") {
                    rfactor(statement, stage, call);
                } else if (!on_stage(stage, call)) {
                    on_func(func(statement.stage), call);
                }
            } catch (const Halide::Error &e) {
                throw Error(refusal(call, e.what()));
            }
        }
    }

    Diagnostic refusal(const DirectiveCall &call, std::string text) const {
        std::replace(text.begin(), text.end(), '\n', ' ');
        Diagnostic d =
            fault("K0501", fmt::format("Halide does not accept `{}` here", call.name), schedule, call.span);
        d.notes.push_back("Halide says: " + text);
        if (!call.expanded_from.empty()) {
            d.notes.push_back(fmt::format("`{}` is part of `{}`", call.name, call.expanded_from));
        }
        return d;
    }

    void rfactor(const Statement &statement, Stage &stage, const DirectiveCall &call) {
        std::vector<std::pair<RVar, Var>> preserved;
        for (const Node &pair : call.args[0].args) {
            preserved.emplace_back(RVar(loop(stage, pair.args[0]).name()), Var(pair.args[1].text));
        }
        Func result = stage.rfactor(preserved);
        funcs.insert_or_assign(statement.binding, result);
    }

    /// False for a directive of the Func.
    bool on_stage(Stage &stage, const DirectiveCall &call) {
        const std::string &name = call.name;
        const std::vector<Node> &a = call.args;
        if (name == "split") {
            VarOrRVar old = loop(stage, a[0]);
            stage.split(old, new_loop(stage, a[1], old.is_rvar), new_loop(stage, a[2], old.is_rvar),
                        static_cast<int>(a[3].int_value), tail_of(a[4].text));
        } else if (name == "fuse") {
            VarOrRVar inner = loop(stage, a[0]), outer = loop(stage, a[1]);
            stage.fuse(inner, outer, new_loop(stage, a[2], inner.is_rvar || outer.is_rvar));
        } else if (name == "reorder") {
            std::vector<VarOrRVar> order;
            for (const Node &node : a) {
                order.push_back(loop(stage, node));
            }
            stage.reorder(order);
        } else if (name == "rename") {
            VarOrRVar old = loop(stage, a[0]);
            stage.rename(old, new_loop(stage, a[1], old.is_rvar));
        } else if (name == "serial") {
            stage.serial(loop(stage, a[0]));
        } else if (name == "parallel") {
            stage.parallel(loop(stage, a[0]));
        } else if (name == "vectorize") {
            stage.vectorize(loop(stage, a[0]));
        } else if (name == "unroll") {
            stage.unroll(loop(stage, a[0]));
        } else if (name == "gpu_blocks") {
            stage.gpu_blocks(loop(stage, a[0]));
        } else if (name == "gpu_threads") {
            stage.gpu_threads(loop(stage, a[0]));
        } else if (name == "gpu_lanes") {
            stage.gpu_lanes(loop(stage, a[0]));
        } else if (name == "gpu_single_thread") {
            stage.gpu_single_thread();
        } else if (name == "partition") {
            stage.partition(loop(stage, a[0]), partition_of(a[1].text));
        } else if (name == "never_partition_all") {
            stage.never_partition_all();
        } else if (name == "always_partition_all") {
            stage.always_partition_all();
        } else if (name == "atomic") {
            stage.atomic(a[0].text == "true");
        } else if (name == "allow_race_conditions") {
            stage.allow_race_conditions();
        } else if (name == "unscheduled") {
            stage.unscheduled();
        } else if (name == "prefetch") {
            prefetch(stage, a);
        } else if (name == "compute_with") {
            std::vector<std::pair<VarOrRVar, Halide::LoopAlignStrategy>> aligns;
            for (const Node &pair : a[2].args) {
                aligns.emplace_back(loop(stage, pair.args[0]), align_of(pair.args[1].text));
            }
            StageRef other = *stage_of(a[0]);
            Stage with = stage_of_ref(other);
            stage.compute_with(with, loop(with, a[1]), aligns);
        } else if (name == "specialize_fail") {
            stage.specialize_fail(a[0].text);
        } else {
            return false;
        }
        return true;
    }

    void prefetch(Stage &stage, const std::vector<Node> &a) {
        VarOrRVar at = loop(stage, a[1]), from = loop(stage, a[2]);
        int offset = static_cast<int>(a[3].int_value);
        Halide::PrefetchBoundStrategy strategy = prefetch_of(a[4].text);
        if (auto buffer = parameters.buffers.find(a[0].text); buffer != parameters.buffers.end()) {
            stage.prefetch(buffer->second, at, from, offset, strategy);
        } else {
            stage.prefetch(func(a[0].text, a[0].span), at, from, offset, strategy);
        }
    }

    void on_func(Func &f, const DirectiveCall &call) {
        const std::string &name = call.name;
        const std::vector<Node> &a = call.args;
        auto integer = [&](size_t i) { return static_cast<int>(a[i].int_value); };
        auto dim = [&](size_t i) { return Var(a[i].text); };
        if (name == "compute_root") {
            f.compute_root();
        } else if (name == "compute_inline") {
            f.compute_inline();
        } else if (name == "compute_at") {
            f.compute_at(level(a[0], a[1]));
        } else if (name == "store_root") {
            f.store_root();
        } else if (name == "store_at") {
            f.store_at(level(a[0], a[1]));
        } else if (name == "hoist_storage_root") {
            f.hoist_storage_root();
        } else if (name == "hoist_storage") {
            f.hoist_storage(level(a[0], a[1]));
        } else if (name == "async") {
            f.async();
        } else if (name == "ring_buffer") {
            f.ring_buffer(integer(0));
        } else if (name == "store_in") {
            f.store_in(memory_of(a[0].text));
        } else if (name == "fold_storage") {
            f.fold_storage(dim(0), integer(1), a[2].text == "true");
        } else if (name == "align_storage") {
            f.align_storage(dim(0), integer(1));
        } else if (name == "bound_storage") {
            f.bound_storage(dim(0), integer(1));
        } else if (name == "reorder_storage") {
            std::vector<Var> order;
            for (size_t i = 0; i < a.size(); i++) {
                order.push_back(dim(i));
            }
            f.reorder_storage(order);
        } else if (name == "bound") {
            f.bound(dim(0), integer(1), integer(2));
        } else if (name == "bound_extent") {
            f.bound_extent(dim(0), integer(1));
        } else if (name == "align_bounds") {
            f.align_bounds(dim(0), integer(1), integer(2));
        } else if (name == "align_extent") {
            f.align_extent(dim(0), integer(1));
        } else {
            throw Error(fault("K0502", fmt::format("`{}` is no primitive of the canonical form", name),
                              schedule, call.span));
        }
    }
};

} // namespace

void apply_schedule(const Schedule &canonical, FuncMap &funcs, const Target &) {
    Applier(canonical, funcs).run();
}

} // namespace kiln
