#include "dsl/lower/Rebuild.h"

#include "dsl/support/Diagnostic.h"

#include <fmt/format.h>

#include <cctype>
#include <cstring>

namespace kiln {

using namespace Halide;
using namespace Halide::Internal;

namespace {

Diagnostic fault(const char *code, std::string message, std::string help) {
    Diagnostic d;
    d.code = code;
    d.message = std::move(message);
    d.helps = {std::move(help)};
    return d;
}

/// The reduction domain that a definition ranges over, from the first RVar found in it.
class FindDomain : public IRVisitor {
public:
    ReductionDomain found;
    using IRVisitor::visit;
    void visit(const Variable *op) override {
        if (op->reduction_domain.defined() && !found.defined()) {
            found = op->reduction_domain;
        }
    }
};

ReductionDomain domain_of(const Definition &definition) {
    FindDomain finder;
    for (const Expr &e : definition.args()) {
        e.accept(&finder);
    }
    for (const Expr &e : definition.values()) {
        e.accept(&finder);
    }
    return finder.found;
}

std::vector<Expr> mutate_all(IRMutator &mutator, const std::vector<Expr> &exprs) {
    std::vector<Expr> out;
    for (const Expr &e : exprs) {
        out.push_back(mutator.mutate(e));
    }
    return out;
}

} // namespace

std::string base_name(const std::string &name) {
    size_t at = name.rfind('$');
    if (at == std::string::npos || at == 0 || at + 1 == name.size()) {
        return name;
    }
    for (size_t i = at + 1; i < name.size(); ++i) {
        if (!std::isdigit(static_cast<unsigned char>(name[i]))) {
            return name;
        }
    }
    return name.substr(0, at);
}

Function GraphRebuild::rebuild(const Function &old) {
    const void *key = old.get_contents().get();
    if (auto it = functions_.find(key); it != functions_.end()) {
        return it->second;
    }
    std::string name = base_name(old.name());
    Function now(name);
    bool replaced = replace(old, now);
    for (const auto &[callee_name, callee] : find_direct_calls(old)) {
        if (!replaced && !callee.same_as(old)) {
            rebuild(callee);
        }
    }
    if (by_name_.count(name)) {
        throw Error(fault("K1020", fmt::format("two Funcs of this pipeline have the name `{}`", name),
                          "give each Func a name of its own: a schedule refers to Funcs by name"));
    }
    functions_[key] = now;
    by_name_[name] = {old, now};
    pointers_[old.get_contents()] = now.get_contents();
    if (!replaced) {
        if (old.has_extern_definition()) {
            rebuild_extern(old, now);
        } else {
            rebuild_definitions(old, now);
        }
        copy_schedules(old, now);
    }
    for (size_t i = 0; i < old.output_buffers().size(); ++i) {
        parameters_[old.output_buffers()[i].name()] = now.output_buffers()[i];
        without_constraints_.emplace_back(old.output_buffers()[i], now.output_buffers()[i]);
    }
    return now;
}

Expr GraphRebuild::whole(const Expr &e) {
    return e.defined() ? finish(mutate(e), in_update_of_) : e;
}

std::vector<Expr> GraphRebuild::stored_values(const std::vector<Expr> &values,
                                              const std::vector<Type> &types) {
    std::vector<Expr> out;
    for (size_t i = 0; i < values.size(); ++i) {
        Expr value = mutate(values[i]);
        if (stored(types[i]) != types[i]) {
            value = store(value, types[i]);
        }
        out.push_back(finish(value, in_update_of_));
    }
    return out;
}

void GraphRebuild::rebuild_definitions(const Function &old, Function &now) {
    in_update_of_ = Function();
    if (!old.has_pure_definition()) {
        return;
    }
    now.define(old.args(), stored_values(old.values(), old.output_types()));
    for (const Definition &update : old.updates()) {
        in_update_of_ = now;
        std::vector<Expr> args;
        for (const Expr &e : update.args()) {
            args.push_back(whole(e));
        }
        ReductionDomain domain = domain_of(update);
        std::vector<Expr> values = stored_values(update.values(), old.output_types());
        now.define_update(args, values, domain.defined() ? rebuild(domain) : ReductionDomain());
    }
    in_update_of_ = Function();
}

void GraphRebuild::rebuild_extern(const Function &old, Function &now) {
    std::vector<ExternFuncArgument> args = old.extern_arguments();
    for (ExternFuncArgument &arg : args) {
        std::vector<Type> types;
        if (arg.is_func()) {
            Function f(arg.func);
            types = f.output_types();
            arg.func = rebuild(f).get_contents();
        } else if (arg.is_expr()) {
            types = {arg.expr.type()};
            arg.expr = whole(arg.expr);
        } else if (arg.is_image_param()) {
            types = {arg.image_param.type()};
            arg.image_param = rebuild(arg.image_param);
        }
        for (const Type &t : types) {
            if (stored(t) != t) {
                throw Error(
                    fault("K1021",
                          fmt::format(
                              "the extern stage `{}` takes a 16-bit float, which this target does not store",
                              base_name(old.name())),
                          "cast to float32 before the extern stage"));
            }
        }
    }
    std::vector<Var> dims;
    for (const std::string &name : old.args()) {
        dims.emplace_back(name);
    }
    now.define_extern(old.extern_function_name(), args, old.output_types(), dims,
                      old.extern_definition_name_mangling(), old.extern_function_device_api());
    now.extern_definition_proxy_expr() = whole(old.extern_definition_proxy_expr());
}

void GraphRebuild::copy_schedules(const Function &old, Function &now) {
    now.schedule() = old.schedule().deep_copy(pointers_);
    now.schedule().mutate(this);
    if (!old.has_pure_definition()) {
        return;
    }
    auto copy = [&](const Definition &from, Definition &to) {
        if (!from.specializations().empty()) {
            throw Error(fault("K1022",
                              fmt::format("`{}` is specialized in its C++ definition", base_name(old.name())),
                              "write `specialize` in the schedule file"));
        }
        std::vector<ReductionVariable> rvars = to.schedule().rvars();
        to.schedule() = from.schedule().get_copy();
        to.schedule().rvars() = rvars;
    };
    copy(old.definition(), now.definition());
    for (size_t i = 0; i < old.updates().size(); ++i) {
        copy(old.update(int(i)), now.update(int(i)));
    }
}

Parameter GraphRebuild::rebuild(const Parameter &old) {
    if (auto it = parameters_.find(old.name()); it != parameters_.end()) {
        return it->second;
    }
    Type type = stored(old.type());
    Parameter now(type, old.is_buffer(), old.dimensions(), base_name(old.name()));
    parameters_[old.name()] = now;
    if (old.is_buffer()) {
        now.store_in(old.memory_type());
        without_constraints_.emplace_back(old, now);
    }
    if (type == old.type()) {
        copy_value(old, now);
    }
    return now;
}

void GraphRebuild::copy_value(const Parameter &old, Parameter &now) {
    if (old.is_buffer()) {
        if (old.buffer().defined()) {
            now.set_buffer(old.buffer());
        }
        return;
    }
    now.set_min_value(old.min_value());
    now.set_max_value(old.max_value());
    now.set_estimate(old.estimate());
    now.set_default_value(old.default_value());
    if (!old.has_scalar_value() || old.type().is_handle()) {
        return;
    }
    Expr value = old.scalar_expr();
    Type type = old.type();
    halide_scalar_value_t raw{};
    if (type == Float(64)) {
        raw.u.f64 = *as_const_float(value);
    } else if (type == Float(32)) {
        raw.u.f32 = float(*as_const_float(value));
    } else if (type == Float(16)) {
        raw.u.u64 = float16_t(*as_const_float(value)).to_bits();
    } else if (type == BFloat(16)) {
        raw.u.u64 = bfloat16_t(*as_const_float(value)).to_bits();
    } else if (type.is_int()) {
        raw.u.i64 = *as_const_int(value);
    } else {
        raw.u.u64 = *as_const_uint(value);
    }
    now.set_scalar(type, raw);
}

void GraphRebuild::rebuild_constraints() {
    // The list grows when a constraint names a parameter that nothing else does.
    for (size_t i = 0; i < without_constraints_.size(); ++i) {
        auto [old, now] = without_constraints_[i];
        copy_constraints(old, now);
    }
    without_constraints_.clear();
}

void GraphRebuild::copy_constraints(const Parameter &old, Parameter now) {
    // Halide begins with stride 1 in dimension 0: an undefined constraint must be copied too.
    for (int d = 0; d < old.dimensions(); ++d) {
        auto copy = [&](const Expr &e) { return e.defined() ? mutate(e) : e; };
        now.set_min_constraint(d, copy(old.min_constraint(d)));
        now.set_extent_constraint(d, copy(old.extent_constraint(d)));
        now.set_stride_constraint(d, copy(old.stride_constraint(d)));
        now.set_min_constraint_estimate(d, copy(old.min_constraint_estimate(d)));
        now.set_extent_constraint_estimate(d, copy(old.extent_constraint_estimate(d)));
    }
    now.set_host_alignment(old.host_alignment());
}

void GraphRebuild::rename_levels() {
    for (auto &[name, entry] : by_name_) {
        FuncSchedule &schedule = entry.after.schedule();
        for (LoopLevel *level :
             {&schedule.compute_level(), &schedule.store_level(), &schedule.hoist_storage_level()}) {
            level->lock();
            if (level->is_inlined() || level->is_root()) {
                continue;
            }
            auto at = by_name_.find(base_name(level->func()));
            if (at != by_name_.end()) {
                *level = LoopLevel(at->second.after, level->var(), level->get_stage_index());
            }
        }
    }
}

Buffer<> GraphRebuild::rebuild(const Buffer<> &old) {
    Type kept = stored(old.type());
    if (kept == old.type()) {
        return old;
    }
    Buffer<> &image = images_[old.name()];
    if (!image.defined()) {
        // Same bits under the stored type, in memory of its own.
        halide_buffer_t raw = *old.raw_buffer();
        raw.type = halide_type_t(kept.code(), uint8_t(kept.bits()));
        image = Buffer<>(Runtime::Buffer<>(raw).copy(), base_name(old.name()));
    }
    return image;
}

ReductionDomain GraphRebuild::rebuild(const ReductionDomain &old) {
    if (auto it = domains_.find(old); it != domains_.end()) {
        return it->second;
    }
    Function around = in_update_of_;
    in_update_of_ = Function();
    std::vector<ReductionVariable> vars;
    for (const ReductionVariable &v : old.domain()) {
        vars.push_back({v.var, whole(v.min), whole(v.extent)});
    }
    ReductionDomain now(vars);
    // The predicate names the domain's own variables: it must be known before they are met.
    domains_[old] = now;
    now.set_predicate(whole(old.predicate()));
    in_update_of_ = around;
    return now;
}

Expr GraphRebuild::visit(const Call *op) {
    if (op->call_type == Call::Halide && op->func.defined()) {
        Function old(op->func);
        auto it = functions_.find(op->func.get());
        Function now = it != functions_.end() ? it->second : rebuild(old);
        std::vector<Expr> args = mutate_all(*this, op->args);
        Type type = old.output_types()[op->value_index];
        // The Function may be in the middle of its definition (a read of itself): its types are not final
        // there.
        Expr call =
            Call::make(stored(type), now.name(), args, Call::Halide, now.get_contents(), op->value_index);
        return stored(type) == type ? call : load(call, type);
    }
    if (op->call_type == Call::Image) {
        std::vector<Expr> args = mutate_all(*this, op->args);
        Type type = op->type, kept = stored(type);
        Expr call;
        if (op->param.defined()) {
            call = Call::make(rebuild(op->param), args);
        } else if (kept == type) {
            call = Call::make(op->image, args);
        } else {
            call = Call::make(rebuild(op->image), args);
        }
        return kept == type ? call : load(call, type);
    }
    return IRMutator::visit(op);
}

Expr GraphRebuild::visit(const Variable *op) {
    if (op->reduction_domain.defined()) {
        return Variable::make(op->type, op->name, rebuild(op->reduction_domain));
    }
    if (op->param.defined()) {
        Parameter now = rebuild(op->param);
        if (op->param.is_buffer()) {
            // `x.extent.0`: the field of a buffer, by the buffer's new name.
            std::string name = now.name() + op->name.substr(op->param.name().size());
            return Variable::make(op->type, name, now);
        }
        if (now.type() == op->type) {
            return Variable::make(op->type, now.name(), now);
        }
        return load(Variable::make(now.type(), now.name(), now), op->type);
    }
    return op;
}

} // namespace kiln
