#include "dsl/lower/Legalize.h"

#include "dsl/lower/LegalizeMath.h"
#include "dsl/lower/LegalizeStorage.h"

namespace kiln {

using namespace Halide;
using namespace Halide::Internal;

namespace {

/// The buffer that `function` does nothing but read (Halide's `x_im`), or an undefined Parameter.
Parameter input_of(const Function &function) {
    if (!function.is_pure() || function.outputs() != 1 || function.values().size() != 1) {
        return Parameter();
    }
    const Call *call = function.values()[0].as<Call>();
    if (!call || call->call_type != Call::Image || !call->param.defined() ||
        base_name(function.name()) != base_name(call->param.name()) + "_im") {
        return Parameter();
    }
    return call->param;
}

class FindParameters : public IRGraphVisitor {
public:
    std::vector<Parameter> found;
    using IRGraphVisitor::visit;
    void visit(const Call *op) override {
        add(op->param);
        IRGraphVisitor::visit(op);
    }
    void visit(const Variable *op) override { add(op->param); }
    std::set<std::string> outputs;

private:
    void add(const Parameter &p) {
        if (p.defined() && !outputs.count(p.name()) && seen_.insert(p.name()).second) {
            found.push_back(p);
        }
    }
    std::set<std::string> seen_;
};

/// The graph with some Funcs replaced by extern stages.
class Graph : public LegalizeStorage {
public:
    Graph(const Halide::Target &target, const LegalizeOptions &options, Finish finish)
        : LegalizeStorage(target, options.storage, std::move(finish)), options_(options),
          device_(target.has_feature(Halide::Target::OpenCL) ? DeviceAPI::OpenCL : DeviceAPI::CUDA) {}

protected:
    bool replace(const Function &old, Function &now) override {
        auto it = options_.replace.find(base_name(old.name()));
        if (it == options_.replace.end()) {
            return false;
        }
        std::vector<ExternFuncArgument> arguments = {user_context_};
        for (ExternFuncArgument a : it->second.arguments) {
            if (a.is_func()) {
                a.func = rebuild(Function(a.func)).get_contents();
            } else if (a.is_image_param()) {
                a.image_param = rebuild(a.image_param);
            } else if (a.is_buffer()) {
                a.buffer = rebuild(a.buffer);
            } else {
                a.expr = mutate(a.expr);
            }
            arguments.push_back(a);
        }
        std::vector<Halide::Type> types;
        for (const Halide::Type &t : old.output_types()) {
            types.push_back(stored(t));
        }
        std::vector<Var> dims;
        for (const std::string &name : old.args()) {
            dims.emplace_back(name);
        }
        now.define_extern(it->second.symbol, arguments, types, dims, NameMangling::C, device_);
        return true;
    }

private:
    const LegalizeOptions &options_;
    const DeviceAPI device_;
    Expr user_context_ = user_context_value(); // Halide takes two of them for two parameters of one name
};

LegalizedArgument input_argument(const Parameter &before, const Parameter &now) {
    LegalizedArgument a;
    a.name = now.name();
    a.contract_type = before.type();
    a.parameter = now;
    a.argument = Argument(now.name(), now.is_buffer() ? Argument::InputBuffer : Argument::InputScalar,
                          now.type(), now.dimensions(), now.get_argument_estimates());
    return a;
}

} // namespace

std::vector<Parameter> input_parameters(const std::vector<Func> &outputs) {
    FindParameters finder;
    std::vector<Function> functions;
    for (const Func &f : outputs) {
        functions.push_back(f.function());
        for (const Parameter &p : f.function().output_buffers()) {
            finder.outputs.insert(p.name());
        }
    }
    for (const Function &f : called_funcs_in_order_found(functions)) {
        f.accept(&finder);
    }
    return finder.found;
}

std::vector<Argument> LegalizedPipeline::arguments() const {
    std::vector<Argument> out;
    for (const LegalizedArgument &a : inputs) {
        out.push_back(a.argument);
    }
    return out;
}

LegalizedPipeline legalize(const std::vector<Func> &outputs, const std::vector<Parameter> &inputs,
                           const Halide::Target &target, const LegalizeOptions &options) {
    LegalizeStorage::Finish finish;
    if (options.math) {
        finish = [target](const Expr &e, const Function &in_update_of) {
            return legalize_math(e, in_update_of, target);
        };
    }
    Graph graph(target, options, finish);
    LegalizedPipeline out;
    for (const Parameter &p : inputs) {
        out.inputs.push_back(input_argument(p, graph.rebuild(p)));
    }
    for (const Func &f : outputs) {
        Function now = graph.rebuild(f.function());
        out.outputs.push_back(Func(now));
        for (int i = 0; i < now.outputs(); ++i) {
            LegalizedArgument a;
            a.parameter = now.output_buffers()[i];
            a.name = now.outputs() == 1 ? now.name() : now.name() + "." + std::to_string(i);
            a.contract_type = f.function().output_types()[i];
            a.argument = Argument(a.name, Argument::OutputBuffer, now.output_types()[i], now.dimensions(),
                                  a.parameter.get_argument_estimates());
            out.output_args.push_back(a);
        }
    }
    graph.rebuild_constraints();
    graph.rename_levels();
    for (LegalizedArgument &a : out.inputs) {
        a.argument = input_argument(a.parameter, a.parameter).argument; // now with estimates
    }
    for (const auto &[name, entry] : graph.functions()) {
        Parameter input = input_of(entry.before);
        std::string visible = input.defined() ? base_name(input.name()) : name;
        out.funcs.emplace(visible, Func(entry.after));
        out.contract_types[visible] = entry.before.output_types();
    }
    return out;
}

} // namespace kiln
