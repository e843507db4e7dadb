#include "dsl/schedule/apply/Condition.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln {

namespace {

using namespace Halide::Internal;
using Halide::Expr;

class CollectParameters : public IRVisitor {
public:
    PipelineParameters found;

    using IRVisitor::visit;
    void visit(const Call *op) override {
        IRVisitor::visit(op);
        if (op->param.defined() && op->param.is_buffer()) {
            found.buffers.emplace(op->param.name(), op->param);
        }
    }
    void visit(const Variable *op) override {
        if (op->param.defined() && !op->param.is_buffer()) {
            found.scalars.emplace(op->param.name(), op->param);
        }
    }
};

class Conditions {
public:
    Conditions(const FuncMap &funcs, const PipelineParameters &parameters, const std::string &file)
        : funcs(funcs), parameters(parameters), file(file) {}

    Expr of(const Node &node) const {
        switch (node.kind) {
        case Node::Kind::Int:
            return node.int_value == static_cast<int32_t>(node.int_value)
                       ? Expr(static_cast<int32_t>(node.int_value))
                       : Halide::Internal::make_const(Halide::Int(64), node.int_value);
        case Node::Kind::Float:
            return Expr(static_cast<float>(node.float_value));
        case Node::Kind::Name: {
            auto it = parameters.scalars.find(node.text);
            if (it == parameters.scalars.end()) {
                fail(node, fmt::format("no scalar input `{}`", node.text));
            }
            return Variable::make(it->second.type(), it->second.name(), it->second);
        }
        case Node::Kind::Unary: {
            Expr a = of(node.args.at(0));
            return node.text == "!" ? Expr(!truth(a)) : Expr(-a);
        }
        case Node::Kind::Binary:
            return binary(node);
        case Node::Kind::Call:
            return call(node);
        default:
            fail(node, "this cannot stand in a condition");
        }
    }

    /// Folded comparisons are integers.
    static Expr truth(const Expr &e) {
        return e.type().is_bool() ? e : e != Halide::Internal::make_zero(e.type());
    }

private:
    const FuncMap &funcs;
    const PipelineParameters &parameters;
    const std::string &file;

    [[noreturn]] void fail(const Node &node, std::string message) const {
        Diagnostic d;
        d.code = "K0502";
        d.message = std::move(message);
        d.file = file;
        d.span = node.span;
        throw Error(d);
    }

    Expr binary(const Node &node) const {
        Expr a = of(node.args.at(0)), b = of(node.args.at(1));
        const std::string &op = node.text;
        if (op == "&&" || op == "||") {
            return op == "&&" ? truth(a) && truth(b) : truth(a) || truth(b);
        }
        Halide::Internal::match_types(a, b);
        if (op == "+") {
            return a + b;
        }
        if (op == "-") {
            return a - b;
        }
        if (op == "*") {
            return a * b;
        }
        if (op == "/") {
            return a / b;
        }
        if (op == "%") {
            return a % b;
        }
        if (op == "<") {
            return a < b;
        }
        if (op == "<=") {
            return a <= b;
        }
        if (op == ">") {
            return a > b;
        }
        if (op == ">=") {
            return a >= b;
        }
        if (op == "==") {
            return a == b;
        }
        if (op == "!=") {
            return a != b;
        }
        fail(node, fmt::format("no operator `{}` in a condition", op));
    }

    Expr call(const Node &node) const {
        if (!node.is_method) {
            std::vector<Expr> args;
            for (const Node &arg : node.args) {
                args.push_back(of(arg));
            }
            if (node.text == "min" && args.size() == 2) {
                return Halide::min(args[0], args[1]);
            }
            if (node.text == "max" && args.size() == 2) {
                return Halide::max(args[0], args[1]);
            }
            if (node.text == "select" && args.size() == 3) {
                return Halide::select(truth(args[0]), args[1], args[2]);
            }
            fail(node, fmt::format("no function `{}` in a condition", node.text));
        }
        return property(node);
    }

    /// `x.extent(0)`, `y.stride(m)`.
    Expr property(const Node &node) const {
        const std::string &name = node.args.at(0).text;
        Halide::Parameter buffer;
        std::vector<std::string> dims;
        if (auto it = parameters.buffers.find(name); it != parameters.buffers.end()) {
            buffer = it->second;
        }
        if (auto it = funcs.find(name); it != funcs.end()) {
            dims = it->second.function().args();
            if (!buffer.defined() && !it->second.function().output_buffers().empty()) {
                buffer = it->second.function().output_buffers()[0];
            }
        }
        if (!buffer.defined()) {
            fail(node.args[0], fmt::format("no input or output buffer `{}`", name));
        }
        const Node &which = node.args.at(1);
        auto at =
            which.kind == Node::Kind::Int ? dims.begin() : std::find(dims.begin(), dims.end(), which.text);
        int dim = which.kind == Node::Kind::Int ? static_cast<int>(which.int_value)
                                                : static_cast<int>(at - dims.begin());
        if (dim < 0 || dim >= buffer.dimensions()) {
            fail(which, fmt::format("`{}` has {} dimension{}", name, buffer.dimensions(),
                                    buffer.dimensions() == 1 ? "" : "s"));
        }
        return Variable::make(Halide::Int(32), fmt::format("{}.{}.{}", buffer.name(), node.text, dim),
                              buffer);
    }
};

} // namespace

PipelineParameters parameters_of(const FuncMap &funcs) {
    CollectParameters collect;
    for (const auto &[name, f] : funcs) {
        f.function().accept(&collect);
    }
    return collect.found;
}

Expr condition_of(const Node &node, const FuncMap &funcs, const PipelineParameters &parameters,
                  const std::string &file) {
    return Conditions::truth(Conditions(funcs, parameters, file).of(node));
}

} // namespace kiln
