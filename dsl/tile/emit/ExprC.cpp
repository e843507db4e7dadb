#include "dsl/tile/emit/ExprC.h"

#include "dsl/tile/ir/Ir.h"

#include <fmt/format.h>

#include <cmath>

namespace kiln::tile {

using namespace Halide::Internal;
using Halide::Expr;
using Halide::Type;

namespace {

int log2_of(int64_t n) {
    int bits = 0;
    while ((int64_t(1) << bits) < n) {
        bits++;
    }
    return (int64_t(1) << bits) == n ? bits : -1;
}

std::string number(double value, const char *format) {
    char text[64];
    snprintf(text, sizeof text, format, value);
    std::string s = text;
    return s.find_first_of(".e") == std::string::npos ? s + ".0" : s;
}

/// Bits of the nearest 16-bit float.
uint16_t half_bits(Type t, double value) {
    return t.is_bfloat() ? Halide::bfloat16_t(value).to_bits() : Halide::float16_t(value).to_bits();
}

bool is_tanh(const Expr &e) {
    const Call *c = e.as<Call>();
    return c && c->name == "tanh_f32";
}

} // namespace

bool is_half(Type t) {
    return t.is_float() && t.bits() == 16;
}

std::string Dialect::type(Type t) const {
    if (is_half(t)) {
        return "u16";
    }
    if (t.is_float()) {
        return t.bits() == 64 ? "double" : "float";
    }
    switch (t.bits()) {
    case 1:
        return "bool";
    case 8:
        return t.is_int() ? "signed char" : "unsigned char";
    case 16:
        return t.is_int() ? "short" : "u16";
    case 64:
        return t.is_int() ? "i64" : "u64";
    default:
        return t.is_int() ? "int" : "u32";
    }
}

std::string ExprC::literal(Type type, double value) const {
    if (is_half(type)) {
        return fmt::format("(u16)0x{:04x}", half_bits(type, value));
    }
    if (type.is_float()) {
        if (std::isnan(value)) {
            return dialect_.nan();
        }
        if (std::isinf(value)) {
            return value < 0 ? "(-" + dialect_.infinity() + ")" : dialect_.infinity();
        }
        const std::string s = type.bits() == 64 ? number(value, "%.17g") : number(value, "%.9g") + "f";
        return s[0] == '-' ? "(" + s + ")" : s;
    }
    return fmt::format("{}", static_cast<int64_t>(value));
}

std::string ExprC::wide(const Expr &e) {
    return is_half(e.type()) ? dialect_.widen(e.type(), print(e)) : print(e);
}

std::string ExprC::binary(const Expr &whole, const Expr &a, const char *op, const Expr &b) {
    const std::string r = fmt::format("({} {} {})", wide(a), op, wide(b));
    const Type t = whole.type();
    if (is_half(t)) {
        return dialect_.narrow(t, r);
    }
    // C computes narrow integers as int.
    return t.bits() < 32 && !t.is_bool() ? fmt::format("({}){}", dialect_.type(t), r) : r;
}

std::string ExprC::compare(const Expr &a, const char *op, const Expr &b) {
    return fmt::format("({} {} {})", wide(a), op, wide(b));
}

std::string ExprC::divide(const Div *d) {
    const Type t = d->type;
    if (t.is_float()) {
        if (t.bits() == 64) {
            return fmt::format("({} / {})", print(d->a), print(d->b));
        }
        const std::string r = dialect_.divide(wide(d->a), wide(d->b));
        return is_half(t) ? dialect_.narrow(t, r) : r;
    }
    std::optional<int64_t> by = as_const_int(d->b);
    if (by && *by > 0 && log2_of(*by) >= 0 && t.is_int()) {
        return fmt::format("({} >> {})", print(d->a), log2_of(*by));
    }
    if (is_const(d->b) && !is_const_zero(d->b) && nonnegative(d->a) && nonnegative(d->b)) {
        return fmt::format("({} / {})", print(d->a), print(d->b));
    }
    const char *helper = t.is_uint() ? "whole_div_u" : t.bits() == 64 ? "whole_div_l" : "whole_div";
    return fmt::format("{}({}, {})", dialect_.use(helper), print(d->a), print(d->b));
}

std::string ExprC::modulo(const Mod *m) {
    const Type t = m->type;
    if (t.is_float()) {
        const Expr q =
            Call::make(t, t.bits() == 64 ? "floor_f64" : "floor_f32", {m->a / m->b}, Call::PureExtern);
        return print(m->a - m->b * q);
    }
    std::optional<int64_t> by = as_const_int(m->b);
    if (by && *by > 0 && log2_of(*by) >= 0 && t.is_int()) {
        return fmt::format("({} & {})", print(m->a), *by - 1);
    }
    if (is_const(m->b) && !is_const_zero(m->b) && nonnegative(m->a) && nonnegative(m->b)) {
        return fmt::format("({} % {})", print(m->a), print(m->b));
    }
    const char *helper = t.is_uint() ? "whole_mod_u" : t.bits() == 64 ? "whole_mod_l" : "whole_mod";
    return fmt::format("{}({}, {})", dialect_.use(helper), print(m->a), print(m->b));
}

std::string ExprC::extremum(Type type, bool max, const Expr &a, const Expr &b) {
    if (type.is_float() && type.bits() <= 32) {
        const std::string r = max ? dialect_.maximum(wide(a), wide(b)) : dialect_.minimum(wide(a), wide(b));
        return is_half(type) ? dialect_.narrow(type, r) : r;
    }
    const std::string x = print(a), y = print(b);
    if (type.is_float()) {
        return fmt::format("{}({}, {})", dialect_.use(max ? "max_f64" : "min_f64"), x, y);
    }
    if (type.bits() >= 32) {
        return fmt::format("{}({}, {})", max ? "max" : "min", x, y);
    }
    return fmt::format("({} {} {} ? {} : {})", x, max ? ">" : "<", y, x, y);
}

std::string ExprC::cast(Type to, Type from, const std::string &value) {
    if (to == from) {
        return value;
    }
    std::string v = value;
    Type is = from;
    if (is_half(from)) {
        v = dialect_.widen(from, value);
        is = Halide::Float(32);
    }
    if (is_half(to)) {
        return dialect_.narrow(to, is == Halide::Float(32) ? v : "(float)" + v);
    }
    if (to.is_bool()) {
        return fmt::format("({} != 0)", v);
    }
    return to == is ? v : fmt::format("({}){}", dialect_.type(to), v);
}

std::string ExprC::call(const Call *c) {
    if (c->name.compare(0, 5, "view:") == 0) {
        return view(c);
    }
    auto arg = [&](size_t i) { return print(c->args[i]); };
    auto bits = [&](const char *op) { return fmt::format("({} {} {})", arg(0), op, arg(1)); };
    if (c->is_intrinsic(Call::bitwise_and)) {
        return bits("&");
    }
    if (c->is_intrinsic(Call::bitwise_or)) {
        return bits("|");
    }
    if (c->is_intrinsic(Call::bitwise_xor)) {
        return bits("^");
    }
    if (c->is_intrinsic(Call::bitwise_not)) {
        return cast(c->type, Halide::Int(32), "(~" + arg(0) + ")");
    }
    if (c->is_intrinsic({Call::shift_left, Call::shift_right}) && nonnegative(c->args[1])) {
        return cast(c->type, Halide::Int(c->type.bits(), 2),
                    bits(c->is_intrinsic(Call::shift_left) ? "<<" : ">>"));
    }
    if (c->is_intrinsic({Call::likely, Call::likely_if_innermost, Call::return_second})) {
        return arg(c->args.size() - 1);
    }
    if (c->is_intrinsic({Call::promise_clamped, Call::unsafe_promise_clamped})) {
        return arg(0);
    }
    if (c->is_intrinsic(Call::if_then_else)) {
        return fmt::format("({} ? {} : {})", arg(0), arg(1),
                           c->args.size() > 2 ? arg(2) : literal(c->type, 0));
    }
    if (c->is_intrinsic(Call::abs)) {
        const Type t = c->args[0].type();
        if (!t.is_float()) {
            const std::string x = arg(0);
            return fmt::format("({})({} < 0 ? -{} : {})", dialect_.type(c->type), x, x, x);
        }
        const std::string r = dialect_.math(t.bits() == 64 ? "abs_f64" : "abs_f32", {wide(c->args[0])});
        return is_half(t) ? dialect_.narrow(t, r) : r;
    }
    if (c->is_intrinsic(Call::round)) {
        const Type t = c->type;
        const std::string r = dialect_.math(t.bits() == 64 ? "round_f64" : "round_f32", {wide(c->args[0])});
        return is_half(t) ? dialect_.narrow(t, r) : r;
    }
    if (c->name == "pow_f32") {
        // Whole powers as products: exact signs, and no error of log and exp (docs/numerics.md).
        const FloatImm *n = c->args[1].as<FloatImm>();
        if (n && n->value == std::floor(n->value) && n->value >= 1 && n->value <= 16) {
            Expr result, square = c->args[0];
            for (int left = static_cast<int>(n->value); left; left >>= 1) {
                if (left & 1) {
                    result = result.defined() ? result * square : square;
                }
                square = square * square;
            }
            return print(result);
        }
    }
    if (c->is_extern() || c->call_type == Call::PureIntrinsic || c->call_type == Call::Intrinsic) {
        std::vector<std::string> args;
        for (const Expr &a : c->args) {
            args.push_back(wide(a));
        }
        if (std::string r = dialect_.math(c->name, args); !r.empty()) {
            return is_half(c->type) ? dialect_.narrow(c->type, r) : r;
        }
        if (c->is_intrinsic()) {
            if (Expr lowered = lower_intrinsic(c); lowered.defined()) {
                return print(lowered);
            }
        }
    }
    refuse("K1153", fmt::format("`{}` has no form in a tile kernel", c->name));
}

std::string ExprC::print(const Expr &e) {
    const Type t = e.type();
    if (const Variable *v = e.as<Variable>()) {
        auto let = lets_.find(v->name);
        return let == lets_.end() ? variable(v) : let->second;
    }
    if (const IntImm *i = e.as<IntImm>()) {
        const char *suffix = t.bits() == 64 ? "l" : "";
        if (i->value == std::numeric_limits<int64_t>::min() || (t.bits() == 32 && i->value == INT32_MIN)) {
            return fmt::format("({}{} - 1)", i->value + 1, suffix);
        }
        return i->value < 0 ? fmt::format("({}{})", i->value, suffix) : fmt::format("{}{}", i->value, suffix);
    }
    if (const UIntImm *u = e.as<UIntImm>()) {
        return t.is_bool() ? (u->value ? "true" : "false")
                           : fmt::format("{}{}", u->value, t.bits() == 64 ? "ul" : "u");
    }
    if (const FloatImm *f = e.as<FloatImm>()) {
        return literal(t, f->value);
    }
    if (const Add *a = e.as<Add>()) {
        // 1 + tanh x = 2 / (1 + e^(-2x)): keeps its digits where tanh is near -1, and costs less than tanh.
        for (const auto &[one, other] : {std::pair{a->a, a->b}, std::pair{a->b, a->a}}) {
            const FloatImm *f = one.as<FloatImm>();
            if (f && f->value == 1 && is_tanh(other)) {
                return fmt::format("{}({})", dialect_.use("one_plus_tanh"), print(other.as<Call>()->args[0]));
            }
        }
        return binary(e, a->a, "+", a->b);
    }
    if (const Sub *s = e.as<Sub>()) {
        if (t.is_float() && is_const_zero(s->a)) { // Halide writes -x as 0 - x, which makes +0 of +0
            return is_half(t) ? dialect_.narrow(t, "(-" + wide(s->b) + ")") : "(-" + print(s->b) + ")";
        }
        return binary(e, s->a, "-", s->b);
    }
    if (const Mul *m = e.as<Mul>()) {
        return binary(e, m->a, "*", m->b);
    }
    if (const Div *d = e.as<Div>()) {
        return divide(d);
    }
    if (const Mod *m = e.as<Mod>()) {
        return modulo(m);
    }
    if (const Min *m = e.as<Min>()) {
        return extremum(t, false, m->a, m->b);
    }
    if (const Max *m = e.as<Max>()) {
        return extremum(t, true, m->a, m->b);
    }
    if (const EQ *c = e.as<EQ>()) {
        return compare(c->a, "==", c->b);
    }
    if (const NE *c = e.as<NE>()) {
        return compare(c->a, "!=", c->b);
    }
    if (const LT *c = e.as<LT>()) {
        return compare(c->a, "<", c->b);
    }
    if (const LE *c = e.as<LE>()) {
        return compare(c->a, "<=", c->b);
    }
    if (const GT *c = e.as<GT>()) {
        return compare(c->a, ">", c->b);
    }
    if (const GE *c = e.as<GE>()) {
        return compare(c->a, ">=", c->b);
    }
    if (const And *a = e.as<And>()) {
        return fmt::format("({} && {})", print(a->a), print(a->b));
    }
    if (const Or *o = e.as<Or>()) {
        return fmt::format("({} || {})", print(o->a), print(o->b));
    }
    if (const Not *n = e.as<Not>()) {
        return fmt::format("(!{})", print(n->a));
    }
    if (const Select *s = e.as<Select>()) {
        return fmt::format("({} ? {} : {})", print(s->condition), print(s->true_value),
                           print(s->false_value));
    }
    if (const Cast *c = e.as<Cast>()) {
        return cast(t, c->value.type(), print(c->value));
    }
    if (const Reinterpret *r = e.as<Reinterpret>()) {
        return dialect_.reinterpret(t, r->value.type(), print(r->value));
    }
    if (const Call *c = e.as<Call>()) {
        return call(c);
    }
    if (const Let *l = e.as<Let>()) {
        lets_[l->name] = print(l->value);
        return print(l->body);
    }
    refuse("K1153", "an expression of this kind has no form in a tile kernel");
}

std::string
ExprC::print_shared(const Expr &whole,
                    const std::function<void(const std::string &, const std::string &)> &declare) {
    Expr e = common_subexpression_elimination(substitute_in_all_lets(whole));
    while (const Let *l = e.as<Let>()) {
        const std::string name = fresh();
        declare("const " + dialect_.type(l->value.type()) + " " + name, print(l->value));
        lets_[l->name] = name;
        e = l->body;
    }
    return print(e);
}

bool ExprC::nonnegative(const Expr &e) const {
    if (e.type().is_uint()) {
        return true;
    }
    if (const IntImm *i = e.as<IntImm>()) {
        return i->value >= 0;
    }
    auto both = [&](const Expr &a, const Expr &b) { return nonnegative(a) && nonnegative(b); };
    if (const Add *a = e.as<Add>()) {
        return both(a->a, a->b);
    }
    if (const Mul *m = e.as<Mul>()) {
        return both(m->a, m->b);
    }
    if (const Div *d = e.as<Div>()) {
        return both(d->a, d->b);
    }
    if (e.as<Mod>()) {
        return true; // Halide's is never negative
    }
    if (const Min *m = e.as<Min>()) {
        return both(m->a, m->b);
    }
    if (const Max *m = e.as<Max>()) {
        return nonnegative(m->a) || nonnegative(m->b);
    }
    if (const Select *s = e.as<Select>()) {
        return both(s->true_value, s->false_value);
    }
    if (const Cast *c = e.as<Cast>()) {
        return c->value.type().is_int_or_uint() && c->type.bits() >= c->value.type().bits() &&
               nonnegative(c->value);
    }
    return false;
}

} // namespace kiln::tile
