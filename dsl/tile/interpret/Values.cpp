#include "dsl/tile/interpret/Values.h"

#include "dsl/tile/ir/EachCall.h"
#include "dsl/tile/ir/Text.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

namespace kiln::tile {

using namespace Halide::Internal;
using Halide::Type;

Column Column::of(double v) {
    Column c;
    c.is_real = true;
    c.real = {v};
    return c;
}

Column Column::of(int64_t v) {
    Column c;
    c.whole = {v};
    return c;
}

Column Column::sized(Type type, size_t n) {
    Column c;
    c.is_real = type.is_float();
    if (c.is_real) {
        c.real.resize(n);
    } else {
        c.whole.resize(n);
    }
    return c;
}

double round_to(Type type, double v) {
    if (!type.is_float() || type.bits() == 64) {
        return v;
    }
    const float f = static_cast<float>(v);
    if (type.bits() == 32) {
        return f;
    }
    return type.is_bfloat() ? static_cast<double>(static_cast<float>(Halide::bfloat16_t(f)))
                            : static_cast<double>(static_cast<float>(Halide::float16_t(f)));
}

int64_t wrap_to(Type type, int64_t v) {
    if (type.bits() == 64) {
        return v;
    }
    if (type.is_bool()) {
        return v & 1;
    }
    const int spare = 64 - type.bits();
    const uint64_t shifted = static_cast<uint64_t>(v) << spare;
    return type.is_int() ? static_cast<int64_t>(shifted) >> spare : static_cast<int64_t>(shifted >> spare);
}

double load_element(Type type, const uint8_t *at) {
    if (!type.is_float()) {
        const int64_t v = load_integer(type, at);
        return type.is_uint() && type.bits() == 64 ? static_cast<double>(static_cast<uint64_t>(v))
                                                   : static_cast<double>(v);
    }
    if (type.bits() == 64) {
        double v;
        std::memcpy(&v, at, 8);
        return v;
    }
    if (type.bits() == 32) {
        float v;
        std::memcpy(&v, at, 4);
        return v;
    }
    uint16_t v;
    std::memcpy(&v, at, 2);
    return type.is_bfloat() ? static_cast<float>(Halide::bfloat16_t::make_from_bits(v))
                            : static_cast<float>(Halide::float16_t::make_from_bits(v));
}

int64_t load_integer(Type type, const uint8_t *at) {
    int64_t v = 0;
    std::memcpy(&v, at, static_cast<size_t>(type.bytes()));
    return wrap_to(type, v);
}

void store_element(Type type, uint8_t *at, double v) {
    if (!type.is_float()) {
        store_integer(type, at, static_cast<int64_t>(v));
    } else if (type.bits() == 64) {
        std::memcpy(at, &v, 8);
    } else if (type.bits() == 32) {
        const float f = static_cast<float>(v);
        std::memcpy(at, &f, 4);
    } else {
        const float f = static_cast<float>(v);
        const uint16_t bits =
            type.is_bfloat() ? Halide::bfloat16_t(f).to_bits() : Halide::float16_t(f).to_bits();
        std::memcpy(at, &bits, 2);
    }
}

void store_integer(Type type, uint8_t *at, int64_t v) {
    v = wrap_to(type, v);
    std::memcpy(at, &v, static_cast<size_t>(type.bytes())); // both machines are little-endian
}

double identity_of(ReduceOp op, Type type) {
    switch (op) {
    case ReduceOp::Sum:
        return 0;
    case ReduceOp::Product:
        return 1;
    case ReduceOp::Max:
    case ReduceOp::Min: {
        const double most = type.is_float() ? INFINITY : std::ldexp(1, type.bits() - (type.is_int() ? 1 : 0));
        return op == ReduceOp::Max ? (type.is_uint() ? 0 : -most) : type.is_float() ? most : most - 1;
    }
    }
    return 0;
}

double combine(ReduceOp op, Type type, double a, double b) {
    switch (op) {
    case ReduceOp::Sum:
        return type.is_float() ? round_to(type, a + b)
                               : static_cast<double>(wrap_to(type, static_cast<int64_t>(a + b)));
    case ReduceOp::Product:
        return type.is_float() ? round_to(type, a * b)
                               : static_cast<double>(wrap_to(type, static_cast<int64_t>(a * b)));
    case ReduceOp::Max:
        return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b);
    case ReduceOp::Min:
        return std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b);
    }
    return 0;
}

namespace {

/// f of both at every place. `get` picks the vector of a column.
template<typename R, typename A, typename F>
void fill(std::vector<R> &out, const std::vector<A> &a, const std::vector<A> &b, const F &f) {
    const size_t n = std::max(a.size(), b.size());
    const size_t sa = a.size() == 1 ? 0 : 1, sb = b.size() == 1 ? 0 : 1;
    out.resize(n);
    for (size_t i = 0; i < n; i++) {
        out[i] = static_cast<R>(f(a[i * sa], b[i * sb]));
    }
}

template<typename F>
ColumnPtr arithmetic_real(Type type, const Column &a, const Column &b, const F &f) {
    auto out = std::make_shared<Column>();
    out->is_real = true;
    if (type == Halide::Float(32)) {
        fill(out->real, a.real, b.real, [&](double x, double y) { return static_cast<float>(f(x, y)); });
    } else {
        fill(out->real, a.real, b.real, [&](double x, double y) { return round_to(type, f(x, y)); });
    }
    return out;
}

template<typename F>
ColumnPtr arithmetic_whole(Type type, const Column &a, const Column &b, const F &f) {
    auto out = std::make_shared<Column>();
    fill(out->whole, a.whole, b.whole, [&](int64_t x, int64_t y) { return wrap_to(type, f(x, y)); });
    return out;
}

template<typename F>
ColumnPtr arithmetic(Type type, const Column &a, const Column &b, const F &f) {
    return type.is_float() ? arithmetic_real(type, a, b, [&](double x, double y) { return f(x, y); })
                           : arithmetic_whole(type, a, b, [&](int64_t x, int64_t y) { return f(x, y); });
}

template<typename F>
ColumnPtr comparison(Type type, const Column &a, const Column &b, const F &f) {
    auto out = std::make_shared<Column>();
    if (a.is_real) {
        fill(out->whole, a.real, b.real, f);
    } else if (type.is_uint() && type.bits() == 64) {
        fill(out->whole, a.whole, b.whole,
             [&](int64_t x, int64_t y) { return f(static_cast<uint64_t>(x), static_cast<uint64_t>(y)); });
    } else {
        fill(out->whole, a.whole, b.whole, f);
    }
    return out;
}

/// Rounds so that the remainder is not negative; by 0 it is 0 (Halide's Expr documentation).
int64_t divide(int64_t a, int64_t b) {
    if (b == 0) {
        return 0;
    }
    int64_t q = a / b;
    const int64_t r = a - q * b;
    return r < 0 ? (b > 0 ? q - 1 : q + 1) : q;
}

int64_t divide_of(Type type, int64_t a, int64_t b) {
    if (type.is_uint()) {
        return b == 0 ? 0 : static_cast<int64_t>(static_cast<uint64_t>(a) / static_cast<uint64_t>(b));
    }
    return divide(a, b);
}

template<typename F>
ColumnPtr unary_real(Type type, const Column &a, const F &f) {
    auto out = std::make_shared<Column>();
    out->is_real = true;
    out->real.reserve(a.real.size());
    for (double v : a.real) {
        out->real.push_back(round_to(type, f(v)));
    }
    return out;
}

ColumnPtr cast(Type to, Type from, const Column &a) {
    auto out = std::make_shared<Column>(Column::sized(to, a.size()));
    const bool big = from.is_uint() && from.bits() == 64;
    for (size_t i = 0; i < a.size(); i++) {
        if (to.is_float()) {
            const double v = a.is_real ? a.real[i]
                             : big     ? static_cast<double>(static_cast<uint64_t>(a.whole[i]))
                                       : static_cast<double>(a.whole[i]);
            out->real[i] = round_to(to, v);
        } else if (a.is_real) {
            const double v = a.real[i];
            out->whole[i] = to.is_bool() ? v != 0 : std::isnan(v) ? 0 : wrap_to(to, static_cast<int64_t>(v));
        } else {
            out->whole[i] = to.is_bool() ? a.whole[i] != 0 : wrap_to(to, a.whole[i]);
        }
    }
    return out;
}

ColumnPtr reinterpreted(Type to, Type from, const Column &a) {
    auto out = std::make_shared<Column>(Column::sized(to, a.size()));
    for (size_t i = 0; i < a.size(); i++) {
        uint8_t raw[8] = {};
        if (a.is_real) {
            store_element(from, raw, a.real[i]);
        } else {
            store_integer(from, raw, a.whole[i]);
        }
        if (to.is_float()) {
            out->real[i] = load_element(to, raw);
        } else {
            out->whole[i] = load_integer(to, raw);
        }
    }
    return out;
}

struct Function {
    const char *name;
    double (*f)(double);
};
/// Halide's functions of one float, without the type at the end of their names.
const Function functions[] = {
    {"exp", [](double v) { return std::exp(v); }},
    {"exp2", [](double v) { return std::exp2(v); }},
    {"log", [](double v) { return std::log(v); }},
    {"log2", [](double v) { return std::log2(v); }},
    {"sqrt", [](double v) { return std::sqrt(v); }},
    {"rsqrt", [](double v) { return 1 / std::sqrt(v); }},
    {"tanh", [](double v) { return std::tanh(v); }},
    {"erf", [](double v) { return std::erf(v); }},
    {"sin", [](double v) { return std::sin(v); }},
    {"cos", [](double v) { return std::cos(v); }},
    {"tan", [](double v) { return std::tan(v); }},
    {"atan", [](double v) { return std::atan(v); }},
    {"sinh", [](double v) { return std::sinh(v); }},
    {"cosh", [](double v) { return std::cosh(v); }},
    {"asin", [](double v) { return std::asin(v); }},
    {"acos", [](double v) { return std::acos(v); }},
    {"floor", [](double v) { return std::floor(v); }},
    {"ceil", [](double v) { return std::ceil(v); }},
    {"trunc", [](double v) { return std::trunc(v); }},
    {"round", [](double v) { return std::nearbyint(v); }},
    {"fast_inverse", [](double v) { return 1 / v; }},
    {"fast_inverse_sqrt", [](double v) { return 1 / std::sqrt(v); }},
};
const Function tests[] = {
    {"is_nan", [](double v) { return std::isnan(v) ? 1.0 : 0.0; }},
    {"is_inf", [](double v) { return std::isinf(v) ? 1.0 : 0.0; }},
    {"is_finite", [](double v) { return std::isfinite(v) ? 1.0 : 0.0; }},
};

} // namespace

ColumnPtr Evaluator::operator()(const Expr &e, const Mask &mask) {
    const std::pair<const void *, const void *> key{e.get(), mask.get()};
    if (e.as<Variable>() || e.as<IntImm>()) {
        return compute(e, mask);
    }
    if (auto it = known_.find(key); lets_.empty() && it != known_.end()) {
        return it->second;
    }
    ColumnPtr c = compute(e, mask);
    if (lets_.empty()) {
        kept_.push_back(e);
        known_[key] = c;
    }
    return c;
}

ColumnPtr Evaluator::compute(const Expr &e, const Mask &mask) {
    const Type t = e.type();
    auto both = [&](const auto *p, const auto &f) {
        const ColumnPtr a = (*this)(p->a, mask), b = (*this)(p->b, mask);
        return f(p->a.type(), *a, *b);
    };
    auto compare = [&](const auto *p, const auto &f) {
        return both(p,
                    [&](Type type, const Column &a, const Column &b) { return comparison(type, a, b, f); });
    };
    auto operate = [&](const auto *p, const auto &f) {
        return both(p,
                    [&](Type type, const Column &a, const Column &b) { return arithmetic(type, a, b, f); });
    };
    if (auto *p = e.as<Variable>()) {
        auto l = lets_.find(p->name);
        return l == lets_.end() ? places_.variable(p->name) : l->second;
    }
    if (auto *p = e.as<IntImm>()) {
        return std::make_shared<Column>(Column::of(static_cast<int64_t>(p->value)));
    }
    if (auto *p = e.as<UIntImm>()) {
        return std::make_shared<Column>(Column::of(static_cast<int64_t>(p->value)));
    }
    if (auto *p = e.as<FloatImm>()) {
        return std::make_shared<Column>(Column::of(round_to(t, p->value)));
    }
    if (auto *p = e.as<Add>()) {
        return operate(p, [](auto x, auto y) { return x + y; });
    }
    if (auto *p = e.as<Sub>()) {
        return operate(p, [](auto x, auto y) { return x - y; });
    }
    if (auto *p = e.as<Mul>()) {
        return operate(p, [](auto x, auto y) { return x * y; });
    }
    if (auto *p = e.as<Div>()) {
        return both(p, [&](Type type, const Column &a, const Column &b) {
            return type.is_float() ? arithmetic_real(type, a, b, [](double x, double y) { return x / y; })
                                   : arithmetic_whole(type, a, b, [&](int64_t x, int64_t y) {
                                         return divide_of(type, x, y);
                                     });
        });
    }
    if (auto *p = e.as<Mod>()) {
        return both(p, [&](Type type, const Column &a, const Column &b) {
            return type.is_float()
                       ? arithmetic_real(type, a, b,
                                         [](double x, double y) { return x - y * std::floor(x / y); })
                       : arithmetic_whole(type, a, b, [&](int64_t x, int64_t y) {
                             return y == 0 ? 0 : x - divide_of(type, x, y) * y;
                         });
        });
    }
    if (auto *p = e.as<Min>()) {
        return operate(p, [](auto x, auto y) { return y < x ? y : x; });
    }
    if (auto *p = e.as<Max>()) {
        return operate(p, [](auto x, auto y) { return x < y ? y : x; });
    }
    if (auto *p = e.as<EQ>()) {
        return compare(p, [](auto x, auto y) { return x == y; });
    }
    if (auto *p = e.as<NE>()) {
        return compare(p, [](auto x, auto y) { return x != y; });
    }
    if (auto *p = e.as<LT>()) {
        return compare(p, [](auto x, auto y) { return x < y; });
    }
    if (auto *p = e.as<LE>()) {
        return compare(p, [](auto x, auto y) { return x <= y; });
    }
    if (auto *p = e.as<GT>()) {
        return compare(p, [](auto x, auto y) { return x > y; });
    }
    if (auto *p = e.as<GE>()) {
        return compare(p, [](auto x, auto y) { return x >= y; });
    }
    if (auto *p = e.as<And>()) {
        return logical(p->a, p->b, true, mask);
    }
    if (auto *p = e.as<Or>()) {
        return logical(p->a, p->b, false, mask);
    }
    if (auto *p = e.as<Not>()) {
        auto out = std::make_shared<Column>(*(*this)(p->a, mask));
        for (int64_t &v : out->whole) {
            v = !v;
        }
        return out;
    }
    if (auto *p = e.as<Select>()) {
        return select(p->condition, p->true_value, p->false_value, mask);
    }
    if (auto *p = e.as<Cast>()) {
        return cast(t, p->value.type(), *(*this)(p->value, mask));
    }
    if (auto *p = e.as<Reinterpret>()) {
        return reinterpreted(t, p->value.type(), *(*this)(p->value, mask));
    }
    if (auto *p = e.as<Let>()) {
        const auto hidden = lets_;
        ColumnPtr value = (*this)(p->value, mask);
        lets_[p->name] = value;
        ColumnPtr body = (*this)(p->body, mask);
        lets_ = hidden;
        return body;
    }
    if (auto *p = e.as<Call>()) {
        return call(p, mask);
    }
    refuse("K1167", fmt::format("the interpreter cannot compute `{}`", print(Kernel{}, e)));
}

Mask Evaluator::narrowed(const Mask &mask, const Column &condition, bool when) {
    auto m = std::make_shared<std::vector<uint8_t>>(condition.size());
    for (size_t i = 0; i < m->size(); i++) {
        (*m)[i] = (condition.whole[i] != 0) == when && (!mask || (*mask)[i]);
    }
    masks_.push_back(m);
    return m;
}

bool Evaluator::reads_view(const Expr &e) {
    auto it = reads_view_.find(e.get());
    if (it == reads_view_.end()) {
        bool found = false;
        each_call(e, [&](const Call &c) { found |= c.name.starts_with("view:"); });
        it = reads_view_.emplace(e.get(), found).first;
    }
    return it->second;
}

/// As a conditional expression does it: the value not taken reads nothing.
ColumnPtr Evaluator::select(const Expr &condition, const Expr &yes, const Expr &no, const Mask &mask) {
    const ColumnPtr c = (*this)(condition, mask);
    if (c->size() == 1) {
        return (*this)(c->whole[0] ? yes : no, mask);
    }
    const ColumnPtr a = (*this)(yes, reads_view(yes) ? narrowed(mask, *c, true) : mask);
    const ColumnPtr b = (*this)(no, reads_view(no) ? narrowed(mask, *c, false) : mask);
    auto out = std::make_shared<Column>(Column::sized(yes.type(), c->size()));
    const size_t sa = a->size() == 1 ? 0 : 1, sb = b->size() == 1 ? 0 : 1;
    for (size_t i = 0; i < c->size(); i++) {
        if (out->is_real) {
            out->real[i] = c->whole[i] ? a->real[i * sa] : b->real[i * sb];
        } else {
            out->whole[i] = c->whole[i] ? a->whole[i * sa] : b->whole[i * sb];
        }
    }
    return out;
}

ColumnPtr Evaluator::logical(const Expr &a, const Expr &b, bool is_and, const Mask &mask) {
    const ColumnPtr x = (*this)(a, mask);
    if (x->size() == 1) {
        return (x->whole[0] != 0) == is_and ? (*this)(b, mask) : x;
    }
    const ColumnPtr y = (*this)(b, reads_view(b) ? narrowed(mask, *x, is_and) : mask);
    auto out = std::make_shared<Column>();
    fill(out->whole, x->whole, y->whole, [&](int64_t p, int64_t q) { return is_and ? p && q : p || q; });
    return out;
}

ColumnPtr Evaluator::call(const Call *c, const Mask &mask) {
    std::vector<ColumnPtr> args;
    for (const Expr &a : c->args) {
        args.push_back(a.as<StringImm>() ? nullptr : (*this)(a, mask));
    }
    if (c->name.rfind("view:", 0) == 0) {
        return places_.view(c->name.substr(5), args, mask);
    }
    const Type t = c->type;
    const std::string stem = c->name.substr(0, c->name.rfind("_f"));
    if (args.size() == 1 && args[0]) {
        for (const Function &f : functions) {
            if (stem == f.name && args[0]->is_real) {
                return unary_real(t, *args[0], f.f);
            }
        }
        for (const Function &f : tests) {
            if (stem == f.name && args[0]->is_real) {
                auto out = std::make_shared<Column>();
                for (double v : args[0]->real) {
                    out->whole.push_back(f.f(v) != 0);
                }
                return out;
            }
        }
    }
    if (stem == "pow" && args.size() == 2) {
        return arithmetic_real(t, *args[0], *args[1], [](double x, double y) { return std::pow(x, y); });
    }
    if (stem == "atan2" && args.size() == 2) {
        return arithmetic_real(t, *args[0], *args[1], [](double x, double y) { return std::atan2(x, y); });
    }
    if (c->is_intrinsic(Call::abs)) {
        if (args[0]->is_real) {
            return unary_real(t, *args[0], [](double v) { return std::fabs(v); });
        }
        auto out = std::make_shared<Column>(*args[0]);
        for (int64_t &v : out->whole) {
            v = wrap_to(t, v < 0 ? -v : v);
        }
        return out;
    }
    if (c->is_intrinsic(Call::likely) || c->is_intrinsic(Call::likely_if_innermost) ||
        c->is_intrinsic(Call::promise_clamped) || c->is_intrinsic(Call::unsafe_promise_clamped)) {
        return args[0];
    }
    if (c->is_intrinsic(Call::if_then_else)) {
        return select(c->args[0], c->args[1], c->args[2], mask);
    }
    if (args.size() == 2 && !t.is_float()) {
        auto whole = [&](const auto &f) { return arithmetic_whole(t, *args[0], *args[1], f); };
        if (c->is_intrinsic(Call::bitwise_and)) {
            return whole([](int64_t x, int64_t y) { return x & y; });
        }
        if (c->is_intrinsic(Call::bitwise_or)) {
            return whole([](int64_t x, int64_t y) { return x | y; });
        }
        if (c->is_intrinsic(Call::bitwise_xor)) {
            return whole([](int64_t x, int64_t y) { return x ^ y; });
        }
        if (c->is_intrinsic(Call::absd)) {
            return whole([](int64_t x, int64_t y) { return x < y ? y - x : x - y; });
        }
        if (c->is_intrinsic(Call::shift_left) || c->is_intrinsic(Call::shift_right)) {
            const bool left = c->is_intrinsic(Call::shift_left);
            return whole([&](int64_t x, int64_t y) {
                const bool to_left = left == (y >= 0);
                const int64_t by = std::min<int64_t>(y < 0 ? -y : y, 63);
                return to_left       ? static_cast<int64_t>(static_cast<uint64_t>(x) << by)
                       : t.is_uint() ? static_cast<int64_t>(static_cast<uint64_t>(x) >> by)
                                     : x >> by;
            });
        }
    }
    if (c->is_intrinsic(Call::bitwise_not)) {
        auto out = std::make_shared<Column>(*args[0]);
        for (int64_t &v : out->whole) {
            v = wrap_to(t, ~v);
        }
        return out;
    }
    refuse("K1167", fmt::format("the interpreter does not know the function `{}`", c->name), {},
           {"it knows Halide's arithmetic, comparisons, bit operations and float functions"});
}

} // namespace kiln::tile
