#include "dsl/tile/ir/Names.h"
#include "dsl/tile/ir/Text.h"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

namespace kiln::tile {

using namespace Halide::Internal;

namespace {

std::string number(double v, const Halide::Type &t) {
    std::string s;
    if (std::isnan(v)) {
        s = "nan";
    } else if (std::isinf(v)) {
        s = v < 0 ? "-inf" : "inf";
    } else {
        // The shortest digits that give this value back.
        s = double(float(v)) == v ? fmt::format("{}", float(v)) : fmt::format("{}", v);
        if (s.find_first_of(".e") == std::string::npos) {
            s += ".0";
        }
    }
    return t == Halide::Float(32) ? s : s + ":" + type_name(t);
}

/// The type that a call's name or its first argument tells.
Halide::Type implied(const Call *c) {
    const std::string &n = c->name;
    for (const auto &[end, type] :
         {std::pair{"_f16", Halide::Float(16)}, {"_f32", Halide::Float(32)}, {"_f64", Halide::Float(64)}}) {
        if (n.size() > 4 && n.compare(n.size() - 4, 4, end) == 0) {
            return type;
        }
    }
    return c->args.empty() ? Halide::Int(32) : c->args[0].type();
}

class Printer {
public:
    explicit Printer(const Kernel &k) : k_(k) {}

    /// `outer`: how tightly the place binds; a looser Expr gets parentheses.
    std::string operator()(const Expr &e, int outer) {
        auto binary = [&](const char *op, const auto *p, int level, bool chain) {
            std::string s = (*this)(p->a, chain ? level : level + 1) + op + (*this)(p->b, level + 1);
            return level < outer ? "(" + s + ")" : s;
        };
        auto pair = [&](const char *f, const auto *p) {
            return fmt::format("{}({}, {})", f, (*this)(p->a, 0), (*this)(p->b, 0));
        };
        if (auto *v = e.as<Variable>()) {
            return variable(v);
        }
        if (auto *i = e.as<IntImm>()) {
            return e.type() == Halide::Int(32) ? std::to_string(i->value)
                                               : fmt::format("{}:{}", i->value, type_name(e.type()));
        }
        if (auto *u = e.as<UIntImm>()) {
            return e.type().is_bool() ? u->value ? "true" : "false"
                                      : fmt::format("{}:{}", u->value, type_name(e.type()));
        }
        if (auto *f = e.as<FloatImm>()) {
            return number(f->value, e.type());
        }
        if (auto *s = e.as<StringImm>()) {
            return quoted(s->value);
        }
        if (auto *p = e.as<Or>()) {
            return binary(" || ", p, 1, true);
        }
        if (auto *p = e.as<And>()) {
            return binary(" && ", p, 2, true);
        }
        if (auto *p = e.as<EQ>()) {
            return binary(" == ", p, 3, false);
        }
        if (auto *p = e.as<NE>()) {
            return binary(" != ", p, 3, false);
        }
        if (auto *p = e.as<LT>()) {
            return binary(" < ", p, 3, false);
        }
        if (auto *p = e.as<LE>()) {
            return binary(" <= ", p, 3, false);
        }
        if (auto *p = e.as<GT>()) {
            return binary(" > ", p, 3, false);
        }
        if (auto *p = e.as<GE>()) {
            return binary(" >= ", p, 3, false);
        }
        if (auto *p = e.as<Add>()) {
            return binary(" + ", p, 4, true);
        }
        if (auto *p = e.as<Sub>()) {
            return binary(" - ", p, 4, true);
        }
        if (auto *p = e.as<Mul>()) {
            return binary("*", p, 5, true);
        }
        if (auto *p = e.as<Div>()) {
            return binary("/", p, 5, true);
        }
        if (auto *p = e.as<Mod>()) {
            return binary(" % ", p, 5, true);
        }
        if (auto *p = e.as<Not>()) {
            return "!" + (*this)(p->a, 6);
        }
        if (auto *p = e.as<Min>()) {
            return pair("min", p);
        }
        if (auto *p = e.as<Max>()) {
            return pair("max", p);
        }
        if (auto *p = e.as<Select>()) {
            return fmt::format("select({}, {}, {})", (*this)(p->condition, 0), (*this)(p->true_value, 0),
                               (*this)(p->false_value, 0));
        }
        if (auto *p = e.as<Cast>()) {
            return fmt::format("{}({})", type_name(e.type()), (*this)(p->value, 0));
        }
        if (auto *p = e.as<Reinterpret>()) {
            return fmt::format("reinterpret_{}({})", type_name(e.type()), (*this)(p->value, 0));
        }
        if (auto *p = e.as<Let>()) {
            std::string value = (*this)(p->value, 0);
            const auto hidden = lets_;
            lets_[p->name] = p->value.type();
            std::string body = (*this)(p->body, 0);
            lets_ = hidden;
            return fmt::format("(let {} = {} in {})", name_text(p->name), value, body);
        }
        if (auto *p = e.as<Call>()) {
            return call(p);
        }
        // Vectors, loads and the like never enter tile IR.
        throw std::logic_error(
            fmt::format("tile IR has no text for this node of type {}", static_cast<int>(e.node_type())));
    }

private:
    std::string list(const std::vector<Expr> &args) {
        std::string s;
        for (const Expr &a : args) {
            s += (s.empty() ? "" : ", ") + (*this)(a, 0);
        }
        return s;
    }

    std::string variable(const Variable *v) {
        Halide::Type type = Halide::Int(32);
        if (auto l = lets_.find(v->name); l != lets_.end()) {
            type = l->second;
        } else if (auto t = k_.tiles.find(v->name); t != k_.tiles.end()) {
            type = t->second.type;
        }
        return name_text(v->name) + (v->type == type ? "" : ":" + type_name(v->type));
    }

    std::string call(const Call *c) {
        auto typed = [&](const std::string &s, const Halide::Type &t) {
            return c->type == t ? s : s + ":" + type_name(c->type);
        };
        if (c->name.rfind("view:", 0) == 0) {
            const std::string name = c->name.substr(5);
            const View *v = k_.view(name);
            return typed(fmt::format("{}[{}]", name_text(name), list(c->args)), v ? v->type : Halide::Type());
        }
        const char *kind = c->call_type == Call::PureIntrinsic ? "@"
                           : c->call_type == Call::Intrinsic   ? "@!"
                           : c->call_type == Call::Extern      ? "@@"
                                                               : "";
        return typed(fmt::format("{}{}({})", kind, name_text(c->name), list(c->args)), implied(c));
    }

    const Kernel &k_;
    std::map<std::string, Halide::Type> lets_;
};

} // namespace

std::string print(const Kernel &k, const Expr &e) {
    return Printer(k)(e, 0);
}

std::string print(const Kernel &k, const Region &r) {
    std::string s;
    for (const ViewDim &d : r.dims) {
        s += s.empty() ? "" : ", ";
        s += d.axis.empty() ? print(k, d.base) : Printer(k)(d.base, 4) + " + " + name_text("%" + d.axis);
    }
    return fmt::format("{}[{}]", name_text(r.view), s);
}

} // namespace kiln::tile
