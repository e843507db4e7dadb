#include "dsl/check/Program.h"

#include "dsl/lower/ErfPattern.h"
#include "dsl/support/Diagnostic.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <set>

namespace kiln {

namespace {

using namespace Halide::Internal;
using Halide::Expr;
using Halide::Type;

[[noreturn]] void refuse(const std::string &what, const std::string &why) {
    Diagnostic d;
    d.code = "K0801";
    d.message = fmt::format("the reference evaluator cannot evaluate {}", what);
    d.notes = {why};
    d.helps = {"give `kiln check` a reference of your own, or write the algorithm without it"};
    throw Error(std::move(d));
}

class Compiler : public IRVisitor {
public:
    Compiler(Program &program, const std::vector<std::string> &vars, const std::vector<std::string> &rvars,
             std::string self)
        : program_(program), self_(std::move(self)), loops_(static_cast<int>(rvars.size())) {
        for (const std::string &v : vars) {
            slots_[v] = program_.variables++;
        }
        first_rvar_ = program_.variables;
        for (const std::string &v : rvars) {
            slots_[v] = program_.variables++;
        }
    }

    int compile(const Expr &e) {
        auto it = seen_.find(e.get());
        if (it != seen_.end()) {
            program_.nodes[it->second].is_cached = true;
            return it->second;
        }
        kept_.push_back(e);
        e.accept(this);
        int id = result_;
        seen_[e.get()] = id;
        return id;
    }

private:
    Program &program_;
    std::string self_;
    int loops_, first_rvar_ = 0;
    std::map<std::string, int> slots_;
    std::map<std::string, int> lets_;
    std::map<const IRNode *, int> seen_;
    std::vector<Expr> kept_; ///< so that addresses in seen_ stay taken
    int result_ = 0;

    int emit(ExprNode node) {
        bool leaf = node.op == Op::Constant || node.op == Op::Variable || node.op == Op::Scalar;
        if (node.op != Op::Variable) {
            node.level = loops_;
        }
        for (int a : node.args) {
            node.level = std::min(node.level, program_.nodes[a].level);
        }
        bool reads_self = node.op == Op::FuncRead && program_.funcs[node.index] == self_;
        if (reads_self) {
            node.level = 0;
        }
        // Reads and functions are worth keeping while an inner loop runs that they do not depend on.
        node.is_cached = !leaf && node.level > 0 && loops_ > 0;
        program_.nodes.push_back(std::move(node));
        return result_ = static_cast<int>(program_.nodes.size()) - 1;
    }

    ExprNode node(Op op, const Type &type) {
        if (type.lanes() != 1) {
            refuse("a vector expression", "it belongs to a schedule, not to an algorithm");
        }
        ExprNode n;
        n.op = op;
        n.type = n.operand_type = type;
        return n;
    }

    void constant(const Type &type, Value value) {
        ExprNode n = node(Op::Constant, type);
        n.constant = value;
        n.constant.is_written_zero = type.is_float() && value.v == 0;
        emit(std::move(n));
    }

    template<typename T>
    void binary(Op op, const T *e) {
        ExprNode n = node(op, e->type);
        n.args = {compile(e->a), compile(e->b)};
        n.operand_type = e->a.type();
        emit(std::move(n));
    }

    template<typename T>
    void extremum(Op op, const T *e) {
        binary(op, e);
        program_.nodes[result_].folds_itself = reads_self(e->a) || reads_self(e->b);
    }

    bool reads_self(const Expr &e) {
        struct Finder : IRGraphVisitor {
            const std::string &name;
            bool found = false;
            explicit Finder(const std::string &n) : name(n) {}
            using IRGraphVisitor::visit;
            void visit(const Call *op) override {
                found = found || (op->call_type == Call::Halide && op->name == name);
                IRGraphVisitor::visit(op);
            }
        } finder(self_);
        if (!self_.empty()) {
            e.accept(&finder);
        }
        return finder.found;
    }

    template<typename T>
    void comparison(Compare op, const T *e) {
        ExprNode n = node(Op::Compare, e->type);
        n.args = {compile(e->a), compile(e->b)};
        n.operand_type = e->a.type();
        n.index = static_cast<int>(op);
        emit(std::move(n));
    }

    using IRVisitor::visit;
    void visit(const IntImm *e) override { constant(e->type, int_value(e->type, e->value)); }
    void visit(const UIntImm *e) override {
        constant(e->type, int_value(e->type, static_cast<int64_t>(e->value)));
    }
    void visit(const FloatImm *e) override { constant(e->type, float_value(round_to(e->value, e->type))); }
    void visit(const StringImm *) override { refuse("a string", "it has no number"); }
    void visit(const Add *e) override { binary(Op::Add, e); }
    void visit(const Sub *e) override { binary(Op::Sub, e); }
    void visit(const Mul *e) override {
        Expr x = erf_argument(e);
        if (!x.defined()) {
            binary(Op::Mul, e);
            return;
        }
        ExprNode n = node(Op::Function, e->type);
        n.args = {compile(x)};
        n.operand_type = e->type;
        n.name = "erf";
        emit(std::move(n));
    }
    void visit(const Div *e) override { binary(Op::Div, e); }
    void visit(const Mod *e) override { binary(Op::Mod, e); }
    void visit(const Min *e) override { extremum(Op::Min, e); }
    void visit(const Max *e) override { extremum(Op::Max, e); }
    void visit(const EQ *e) override { comparison(Compare::EQ, e); }
    void visit(const NE *e) override { comparison(Compare::NE, e); }
    void visit(const LT *e) override { comparison(Compare::LT, e); }
    void visit(const LE *e) override { comparison(Compare::LE, e); }
    void visit(const GT *e) override { comparison(Compare::GT, e); }
    void visit(const GE *e) override { comparison(Compare::GE, e); }
    void visit(const And *e) override { binary(Op::And, e); }
    void visit(const Or *e) override { binary(Op::Or, e); }

    void visit(const Not *e) override {
        ExprNode n = node(Op::Not, e->type);
        n.args = {compile(e->a)};
        emit(std::move(n));
    }

    void visit(const Select *e) override {
        ExprNode n = node(Op::Select, e->type);
        n.args = {compile(e->condition), compile(e->true_value), compile(e->false_value)};
        emit(std::move(n));
    }

    void visit(const Cast *e) override {
        ExprNode n = node(Op::Cast, e->type);
        n.args = {compile(e->value)};
        n.operand_type = e->value.type();
        emit(std::move(n));
    }

    void visit(const Reinterpret *e) override {
        ExprNode n = node(Op::Reinterpret, e->type);
        n.args = {compile(e->value)};
        n.operand_type = e->value.type();
        emit(std::move(n));
    }

    void visit(const Let *e) override {
        int value = compile(e->value);
        program_.nodes[value].is_cached = true;
        auto outer = lets_.find(e->name) == lets_.end() ? -1 : lets_[e->name];
        lets_[e->name] = value;
        // A body under another binding of the name is another expression.
        auto saved = seen_;
        int body = compile(e->body);
        seen_ = std::move(saved);
        if (outer >= 0) {
            lets_[e->name] = outer;
        } else {
            lets_.erase(e->name);
        }
        result_ = body;
    }

    void visit(const Variable *e) override {
        if (auto it = lets_.find(e->name); it != lets_.end()) {
            result_ = it->second;
            return;
        }
        if (auto it = slots_.find(e->name); it != slots_.end()) {
            ExprNode n = node(Op::Variable, e->type);
            n.index = it->second;
            n.level = it->second >= first_rvar_ ? it->second - first_rvar_ : loops_;
            emit(std::move(n));
            return;
        }
        ExprNode n = node(Op::Scalar, e->type);
        n.index = static_cast<int>(program_.scalars.size());
        program_.scalars.push_back(scalar_ref(e));
        emit(std::move(n));
    }

    ScalarRef scalar_ref(const Variable *e) {
        ScalarRef ref;
        bool is_buffer = (e->param.defined() && e->param.is_buffer()) || e->image.defined();
        if (!is_buffer) {
            if (!e->param.defined()) {
                refuse(fmt::format("`{}`", e->name), "it is no Var, RVar or parameter of the definition");
            }
            ref.name = unnumbered_name(e->name);
            return ref;
        }
        // x.extent.0
        size_t last = e->name.rfind('.'), middle = e->name.rfind('.', last - 1);
        if (last == std::string::npos || middle == std::string::npos) {
            refuse(fmt::format("`{}`", e->name), "it is a whole buffer");
        }
        ref.name = unnumbered_name(e->name.substr(0, middle));
        std::string what = e->name.substr(middle + 1, last - middle - 1);
        ref.what = what == "min"      ? ScalarRef::What::Min
                   : what == "extent" ? ScalarRef::What::Extent
                                      : ScalarRef::What::Stride;
        ref.dimension = std::stoi(e->name.substr(last + 1));
        return ref;
    }

    void args_of(ExprNode &n, const Call *e) {
        for (const Expr &a : e->args) {
            n.args.push_back(compile(a));
        }
        if (!e->args.empty()) {
            n.operand_type = e->args[0].type();
        }
    }

    void visit(const Call *e) override {
        if (e->call_type == Call::Halide) {
            ExprNode n = node(Op::FuncRead, e->type);
            args_of(n, e);
            n.index = static_cast<int>(program_.funcs.size());
            n.value_index = e->value_index;
            program_.funcs.push_back(e->name);
            emit(std::move(n));
        } else if (e->call_type == Call::Image) {
            ExprNode n = node(Op::ImageRead, e->type);
            args_of(n, e);
            n.index = static_cast<int>(program_.images.size());
            program_.images.push_back({unnumbered_name(e->name), e->image});
            emit(std::move(n));
        } else if (e->is_intrinsic()) {
            intrinsic(e);
        } else {
            library_call(e);
        }
    }

    void library_call(const Call *e) {
        std::string name = e->name;
        for (const char *suffix : {"_f16", "_f32", "_f64"}) {
            if (name.size() > 4 && name.compare(name.size() - 4, 4, suffix) == 0) {
                name.resize(name.size() - 4);
                break;
            }
        }
        double inf = std::numeric_limits<double>::infinity();
        if (name == "nan" || name == "inf" || name == "neg_inf") {
            constant(e->type, float_value(name == "nan"   ? std::numeric_limits<double>::quiet_NaN()
                                          : name == "inf" ? inf
                                                          : -inf));
        } else if (name == "pow" || name == "atan2") {
            ExprNode n = node(name == "pow" ? Op::Power : Op::Arctangent2, e->type);
            args_of(n, e);
            emit(std::move(n));
        } else if (known_function(name.c_str()) && e->args.size() == 1) {
            function(name, e);
        } else {
            refuse(fmt::format("the call of `{}`", e->name), "it is a function from outside Halide");
        }
    }

    void function(const std::string &name, const Call *e) {
        ExprNode n = node(Op::Function, e->type);
        args_of(n, e);
        n.name = name;
        emit(std::move(n));
    }

    void intrinsic(const Call *e) {
        static const std::set<std::string> transparent = {"likely", "likely_if_innermost", "promise_clamped",
                                                          "unsafe_promise_clamped", "memoize_expr"};
        if (transparent.count(e->name)) {
            result_ = compile(e->args[0]);
        } else if (e->name == "return_second") {
            result_ = compile(e->args[1]);
        } else if (e->name == "if_then_else") {
            ExprNode n = node(Op::Select, e->type);
            args_of(n, e);
            emit(std::move(n));
        } else if (e->name == "abs" || e->name == "round") {
            function(e->name, e);
        } else if (e->name == "absd" && e->args[0].type().is_float()) {
            result_ = compile(Halide::abs(e->args[0] - e->args[1]));
        } else if (known_integer_op(e->name.c_str())) {
            ExprNode n = node(Op::IntegerOp, e->type);
            args_of(n, e);
            n.name = e->name;
            emit(std::move(n));
        } else if (e->name.rfind("strict_", 0) == 0) {
            strict(e);
        } else if (Expr lowered = widen(e); lowered.defined()) {
            result_ = compile(lowered);
        } else {
            refuse(fmt::format("the intrinsic `{}`", e->name),
                   "its value does not follow from the formula alone");
        }
    }

    void strict(const Call *e) {
        Expr a = e->args[0], b = e->args[1];
        std::string name = e->name.substr(7);
        Expr plain = name == "add"   ? a + b
                     : name == "sub" ? a - b
                     : name == "mul" ? a * b
                     : name == "div" ? a / b
                     : name == "max" ? max(a, b)
                     : name == "min" ? min(a, b)
                     : name == "lt"  ? a < b
                     : name == "le"  ? a <= b
                                     : a == b;
        result_ = compile(plain);
    }

    /// Widening and other composite integer intrinsics, written out with plain operations.
    static Expr widen(const Call *e) {
        if (e->args.empty()) {
            return Expr();
        }
        auto up = [&](const Expr &x) { return Halide::cast(e->type, x); };
        const Expr &a = e->args[0];
        Expr b = e->args.size() > 1 ? e->args[1] : Expr();
        if (e->name == "widening_add") {
            return up(a) + up(b);
        }
        if (e->name == "widening_sub") {
            return up(a) - up(b);
        }
        if (e->name == "widening_mul") {
            return up(a) * up(b);
        }
        if (e->name == "widen_right_add") {
            return a + up(b);
        }
        if (e->name == "widen_right_sub") {
            return a - up(b);
        }
        if (e->name == "widen_right_mul") {
            return a * up(b);
        }
        if (e->name == "saturating_cast" && a.type().is_float()) {
            return up(clamp(a, Halide::cast(a.type(), e->type.min()), Halide::cast(a.type(), e->type.max())));
        }
        if (e->name == "saturating_cast" && a.type().bits() < 64) {
            Type wide = Halide::Int(64);
            Expr low = e->type.is_uint() ? Halide::cast(wide, 0) : Halide::cast(wide, e->type.min());
            if (e->type.bits() < 64) {
                return up(clamp(Halide::cast(wide, a), low, Halide::cast(wide, e->type.max())));
            }
            return up(max(Halide::cast(wide, a), low));
        }
        if (e->name == "lerp" && a.type().is_float()) {
            Expr w = Halide::cast(a.type(), e->args[2]);
            if (e->args[2].type().is_uint()) {
                w = w / static_cast<float>(std::ldexp(1.0, e->args[2].type().bits()) - 1);
            }
            return a * (1 - w) + b * w;
        }
        if (e->name == "mux") {
            Expr out = e->args.back();
            for (size_t i = e->args.size() - 1; i-- > 1;) {
                out = Select::make(a == static_cast<int>(i - 1), e->args[i], out);
            }
            return out;
        }
        return Expr();
    }
};

} // namespace

std::string unnumbered_name(const std::string &name) {
    return name.substr(0, name.find('$'));
}

Program compile_program(const std::vector<Expr> &roots, const std::vector<std::string> &vars,
                        const std::vector<std::string> &rvars, const std::string &self) {
    Program program;
    Compiler compiler(program, vars, rvars, self);
    for (const Expr &root : roots) {
        // Lets hide erf; a shared subexpression is compiled once all the same.
        program.roots.push_back(compiler.compile(substitute_in_all_lets(root)));
    }
    return program;
}

} // namespace kiln
