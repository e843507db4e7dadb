#include "dsl/lower/TileKernels.h"

#include "dsl/lower/Rebuild.h"
#include "dsl/lower/TileBounds.h"
#include "dsl/lower/TileShim.h"
#include "dsl/tile/build/Build.h"
#include "dsl/tile/build/ReadPlan.h"
#include "dsl/tile/passes/Runner.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln {

namespace {

using Halide::Expr;
using Halide::Func;
using Halide::Parameter;
using namespace Halide::Internal;
using Role = TileStageView::Role;

[[noreturn]] void refuse(const char *code, std::string message, std::vector<std::string> helps) {
    Diagnostic d;
    d.code = code;
    d.message = std::move(message);
    d.helps = std::move(helps);
    throw Error(std::move(d));
}

const Parameter *input_named(const PipelineSource &source, const std::string &name) {
    for (const Parameter &p : source.inputs) {
        if (base_name(p.name()) == base_name(name)) {
            return &p;
        }
    }
    return nullptr;
}

/// `f.1` of a Tuple is a view of `f`.
std::string func_of_view(const std::string &view) {
    return view.substr(0, view.find('.'));
}

/// Constant buffers that the Funcs read, by name.
std::map<std::string, Halide::Buffer<>> constants_of(const std::vector<Func> &outputs) {
    class Find : public IRGraphVisitor {
    public:
        using IRGraphVisitor::visit;
        void visit(const Call *op) override {
            if (op->call_type == Call::Image && op->image.defined()) {
                found[op->name] = op->image;
            }
            IRGraphVisitor::visit(op);
        }
        std::map<std::string, Halide::Buffer<>> found;
    } finder;
    for (const auto &[name, f] : funcs_of(outputs)) {
        f.function().accept(&finder);
    }
    return finder.found;
}

std::vector<std::string> components(const Function &f) {
    std::string name = schedule_name(f);
    if (f.outputs() == 1) {
        return {name};
    }
    std::vector<std::string> out;
    for (int c = 0; c < f.outputs(); c++) {
        out.push_back(fmt::format("{}.{}", name, c));
    }
    return out;
}

class MakeStage {
public:
    MakeStage(const tile::TilePlan &plan, const std::vector<Func> &outputs, const PipelineSource &source,
              const Target &target, const std::string &symbol)
        : plan_(plan), outputs_(outputs), source_(source), target_(target) {
        s_.func = plan.kernel;
        s_.symbol = symbol;
    }

    TileStage run() {
        refuse_readers();
        tile::Kernel k = tile::build_kernel(plan_, outputs_);
        views(k);
        std::vector<tile::PassRun> log;
        k = tile::run_passes(std::move(k), limits_of(target_), &log);
        s_.passes = tile::explain_passes(log);
        s_.remarks = k.remarks;
        s_.conditions = k.conditions;
        s_.backend = target_.backend;
        s_.kernel = target_.backend == Backend::OpenCL ? tile::emit_opencl(k) : tile::emit_cuda(k, options());
        compile();
        scalars();
        return std::move(s_);
    }

private:
    /// Nothing orders a reader of another output after the kernel that writes it.
    void refuse_readers() {
        std::set<std::string> others;
        for (size_t i = 1; i < outputs_.size(); i++) {
            others.insert(outputs_[i].name());
        }
        std::set<std::string> own;
        for (const Func &f : outputs_) {
            own.insert(f.name());
            for (const auto &[name, function] : find_transitive_calls(f.function())) {
                own.insert(name);
            }
        }
        for (const auto &[name, f] : funcs_of(source_.outputs)) {
            for (const auto &[callee, function] : find_direct_calls(f.function())) {
                if (others.count(callee) && !own.count(f.name())) {
                    refuse(
                        "K1192",
                        fmt::format("`{}` reads `{}`, a further output of the tile kernel `{}`", name,
                                    base_name(callee), s_.func),
                        {fmt::format(
                             "make `{}` the kernel's own Func: `{}.tile_kernel()` and `{}.tile_kernel({})`",
                             base_name(callee), base_name(callee), s_.func, base_name(callee)),
                         fmt::format("or compute `{}` in the kernel too", name)});
                }
            }
        }
        for (size_t i = 1; i < outputs_.size(); i++) {
            bool is_output = std::any_of(source_.outputs.begin(), source_.outputs.end(),
                                         [&](const Func &f) { return f.name() == outputs_[i].name(); });
            if (!is_output) {
                refuse("K1192",
                       fmt::format(
                           "`{}` is a further output of the tile kernel `{}`, but no output of the pipeline",
                           schedule_name(outputs_[i].function()), s_.func),
                       {"compute it inside the kernel"});
            }
        }
    }

    /// A portable kernel takes what no other does: any base and any strides.
    tile::EmitOptions options() const {
        tile::EmitOptions o;
        o.vectors = !target_.feature.empty() && target_.feature.back() == 'a';
        return o;
    }

    void compile() {
        if (target_.backend == Backend::OpenCL) {
            s_.compiled.cubin = s_.kernel.text; // the driver's compiler knows the device
            return;
        }
        const std::string &feature = target_.feature;
        bool exact = !feature.empty() && feature.back() == 'a';
        if (exact) {
            s_.compiled = tile::compile_cubin(s_.kernel.text, s_.kernel.name, feature);
        } else {
            // PTX is assembled where it runs: that it can be is seen here.
            s_.compiled =
                tile::compile_cubin(s_.kernel.text, s_.kernel.name, fmt::format("sm_{}", target_.level()));
            s_.compiled.cubin =
                tile::compile_ptx(s_.kernel.text, s_.kernel.name, fmt::format("compute_{}", target_.level()));
        }
    }

    void views(const tile::Kernel &k) {
        TileBounds bounds = tile_bounds(outputs_, plan_.outside, s_.func);
        s_.bounds = std::move(bounds.values);
        FuncMap funcs = funcs_of(source_.outputs);
        std::set<std::string> done;
        for (const tile::View &v : k.views) {
            if (v.is_output || !v.is_buffer()) {
                continue;
            }
            auto func =
                plan_.outside.count(func_of_view(v.name)) ? funcs.find(func_of_view(v.name)) : funcs.end();
            if (func == funcs.end()) {
                if (done.insert(v.name).second) {
                    add_input(v.name, v.type, v.rank, bounds.reads[base_name(v.name)], bounds.mentioned);
                }
                continue;
            }
            // All components are handed over together, also those that the kernel does not read.
            const Function &f = func->second.function();
            if (!done.insert(func->first).second) {
                continue;
            }
            std::vector<std::string> names = components(f);
            for (size_t c = 0; c < names.size(); c++) {
                add_input(names[c], f.output_types()[c], f.dimensions(), bounds.reads[func->first],
                          bounds.mentioned);
            }
        }
        add_shapes(bounds.mentioned);
        for (size_t i = 1; i < outputs_.size(); i++) {
            add_outputs(outputs_[i], Role::OtherOutput);
        }
        add_outputs(outputs_[0], Role::Output);
    }

    /// Inputs of which the kernel reads nothing, but that say how long its loops are.
    void add_shapes(const std::set<std::string> &mentioned) {
        for (const Parameter &p : source_.inputs) {
            const std::string name = base_name(p.name());
            const bool is_view = std::any_of(s_.views.begin(), s_.views.end(),
                                             [&](const TileStageView &v) { return v.name == name; });
            const bool is_mentioned =
                std::any_of(mentioned.begin(), mentioned.end(),
                            [&](const std::string &m) { return m.starts_with(name + "."); });
            if (p.is_buffer() && is_mentioned && !is_view) {
                add_input(name, p.type(), p.dimensions(), {}, mentioned);
            }
        }
    }

    void add_input(const std::string &name, Halide::Type type, int rank, std::vector<TileRange> reads,
                   const std::set<std::string> &mentioned) {
        reads.resize(static_cast<size_t>(rank), TileRange{Expr(0), Expr(-1)});
        for (size_t d = 0; d < reads.size(); d++) {
            auto first = as_const_int(reads[d].first);
            if (first && *first < 0) {
                refuse("K1193",
                       fmt::format(
                           "the tile kernel of `{}` reads `{}` from {} on in dimension {}, and tile kernels "
                           "count from 0",
                           s_.func, name, *first, d),
                       {fmt::format("schedule `{}` as loops, or shift the index", s_.func)});
            }
        }
        std::vector<bool> clipped;
        for (int d = 0; d < rank; d++) {
            clipped.push_back(!mentioned.count(fmt::format("{}.extent.{}", name, d)));
        }
        s_.views.push_back({name, type, rank, Role::Input, std::move(reads), std::move(clipped)});
    }

    void add_outputs(const Func &f, Role role) {
        std::vector<std::string> names = components(f.function());
        for (size_t c = 0; c < names.size(); c++) {
            s_.views.push_back({names[c], f.types()[c], f.dimensions(), role, {}, {}});
        }
    }

    /// Scalar inputs that the launch or the kernel needs.
    void scalars() {
        class Find : public IRGraphVisitor {
        public:
            using IRGraphVisitor::visit;
            void visit(const Variable *op) override { names.insert(op->name); }
            std::set<std::string> names;
        } finder;
        for (const tile::KernelParam &p : s_.kernel.params) {
            if (p.value.defined()) {
                p.value.accept(&finder);
            }
        }
        for (const auto &[name, value] : s_.bounds) {
            value.accept(&finder);
        }
        for (const auto *list : {&s_.conditions}) {
            for (const Expr &e : *list) {
                e.accept(&finder);
            }
        }
        for (const tile::GridLoop &g : s_.kernel.grid) {
            g.extent.accept(&finder);
        }
        for (const Parameter &p : source_.inputs) {
            if (!p.is_buffer() && finder.names.count(base_name(p.name()))) {
                s_.scalars.emplace_back(base_name(p.name()), p.type());
            }
        }
    }

    const tile::TilePlan &plan_;
    const std::vector<Func> &outputs_;
    const PipelineSource &source_;
    const Target &target_;
    TileStage s_;
};

/// `x.extent.0 <= n` as a condition of a variant.
bool as_extent_limit(const Expr &e, VariantCondition &condition) {
    const LE *le = e.as<LE>();
    const LT *lt = e.as<LT>();
    const Variable *v = le ? le->a.as<Variable>() : lt ? lt->a.as<Variable>() : nullptr;
    auto limit = le ? as_const_int(le->b) : lt ? as_const_int(lt->b) : std::nullopt;
    size_t at = v ? v->name.rfind(".extent.") : std::string::npos;
    if (at == std::string::npos || !limit) {
        return false;
    }
    condition.what = VariantCondition::What::ExtentAtMost;
    condition.argument = v->name.substr(0, at);
    condition.dimension = std::stoi(v->name.substr(at + 8));
    condition.value = lt ? *limit - 1 : *limit;
    return true;
}

/// `(y.extent.0 + 63)/64 <= (z.extent.0 + 63)/64`.
bool as_block_limit(const Expr &e, VariantCondition &condition) {
    auto blocks = [](const Expr &of, std::string &buffer, int &dimension) -> int64_t {
        const Div *div = of.as<Div>();
        const Add *sum = div ? div->a.as<Add>() : nullptr;
        const Variable *v = sum ? sum->a.as<Variable>() : of.as<Variable>();
        const auto size = div ? as_const_int(div->b) : std::optional<int64_t>(1);
        const auto rest = sum ? as_const_int(sum->b) : std::optional<int64_t>(0);
        const size_t at = v ? v->name.rfind(".extent.") : std::string::npos;
        if (at == std::string::npos || !size || !rest || *rest != *size - 1) {
            return 0;
        }
        buffer = v->name.substr(0, at);
        dimension = std::stoi(v->name.substr(at + 8));
        return *size;
    };
    const LE *le = e.as<LE>();
    const int64_t size = le ? blocks(le->a, condition.argument, condition.dimension) : 0;
    condition.what = VariantCondition::What::BlocksAtMost;
    condition.value = size;
    return size > 0 && blocks(le->b, condition.other, condition.other_dimension) == size;
}

/// Whether the launch shows the kernel so little of the argument that the condition holds anyway.
bool holds_by_clipping(const TileStage &stage, const VariantCondition &c) {
    for (const TileStageView &v : stage.views) {
        const size_t d = static_cast<size_t>(c.dimension);
        if (v.name != c.argument || v.role != Role::Input || !v.clipped[d]) {
            continue;
        }
        Expr last = v.reads[d].last;
        for (auto bound = stage.bounds.rbegin(); bound != stage.bounds.rend(); ++bound) {
            last = substitute(bound->first, bound->second, last);
        }
        const Expr other =
            Variable::make(Halide::Int(32), fmt::format("{}.extent.{}", c.other, c.other_dimension));
        return can_prove(last + 1 <= other);
    }
    return false;
}

const LegalizedArgument *argument_named(const LegalizedPipeline &pipeline, const std::string &name) {
    for (const std::vector<LegalizedArgument> *list : {&pipeline.inputs, &pipeline.output_args}) {
        for (const LegalizedArgument &a : *list) {
            if (a.name == name && a.parameter.is_buffer()) {
                return &a;
            }
        }
    }
    return nullptr;
}

bool is_constraint(const Expr &e, int64_t value) {
    auto constant = e.defined() ? as_const_int(simplify(e)) : std::nullopt;
    return constant && *constant == value;
}

} // namespace

TileStage make_tile_stage(const tile::TilePlan &plan, const std::vector<Func> &outputs,
                          const PipelineSource &source, const Target &target, const std::string &symbol) {
    return MakeStage(plan, outputs, source, target, symbol).run();
}

TileStage make_tile_stage(const TileGroup &group, const PipelineSource &source, const Target &target,
                          const std::string &symbol) {
    FuncMap funcs = funcs_of(source.outputs);
    std::vector<Func> outputs;
    for (const FuncNest *f : group.outputs) {
        outputs.push_back(funcs.at(f->name));
    }
    tile::TilePlan plan = tile::read_plan(group);
    tile::fit_target(plan, target);
    return make_tile_stage(plan, outputs, source, target, symbol);
}

std::map<std::string, StageReplacement> stage_replacements(const std::vector<TileStage> &stages,
                                                           const PipelineSource &source) {
    std::map<std::string, StageReplacement> out;
    FuncMap funcs = funcs_of(source.outputs);
    std::map<std::string, Halide::Buffer<>> constants = constants_of(source.outputs);
    for (const TileStage &stage : stages) {
        StageReplacement r{stage.symbol, {}};
        std::set<std::string> done;
        for (const TileStageView &v : stage.views) {
            if (v.role == Role::Output) {
                continue;
            }
            const Parameter *input = v.role == Role::Input ? input_named(source, v.name) : nullptr;
            if (input) {
                r.arguments.push_back(*input);
            } else if (auto constant = constants.find(v.name); constant != constants.end()) {
                r.arguments.push_back(constant->second);
            } else if (done.insert(func_of_view(v.name)).second) {
                r.arguments.push_back(funcs.at(func_of_view(v.name)));
            }
            if (v.role == Role::OtherOutput) {
                out[func_of_view(v.name)] = {tile_allocate_symbol(stage, func_of_view(v.name)), {}};
            }
        }
        for (const auto &[name, type] : stage.scalars) {
            const Parameter &p = *input_named(source, name);
            r.arguments.push_back(Variable::make(type, p.name(), p));
        }
        out[stage.func] = std::move(r);
    }
    return out;
}

void place_stages(const std::vector<TileStage> &stages, LegalizedPipeline &pipeline) {
    for (const TileStage &stage : stages) {
        pipeline.funcs.at(stage.func).compute_root();
        for (const tile::EmittedKernel::Need &need : stage.kernel.needs) {
            auto it = pipeline.funcs.find(func_of_view(need.view));
            if (it == pipeline.funcs.end() || argument_named(pipeline, need.view) ||
                it->second.dimensions() == 0) {
                continue;
            }
            int elements = need.stride_alignment / it->second.types()[0].bytes();
            if (elements > 1) {
                it->second.align_storage(it->second.args()[0], elements);
            }
        }
    }
}

std::vector<VariantCondition> stage_conditions(const std::vector<TileStage> &stages,
                                               const LegalizedPipeline &pipeline) {
    using What = VariantCondition::What;
    std::vector<VariantCondition> out;
    auto add = [&](VariantCondition c) {
        if (std::find(out.begin(), out.end(), c) == out.end()) {
            out.push_back(std::move(c));
        }
    };
    for (const TileStage &stage : stages) {
        for (const TileStageView &v : stage.views) {
            const LegalizedArgument *a = argument_named(pipeline, v.name);
            for (int d = 0; a && d < v.rank; d++) {
                if (!is_constraint(a->parameter.min_constraint(d), 0)) {
                    add({What::MinIs, v.name, d, 0});
                }
                if (d == 0 && !is_constraint(a->parameter.stride_constraint(0), 1)) {
                    add({What::StrideIs, v.name, 0, 1});
                }
            }
        }
        for (const tile::EmittedKernel::Need &need : stage.kernel.needs) {
            const LegalizedArgument *a = argument_named(pipeline, need.view);
            if (!a) {
                continue;
            }
            int bytes = a->contract_type.bytes();
            if (need.address_alignment > bytes) {
                add({What::DeviceAlignedTo, need.view, 0, need.address_alignment});
            }
            for (int d = 1; need.stride_alignment > bytes && d < a->parameter.dimensions(); d++) {
                add({What::StrideMultipleOf, need.view, d, need.stride_alignment / bytes});
            }
        }
        for (const Expr &e : stage.conditions) {
            VariantCondition c, between;
            if (as_extent_limit(simplify(e), c) && argument_named(pipeline, c.argument)) {
                add(c);
            } else if (as_block_limit(e, between) && argument_named(pipeline, between.argument) &&
                       argument_named(pipeline, between.other) && !holds_by_clipping(stage, between)) {
                add(between);
            }
        }
    }
    return out;
}

Schedule without_stages(const Schedule &canonical, const std::vector<TileGroup> &groups,
                        const LegalizedPipeline &pipeline) {
    std::set<std::string> known;
    for (const auto &[name, f] : pipeline.funcs) {
        known.insert(name);
    }
    auto computed = [&](const std::string &name) {
        return std::any_of(groups.begin(), groups.end(),
                           [&](const TileGroup &g) { return g.computes(name); });
    };
    Schedule out = canonical;
    out.statements.clear();
    for (const Statement &s : canonical.statements) {
        StageRef whole = s.stage;
        whole.update = -1;
        bool keep = known.count(s.stage.func) && !computed(whole.str());
        for (const std::string &consumer : s.stage.wrapper_for) {
            keep &= known.count(consumer) && !computed(consumer);
        }
        if (keep) {
            out.statements.push_back(s);
            if (!s.binding.empty()) {
                known.insert(s.binding);
            }
        }
    }
    return out;
}

} // namespace kiln
