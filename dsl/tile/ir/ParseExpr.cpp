#include "dsl/tile/ir/ParseExpr.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace kiln::tile {

using namespace Halide::Internal;
using Halide::Type;

std::optional<Type> type_named(const std::string &name) {
    if (name == "bool") {
        return Halide::Bool();
    }
    for (int bits : {8, 16, 32, 64}) {
        for (const Type &t :
             {Halide::Int(bits), Halide::UInt(bits), Halide::Float(std::max(bits, 16)), Halide::BFloat(16)}) {
            if (type_name(t) == name) {
                return t;
            }
        }
    }
    return {};
}

void ExprParser::fail(const char *code, const std::string &message, const Span &span,
                      std::vector<std::string> helps) const {
    Diagnostic d;
    d.code = code;
    d.message = message;
    d.file = file_;
    d.span = span;
    d.helps = std::move(helps);
    throw Error(std::move(d));
}

void ExprParser::unexpected(const std::string &wanted) const {
    fail("K1161", fmt::format("expected {}, found {}", wanted, next().words()), next().span);
}

void ExprParser::expect(const char *punct) {
    if (!accept(punct)) {
        unexpected(fmt::format("`{}`", punct));
    }
}

void ExprParser::expect_word(const char *word) {
    if (!accept_word(word)) {
        unexpected(fmt::format("`{}`", word));
    }
}

std::string ExprParser::name(const char *what) {
    if (next().kind != Token::Kind::Name) {
        unexpected(what);
    }
    return take().text;
}

int ExprParser::integer(const char *what) {
    const bool negative = accept("-");
    if (next().kind != Token::Kind::Int) {
        unexpected(what);
    }
    const Token t = take();
    if (t.number > std::numeric_limits<int>::max()) {
        fail("K1165", fmt::format("{} does not fit into 32 bits", t.text), t.span);
    }
    return static_cast<int>(negative ? -t.number : t.number);
}

Type ExprParser::type() {
    std::optional<Type> t = next().kind == Token::Kind::Name ? type_named(next().text) : std::nullopt;
    if (!t) {
        fail("K1162", fmt::format("expected a type, found {}", next().words()), next().span,
             {"types are bool, i8 … i64, u8 … u64, f16, bf16, f32 and f64"});
    }
    take();
    return *t;
}

Region ExprParser::region() {
    Region r;
    r.view = name("a view");
    expect("[");
    while (!next().is("]")) {
        const Span span = next().span;
        Expr e = expr();
        const Add *sum = e.as<Add>();
        const Variable *axis = sum ? sum->b.as<Variable>() : nullptr;
        if (e.type() != Halide::Int(32)) {
            fail("K1163", fmt::format("an index of type {}: indices are i32", type_name(e.type())), span);
        }
        if (axis && is_axis_var(axis->name)) {
            r.dims.push_back({sum->a, axis->name.substr(1)});
        } else {
            r.dims.push_back({e, ""});
        }
        if (!accept(",")) {
            break;
        }
    }
    expect("]");
    return r;
}

namespace {

struct Operator {
    const char *text;
    int level;
    Expr (*make)(Expr, Expr);
    bool chains, logical;
};

template<typename T>
Expr make(Expr a, Expr b) {
    return T::make(std::move(a), std::move(b));
}

const Operator operators[] = {
    {"||", 1, make<Or>, true, true},   {"&&", 2, make<And>, true, true},  {"==", 3, make<EQ>, false, false},
    {"!=", 3, make<NE>, false, false}, {"<=", 3, make<LE>, false, false}, {">=", 3, make<GE>, false, false},
    {"<", 3, make<LT>, false, false},  {">", 3, make<GT>, false, false},  {"+", 4, make<Add>, true, false},
    {"-", 4, make<Sub>, true, false},  {"*", 5, make<Mul>, true, false},  {"/", 5, make<Div>, true, false},
    {"%", 5, make<Mod>, true, false},
};

} // namespace

Expr ExprParser::binary(int level) {
    if (level > 5) {
        return unary();
    }
    Expr a = binary(level + 1);
    for (;;) {
        const Operator *found = nullptr;
        for (const Operator &o : operators) {
            if (o.level == level && next().is(o.text)) {
                found = &o;
            }
        }
        if (!found) {
            return a;
        }
        const Span span = take().span;
        Expr b = binary(level + 1);
        if (a.type() != b.type()) {
            fail("K1163",
                 fmt::format("`{}` of {} and {}", found->text, type_name(a.type()), type_name(b.type())),
                 span, {"write the cast: `f32(…)`, or the constant's type: `3:i64`"});
        }
        if (found->logical && !a.type().is_bool()) {
            fail("K1163", fmt::format("`{}` of {}: it takes bool", found->text, type_name(a.type())), span);
        }
        a = found->make(a, b);
        if (!found->chains) {
            return a;
        }
    }
}

Expr ExprParser::unary() {
    if (next().is("!")) {
        const Span span = take().span;
        Expr a = unary();
        if (!a.type().is_bool()) {
            fail("K1163", fmt::format("`!` of {}: it takes bool", type_name(a.type())), span);
        }
        return Not::make(a);
    }
    return primary();
}

Expr ExprParser::constant(const Token &t, bool negative) {
    const bool real = t.kind != Token::Kind::Int;
    Type type = suffix(real ? Halide::Float(32) : Halide::Int(32));
    if (real != type.is_float()) {
        fail("K1163", fmt::format("{} is no constant of type {}", t.words(), type_name(type)), t.span);
    }
    if (real) {
        const double v = t.kind == Token::Kind::Float ? t.number : t.text == "inf" ? INFINITY : NAN;
        return FloatImm::make(type, negative ? -v : v);
    }
    errno = 0;
    const unsigned long long v = std::strtoull(t.text.c_str(), nullptr, 10);
    const unsigned long long most =
        type.is_uint() ? ~0ull >> (64 - type.bits()) : (1ull << (type.bits() - 1)) - (negative ? 0 : 1);
    if (errno != 0 || v > most || (negative && type.is_uint())) {
        fail("K1165", fmt::format("{}{} does not fit into {}", negative ? "-" : "", t.text, type_name(type)),
             t.span);
    }
    if (type.is_uint()) {
        return UIntImm::make(type, v);
    }
    return IntImm::make(type, static_cast<int64_t>(negative ? 0 - v : v));
}

Expr ExprParser::primary() {
    const Token t = next();
    if (t.is("-")) {
        take();
        const Token v = take();
        if (v.kind != Token::Kind::Int && v.kind != Token::Kind::Float && !v.is_word("inf") &&
            !v.is_word("nan")) {
            fail("K1161", fmt::format("expected a number behind `-`, found {}", v.words()), v.span,
                 {"write `0 - …`"});
        }
        return constant(v, true);
    }
    if (t.kind == Token::Kind::Int || t.kind == Token::Kind::Float || t.is_word("inf") || t.is_word("nan")) {
        take();
        return constant(t, false);
    }
    if (t.kind == Token::Kind::String) {
        take();
        return StringImm::make(t.text);
    }
    if (accept("(")) {
        if (next().is_word("let")) {
            return let();
        }
        Expr e = expr();
        expect(")");
        return e;
    }
    if (t.is("@") || t.is("@!") || t.is("@@")) {
        take();
        if (next().kind != Token::Kind::Name) {
            unexpected("the name of an intrinsic");
        }
        const Token f = take();
        expect("(");
        return call(f, t.is("@") ? Call::PureIntrinsic : t.is("@!") ? Call::Intrinsic : Call::Extern);
    }
    if (t.kind == Token::Kind::Axis) {
        take();
        return Variable::make(suffix(Halide::Int(32)), "%" + t.text);
    }
    if (t.kind == Token::Kind::Name) {
        return named();
    }
    unexpected("an expression");
}

Expr ExprParser::named() {
    const Token t = take();
    if (t.is_word("true") || t.is_word("false")) {
        return make_const(Halide::Bool(), t.text == "true");
    }
    if (accept("[")) {
        return view_read(t);
    }
    if (!accept("(")) {
        return Variable::make(suffix(type_of(t.text)), t.text);
    }
    if (std::optional<Type> to = type_named(t.text)) {
        std::vector<Expr> a = arguments(")");
        if (a.size() != 1) {
            fail("K1161", fmt::format("a cast to `{}` takes one value, found {}", t.text, a.size()), t.span);
        }
        return Cast::make(*to, a[0]);
    }
    if (t.text.rfind("reinterpret_", 0) == 0) {
        std::optional<Type> to = type_named(t.text.substr(12));
        std::vector<Expr> a = arguments(")");
        if (!to || a.size() != 1 || to->bits() != a[0].type().bits()) {
            fail("K1163", fmt::format("`{}` takes one value of as many bits", t.text), t.span);
        }
        return Reinterpret::make(*to, a[0]);
    }
    const bool is_min = t.is_word("min");
    if (is_min || t.is_word("max")) {
        std::vector<Expr> a = arguments(")");
        if (a.size() != 2 || a[0].type() != a[1].type()) {
            fail("K1163", fmt::format("`{}` takes two values of one type", t.text), t.span);
        }
        return is_min ? Min::make(a[0], a[1]) : Max::make(a[0], a[1]);
    }
    if (t.is_word("select")) {
        std::vector<Expr> a = arguments(")");
        if (a.size() != 3 || !a[0].type().is_bool() || a[1].type() != a[2].type()) {
            fail("K1163", "`select` takes a bool and two values of one type", t.span);
        }
        return Select::make(a[0], a[1], a[2]);
    }
    return call(t, Call::PureExtern);
}

Expr ExprParser::let() {
    take();
    const std::string var = name("a name");
    expect("=");
    Expr value = expr();
    expect_word("in");
    const auto hidden = lets_;
    lets_[var] = value.type();
    Expr body = expr();
    lets_ = hidden;
    expect(")");
    return Let::make(var, value, body);
}

Expr ExprParser::view_read(const Token &t) {
    std::vector<Expr> at = arguments("]");
    for (const Expr &e : at) {
        if (e.type() != Halide::Int(32)) {
            fail("K1163",
                 fmt::format("`{}` at an index of type {}: indices are i32", t.text, type_name(e.type())),
                 t.span);
        }
    }
    const View *v = types_.view(t.text);
    if (!v && !next().is(":")) {
        std::vector<std::string> known;
        for (const View &w : types_.views) {
            known.push_back(w.name);
        }
        const std::string near = nearest(t.text, known);
        fail("K1164", fmt::format("no view `{}`", t.text), t.span,
             near.empty() ? std::vector<std::string>{}
                          : std::vector<std::string>{fmt::format("did you mean `{}`?", near)});
    }
    return Call::make(suffix(v ? v->type : Type()), "view:" + t.text, at, Call::PureExtern);
}

Expr ExprParser::call(const Token &t, Call::CallType kind) {
    std::vector<Expr> args = arguments(")");
    Type usual = args.empty() ? Halide::Int(32) : args[0].type();
    for (const char *end : {"_f16", "_f32", "_f64"}) {
        if (t.text.size() > 4 && t.text.substr(t.text.size() - 4) == end) {
            usual = *type_named(end + 1);
        }
    }
    return Call::make(suffix(usual), t.text, args, kind);
}

std::vector<Expr> ExprParser::arguments(const char *close) {
    std::vector<Expr> args;
    while (!next().is(close)) {
        args.push_back(expr());
        if (!accept(",")) {
            break;
        }
    }
    expect(close);
    return args;
}

Type ExprParser::suffix(Type usual) {
    return accept(":") ? type() : usual;
}

Type ExprParser::type_of(const std::string &variable) const {
    if (auto l = lets_.find(variable); l != lets_.end()) {
        return l->second;
    }
    auto t = types_.tiles.find(variable);
    return t == types_.tiles.end() ? Halide::Int(32) : t->second.type;
}

} // namespace kiln::tile
