#include "dsl/schedule/apply/Describe.h"
#include "dsl/schedule/apply/Condition.h"
#include "dsl/support/Diagnostic.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>
#include <sstream>

namespace kiln {

namespace {

using namespace Halide::Internal;
using Halide::Expr;

[[noreturn]] void fail_same_name(const std::string &name) {
    Diagnostic d;
    d.code = "K0113";
    d.message = fmt::format("two Funcs of the pipeline are named `{}`", name);
    d.notes = {"a schedule refers to Funcs by name, so every Func of a pipeline needs its own"};
    d.helps = {fmt::format(
        "give one of them another name where the generator makes it: `Func {}2{{\"{}2\"}}`", name, name)};
    throw Error(d);
}

[[noreturn]] void fail_same_loop(const std::string &func, const std::string &loop) {
    Diagnostic d;
    d.code = "K0114";
    d.message = fmt::format("an update of `{}` has a Var and an RVar that are both named `{}`", func, loop);
    d.notes = {"a schedule refers to loops by name, so a stage's loops need different ones"};
    d.helps = {fmt::format("give the RDom another name in the generator: `RDom r(…, \"r\")`")};
    throw Error(d);
}

std::string base_name(const std::string &name) {
    return name.substr(0, name.find('$'));
}

/// The Func of an ImageParam or Buffer: one call of an image at the Func's own arguments, named `…_im`.
bool reads_one_image(const Function &f) {
    if (!f.has_pure_definition() || f.has_update_definition() || f.values().size() != 1) {
        return false;
    }
    const Call *call = f.values()[0].as<Call>();
    std::string name = base_name(f.name());
    return call && call->call_type == Call::Image && name.size() > 3 && name.ends_with("_im");
}

std::string type_text(const Halide::Type &type) {
    std::ostringstream out;
    out << type;
    return out.str();
}

/// Halide's text of an expression with the names that schedules use.
std::string expr_text(const Expr &e, const std::vector<ReductionVariable> &domain) {
    std::ostringstream out;
    out << e;
    std::string text = out.str(), clean;
    for (const ReductionVariable &rv : domain) {
        std::string name = schedule_name_of_rvar(rv.var, domain);
        for (size_t at = text.find(rv.var); at != std::string::npos;
             at = text.find(rv.var, at + name.size())) {
            text.replace(at, rv.var.size(), name);
        }
    }
    for (size_t i = 0; i < text.size(); i++) {
        if (text[i] == '$' && i + 1 < text.size() && isdigit(static_cast<unsigned char>(text[i + 1]))) {
            while (i + 1 < text.size() && isdigit(static_cast<unsigned char>(text[i + 1]))) {
                i++;
            }
            continue;
        }
        clean += text[i];
    }
    constexpr size_t longest = 160;
    return clean.size() > longest ? clean.substr(0, longest) + "…" : clean;
}

class CollectReads : public IRVisitor {
public:
    CollectReads(const Function &reader, const std::vector<ReductionVariable> &domain,
                 const std::set<std::string> &loops, StageInfo &stage)
        : reader(reader), domain(domain), loops(loops), stage(stage) {}

    using IRVisitor::visit;

    void visit(const Call *op) override {
        IRVisitor::visit(op);
        if (op->call_type != Call::Halide || !op->func.defined()) {
            return;
        }
        Function callee(op->func);
        if (callee.same_as(reader)) {
            return;
        }
        ReadInfo read;
        read.func = schedule_name(callee);
        for (const Expr &arg : op->args) {
            read.indices.push_back(index_of(arg));
        }
        auto same = std::find_if(stage.reads.begin(), stage.reads.end(),
                                 [&](const ReadInfo &other) { return other.same_place(read); });
        if (same == stage.reads.end()) {
            stage.reads.push_back(std::move(read));
        } else {
            same->count++;
        }
    }

private:
    const Function &reader;
    const std::vector<ReductionVariable> &domain;
    const std::set<std::string> &loops;
    StageInfo &stage;

    class Variables : public IRVisitor {
    public:
        std::vector<std::string> names;
        bool reads_data = false;
        using IRVisitor::visit;
        void visit(const Call *op) override {
            reads_data = reads_data || op->call_type == Call::Halide || op->call_type == Call::Image;
            IRVisitor::visit(op);
        }
        void visit(const Variable *op) override {
            if (std::find(names.begin(), names.end(), op->name) == names.end()) {
                names.push_back(op->name);
            }
        }
    };

    IndexInfo index_of(const Expr &arg) const {
        IndexInfo info;
        Variables variables;
        arg.accept(&variables);
        info.from_data = variables.reads_data;
        for (const std::string &name : variables.names) {
            std::string loop = schedule_name_of_rvar(name, domain);
            if (loops.count(loop)) {
                info.loops.push_back(loop);
            }
        }
        if (info.from_data || info.loops.size() != variables.names.size()) {
            return info; // else it depends on a parameter or a let
        }
        Expr rest = arg;
        for (size_t i = 0; i < variables.names.size(); i++) {
            Expr variable = Halide::Internal::Variable::make(Halide::Int(32), variables.names[i]);
            Expr step = simplify(substitute(variables.names[i], variable + 1, arg) - arg);
            auto coefficient = as_const_int(step);
            if (!coefficient) {
                info.terms.clear();
                return info;
            }
            info.terms.push_back({info.loops[i], *coefficient});
            rest = rest - variable * static_cast<int32_t>(*coefficient);
        }
        Expr offset = simplify(rest);
        if (auto value = as_const_int(offset)) {
            info.is_affine = true;
            info.offset = *value;
        } else {
            info.terms.clear();
        }
        return info;
    }
};

std::optional<int64_t> constant(const Expr &e) {
    if (!e.defined()) {
        return std::nullopt;
    }
    Expr simple = simplify(e);
    if (auto value = as_const_int(simple)) {
        return *value;
    }
    return std::nullopt;
}

/// Where the user fixed the extent of an output's dimension, or bound the Var, it is a constant.
void bounds_of_var(const Function &f, const std::string &arg, DimInfo &dim) {
    for (const Bound &bound : f.schedule().bounds()) {
        if (bound.var == arg) {
            dim.min = constant(bound.min);
            dim.extent = constant(bound.extent);
        }
    }
    const std::vector<std::string> args = f.args();
    auto at = std::find(args.begin(), args.end(), arg);
    if (at != args.end() && !f.output_buffers().empty()) {
        int d = static_cast<int>(at - args.begin());
        const Halide::Parameter &buffer = f.output_buffers()[0];
        if (!dim.min) {
            dim.min = constant(buffer.min_constraint(d));
        }
        if (!dim.extent) {
            dim.extent = constant(buffer.extent_constraint(d));
        }
    }
    dim.extent_text = dim.extent ? std::to_string(*dim.extent) : fmt::format("extent({})", dim.name);
}

StageInfo describe_stage(const Function &f, const Definition &definition) {
    StageInfo stage;
    const std::vector<ReductionVariable> &domain = definition.schedule().rvars();
    std::set<std::string> loops;
    for (const Dim &dim : definition.schedule().dims()) {
        if (dim.var == Halide::Var::outermost().name()) {
            continue;
        }
        DimInfo info;
        info.name = schedule_name_of_rvar(dim.var, domain);
        info.is_rvar = dim.is_rvar();
        info.is_pure = dim.is_pure();
        if (info.is_rvar) {
            for (const ReductionVariable &rv : domain) {
                if (rv.var == dim.var) {
                    info.min = constant(rv.min);
                    info.extent = constant(rv.extent);
                    info.extent_text = expr_text(simplify(rv.extent), domain);
                }
            }
        } else {
            bounds_of_var(f, dim.var, info);
        }
        if (!loops.insert(info.name).second) {
            fail_same_loop(schedule_name(f), info.name);
        }
        stage.dims.push_back(std::move(info));
    }
    std::vector<std::string> args, values;
    for (const Expr &e : definition.args()) {
        args.push_back(expr_text(e, domain));
    }
    for (const Expr &e : definition.values()) {
        values.push_back(expr_text(e, domain));
    }
    std::string value = fmt::format("{}", fmt::join(values, ", "));
    stage.source = fmt::format("{}({}) = {}", schedule_name(f), fmt::join(args, ", "),
                               values.size() == 1 ? value : "{" + value + "}");
    CollectReads collect(f, domain, loops, stage);
    for (const Expr &e : definition.args()) {
        e.accept(&collect);
    }
    for (const Expr &e : definition.values()) {
        e.accept(&collect);
    }
    definition.predicate().accept(&collect);
    if (!definition.is_init()) {
        AssociativeOp op = prove_associativity(f.name(), definition.args(), definition.values());
        stage.is_associative = op.associative();
        stage.is_commutative = op.associative() && op.commutative();
    }
    return stage;
}

void visit_producers_first(const Function &f, std::set<std::string> &seen, std::vector<Function> &order) {
    if (!seen.insert(f.name()).second) {
        return;
    }
    for (const auto &[name, callee] : find_direct_calls(f)) {
        visit_producers_first(callee, seen, order);
    }
    order.push_back(f);
}

std::vector<Function> topological_functions(const std::vector<Halide::Func> &outputs) {
    std::set<std::string> seen;
    std::vector<Function> order;
    for (const Halide::Func &output : outputs) {
        visit_producers_first(output.function(), seen, order);
    }
    return order;
}

} // namespace

std::string schedule_name(const Function &function) {
    std::string name = base_name(function.name());
    return reads_one_image(function) ? name.substr(0, name.size() - 3) : name;
}

std::string schedule_name_of_rvar(const std::string &rvar, const std::vector<ReductionVariable> &domain) {
    size_t dollar = rvar.rfind('$');
    if (dollar == std::string::npos) {
        return rvar;
    }
    std::string rdom = rvar.substr(0, dollar), dim = rvar.substr(dollar + 1);
    size_t dims = std::count_if(domain.begin(), domain.end(), [&](const ReductionVariable &rv) {
        return rv.var.substr(0, rv.var.rfind('$')) == rdom;
    });
    return dims <= 1 ? base_name(rdom) : base_name(rdom) + "." + dim;
}

FuncMap funcs_of(const std::vector<Halide::Func> &outputs) {
    FuncMap funcs;
    for (const Function &f : topological_functions(outputs)) {
        std::string name = schedule_name(f);
        if (!funcs.emplace(name, Halide::Func(f)).second) {
            fail_same_name(name);
        }
    }
    return funcs;
}

PipelineInfo describe_pipeline(const std::vector<Halide::Func> &outputs, std::string generator) {
    PipelineInfo pipeline;
    pipeline.generator = std::move(generator);
    FuncMap funcs = funcs_of(outputs);
    for (const Halide::Func &output : outputs) {
        pipeline.outputs.push_back(schedule_name(output.function()));
    }
    for (const auto &[name, parameter] : parameters_of(funcs).scalars) {
        pipeline.scalars.push_back(name);
    }
    for (const Function &f : topological_functions(outputs)) {
        FuncInfo info;
        info.name = schedule_name(f);
        info.args = f.args();
        for (const Halide::Type &type : f.output_types()) {
            info.types.push_back(type_text(type));
        }
        info.is_input = reads_one_image(f);
        info.is_extern = f.has_extern_definition();
        info.is_output =
            std::find(pipeline.outputs.begin(), pipeline.outputs.end(), info.name) != pipeline.outputs.end();
        info.can_be_inlined = f.can_be_inlined() && !info.is_output;
        info.stages.push_back(describe_stage(f, f.definition()));
        for (const Definition &update : f.updates()) {
            info.stages.push_back(describe_stage(f, update));
        }
        for (const auto &[name, callee] : find_direct_calls(f)) {
            if (!callee.same_as(f)) {
                info.callees.push_back(schedule_name(callee));
            }
        }
        pipeline.funcs.push_back(std::move(info));
    }
    for (FuncInfo &producer : pipeline.funcs) {
        for (const FuncInfo &consumer : pipeline.funcs) {
            if (std::find(consumer.callees.begin(), consumer.callees.end(), producer.name) !=
                consumer.callees.end()) {
                producer.callers.push_back(consumer.name);
            }
        }
    }
    return pipeline;
}

} // namespace kiln
