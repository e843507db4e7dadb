// Functions of the C library, bit operations, rounding and loads for the evaluator's values.
#include "dsl/check/Tolerance.h"
#include "dsl/check/Value.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <string_view>

namespace kiln {

namespace {

using Halide::Type;

constexpr double infinity = std::numeric_limits<double>::infinity();

enum class Kind {
    Increasing, ///< error from the values at both ends of the argument's interval
    Lipschitz1, ///< error at most the argument's
    Step,       ///< floor and its kin: exact unless the interval crosses a step
    Absolute,
    Classify,
};

struct Entry {
    Kind kind;
    double (*function)(double);
    double low = -infinity, high = infinity; ///< the domain; outside it NaN
};

double fast_inverse(double x) {
    return 1 / x;
}
double fast_inverse_sqrt(double x) {
    return 1 / std::sqrt(x);
}

#define STD(NAME) [](double x) { return std::NAME(x); }
const std::map<std::string_view, Entry> &table() {
    static const std::map<std::string_view, Entry> entries = {
        {"exp", {Kind::Increasing, STD(exp)}},
        {"log", {Kind::Increasing, STD(log), 0}},
        {"sqrt", {Kind::Increasing, STD(sqrt), 0}},
        {"tanh", {Kind::Increasing, STD(tanh)}},
        {"erf", {Kind::Increasing, STD(erf)}},
        {"atan", {Kind::Increasing, STD(atan)}},
        {"asin", {Kind::Increasing, STD(asin), -1, 1}},
        {"acos", {Kind::Increasing, STD(acos), -1, 1}},
        {"sinh", {Kind::Increasing, STD(sinh)}},
        {"asinh", {Kind::Increasing, STD(asinh)}},
        {"acosh", {Kind::Increasing, STD(acosh), 1}},
        {"atanh", {Kind::Increasing, STD(atanh), -1, 1}},
        {"cosh", {Kind::Increasing, STD(cosh)}},
        {"tan", {Kind::Increasing, STD(tan)}},
        {"fast_inverse", {Kind::Increasing, fast_inverse}},
        {"fast_inverse_sqrt", {Kind::Increasing, fast_inverse_sqrt, 0}},
        {"sin", {Kind::Lipschitz1, STD(sin)}},
        {"cos", {Kind::Lipschitz1, STD(cos)}},
        {"floor", {Kind::Step, STD(floor)}},
        {"ceil", {Kind::Step, STD(ceil)}},
        {"trunc", {Kind::Step, STD(trunc)}},
        {"round", {Kind::Step, STD(nearbyint)}},
        {"abs", {Kind::Absolute, STD(fabs)}},
        {"is_nan", {Kind::Classify, [](double x) { return std::isnan(x) ? 1.0 : 0.0; }}},
        {"is_inf", {Kind::Classify, [](double x) { return std::isinf(x) ? 1.0 : 0.0; }}},
        {"is_finite", {Kind::Classify, [](double x) { return std::isfinite(x) ? 1.0 : 0.0; }}},
    };
    return entries;
}
#undef STD

/// What the function gives at both ends of [x - e, x + e], as a distance from its value at x.
double spread(const Entry &entry, double x, double v, double e) {
    if (e == 0) {
        return 0;
    }
    double low = std::abs(entry.function(x - e) - v), high = std::abs(entry.function(x + e) - v);
    bool leaves_domain = x - e < entry.low || x + e > entry.high;
    return leaves_domain || std::isnan(low) || std::isnan(high) ? infinity : std::max(low, high);
}

uint64_t bits_of(double v, const Type &type) {
    if (type.bits() == 64) {
        uint64_t b;
        std::memcpy(&b, &v, sizeof b);
        return b;
    }
    auto f = static_cast<float>(v);
    if (type.bits() == 32) {
        uint32_t b;
        std::memcpy(&b, &f, sizeof b);
        return b;
    }
    return type.is_bfloat() ? Halide::bfloat16_t(f).to_bits() : Halide::float16_t(v).to_bits();
}

double float_of(uint64_t bits, const Type &type) {
    if (type.bits() == 64) {
        double v;
        std::memcpy(&v, &bits, sizeof v);
        return v;
    }
    if (type.bits() == 32) {
        auto b = static_cast<uint32_t>(bits);
        float v;
        std::memcpy(&v, &b, sizeof v);
        return v;
    }
    auto b = static_cast<uint16_t>(bits);
    return type.is_bfloat() ? static_cast<double>(Halide::bfloat16_t::make_from_bits(b))
                            : static_cast<double>(Halide::float16_t::make_from_bits(b));
}

Value open_int(const Type &type, int64_t i, double error) {
    Value out = int_value(type, i);
    out.terms_error = error;
    return out;
}

} // namespace

double round_to(double v, const Type &type) {
    if (type.bits() == 64 || v == 0 || !std::isfinite(v)) {
        return v;
    }
    if (type.bits() == 32) {
        return static_cast<double>(static_cast<float>(v));
    }
    int bits = significant_bits(type);
    int lowest = type.is_bfloat() ? -126 : -14;
    int exponent = std::max(std::ilogb(v), lowest);
    double unit = std::ldexp(1.0, exponent - bits + 1);
    double rounded = std::nearbyint(v / unit) * unit;
    return std::abs(rounded) > largest_finite(type) ? std::copysign(infinity, v) : rounded;
}

Value reinterpret(const Value &a, const Type &from, const Type &to) {
    if (from.is_float() == to.is_float()) {
        return from.is_float() ? a : open_int(to, a.i, a.terms_error);
    }
    if (to.is_float()) {
        if (a.carries_float) {
            Value out = float_value(a.v);
            out.terms_error = a.magnitude;
            std::copy(a.shadow, a.shadow + 2, out.shadow);
            return out;
        }
        Value out = float_value(float_of(static_cast<uint64_t>(a.i), to));
        out.terms_error = a.terms_error > 0 ? infinity : 0;
        return out;
    }
    double error = full_error(a, from);
    auto bits = static_cast<int64_t>(bits_of(a.v, from));
    if (error == 0 || !std::isfinite(a.v)) {
        return open_int(to, bits, error == 0 ? 0 : infinity);
    }
    bool one_sign = std::signbit(a.v - error) == std::signbit(a.v + error);
    double width = std::abs(static_cast<double>(bits_of(a.v + error, from)) -
                            static_cast<double>(bits_of(a.v - error, from)));
    Value out = open_int(to, bits, one_sign ? width : infinity);
    out.carries_float = true;
    out.v = a.v;
    out.magnitude = settled_error(a, from);
    std::copy(a.shadow, a.shadow + 2, out.shadow);
    return out;
}

bool known_function(const char *name) {
    return table().count(name) != 0;
}

Value apply_function(const char *name, const Value &a, const Type &type) {
    auto it = table().find(name);
    if (it == table().end()) {
        return float_value(std::numeric_limits<double>::quiet_NaN());
    }
    const Entry &entry = it->second;
    if (entry.kind == Kind::Classify) {
        return open_int(Halide::Bool(), entry.function(a.v) != 0, std::isinf(full_error(a, type)) ? 1 : 0);
    }
    if (entry.kind == Kind::Absolute) {
        Value out = a;
        if (!type.is_float()) {
            out.i = a.i < 0 && type.is_int() ? static_cast<int64_t>(-static_cast<uint64_t>(a.i)) : a.i;
            return out;
        }
        if (a.v < 0 || std::signbit(a.v)) {
            out.v = -a.v;
            out.shadow[0] = -a.shadow[0];
            out.shadow[1] = -a.shadow[1];
        }
        return out;
    }
    double e = settled_error(a, type);
    Value out = float_value(entry.function(a.v));
    if (std::isinf(e)) {
        out.terms_error = infinity;
        return out;
    }
    if (entry.kind == Kind::Step) {
        double full = full_error(a, type);
        out.terms_error = std::isfinite(a.v) ? entry.function(a.v + full) - entry.function(a.v - full) : 0;
        return out;
    }
    if (!std::isfinite(a.v)) {
        return out;
    }
    out.shadow[0] = entry.function(a.shadow[0]);
    out.shadow[1] = entry.function(a.shadow[1]);
    double ulps = function_ulps(name, a.v) * unit_roundoff(type) * std::abs(out.v);
    double propagated = entry.kind == Kind::Lipschitz1 ? e : spread(entry, a.v, out.v, e);
    if (std::isnan(out.v) || (out.v == 0 && e == 0)) {
        return out; // log(-1), tanh(0): exact on all targets
    }
    if (std::string_view(name) == "log" || std::string_view(name) == "acos") {
        ulps += 4 * unit_roundoff(type); // next to a zero of the function the error is absolute
    }
    if (std::string_view(name) == "erf") {
        ulps += 8 * unit_roundoff(
                        type); // Halide's polynomial (Abramowitz, Stegun 7.1.26) errs by an absolute 5e-7
    }
    if (entry.kind == Kind::Lipschitz1 || std::string_view(name) == "tan") {
        ulps += function_ulps(name, a.v) * unit_roundoff(type);
    }
    if (std::isinf(out.v)) {
        // The end of the domain (log 0), or overflow of double, which is overflow of all types.
        out.terms_error = std::isinf(propagated) && e > 0 ? infinity : 0;
        return out;
    }
    double top = largest_finite(type), size = std::abs(out.v);
    out.terms_error = propagated + ulps + (storage_tolerance(type, out.v) - unit_roundoff(type) * size);
    if (size + out.terms_error > top) {
        return size - out.terms_error > top * (1 + unit_roundoff(type))
                   ? float_value(std::copysign(infinity, out.v))
                   : [&] {
                         out.terms_error = infinity;
                         return out;
                     }();
    }
    return out;
}

Value power(const Value &a, const Value &b, const Type &type) {
    double ea = settled_error(a, type), eb = settled_error(b, type);
    Value out = float_value(std::pow(a.v, b.v));
    if (std::isinf(ea) || std::isinf(eb) || (ea > 0 && std::abs(a.v) <= ea) || (a.v <= 0 && eb > 0)) {
        out.terms_error = infinity;
        return out;
    }
    if (!std::isfinite(a.v) || !std::isfinite(b.v) || !std::isfinite(out.v) || a.v == 0) {
        return out;
    }
    out.shadow[0] = std::pow(a.shadow[0], b.shadow[0]);
    out.shadow[1] = std::pow(a.shadow[1], b.shadow[1]);
    double exponent = std::abs(b.v * std::log(std::abs(a.v)));
    double relative = std::abs(b.v) * ea / (std::abs(a.v) - ea) + std::abs(std::log(std::abs(a.v))) * eb +
                      (function_ulps("pow", a.v) + 8 * exponent) * unit_roundoff(type);
    out.terms_error =
        relative < 0.5 ? 2 * relative * std::abs(out.v) + storage_tolerance(type, out.v) : infinity;
    return out;
}

Value arctangent2(const Value &a, const Value &b, const Type &type) {
    double e = settled_error(a, type) + settled_error(b, type);
    Value out = float_value(std::atan2(a.v, b.v));
    out.shadow[0] = std::atan2(a.shadow[0], b.shadow[0]);
    out.shadow[1] = std::atan2(a.shadow[1], b.shadow[1]);
    double radius = std::hypot(a.v, b.v);
    if (e > 0 && radius <= 2 * e) {
        out.terms_error = infinity;
        return out;
    }
    out.terms_error =
        (e > 0 ? 2 * e / radius : 0) + function_ulps("atan2", a.v) * unit_roundoff(type) * std::abs(out.v);
    return out;
}

namespace {

using IntegerOp = int64_t (*)(int64_t, int64_t, const Type &);

uint64_t mask_of(const Type &type) {
    return type.bits() >= 64 ? ~uint64_t(0) : (uint64_t(1) << type.bits()) - 1;
}

int64_t shift(int64_t a, int64_t by, const Type &type) {
    if (by >= 0) {
        return by >= 64 ? 0 : static_cast<int64_t>(static_cast<uint64_t>(a) << by);
    }
    by = std::min<int64_t>(-by, 63);
    return type.is_uint() ? static_cast<int64_t>((static_cast<uint64_t>(a) & mask_of(type)) >> by) : a >> by;
}

int64_t saturate(__int128 v, const Type &type) {
    __int128 top =
        type.is_uint() ? static_cast<__int128>(mask_of(type)) : static_cast<__int128>(mask_of(type) >> 1);
    __int128 bottom = type.is_uint() ? 0 : -top - 1;
    return static_cast<int64_t>(v > top ? top : v < bottom ? bottom : v);
}

__int128 wide(int64_t a, const Type &type) {
    return type.is_uint() ? static_cast<__int128>(static_cast<uint64_t>(a)) : static_cast<__int128>(a);
}

const std::map<std::string_view, IntegerOp> &integer_table() {
    static const std::map<std::string_view, IntegerOp> entries = {
        {"bitwise_and", [](int64_t a, int64_t b, const Type &) { return a & b; }},
        {"bitwise_or", [](int64_t a, int64_t b, const Type &) { return a | b; }},
        {"bitwise_xor", [](int64_t a, int64_t b, const Type &) { return a ^ b; }},
        {"bitwise_not", [](int64_t a, int64_t, const Type &) { return ~a; }},
        {"shift_left", [](int64_t a, int64_t b, const Type &t) { return shift(a, b, t); }},
        {"shift_right", [](int64_t a, int64_t b, const Type &t) { return shift(a, -b, t); }},
        {"absd",
         [](int64_t a, int64_t b, const Type &t) {
             __int128 d = wide(a, t) - wide(b, t);
             return static_cast<int64_t>(d < 0 ? -d : d);
         }},
        {"div_round_to_zero",
         [](int64_t a, int64_t b, const Type &t) {
             return b == 0 ? int64_t(0) : static_cast<int64_t>(wide(a, t) / wide(b, t));
         }},
        {"mod_round_to_zero",
         [](int64_t a, int64_t b, const Type &t) {
             return b == 0 ? int64_t(0) : static_cast<int64_t>(wide(a, t) % wide(b, t));
         }},
        {"halving_add", [](int64_t a, int64_t b,
                           const Type &t) { return static_cast<int64_t>((wide(a, t) + wide(b, t)) >> 1); }},
        {"rounding_halving_add",
         [](int64_t a, int64_t b, const Type &t) {
             return static_cast<int64_t>((wide(a, t) + wide(b, t) + 1) >> 1);
         }},
        {"halving_sub", [](int64_t a, int64_t b,
                           const Type &t) { return static_cast<int64_t>((wide(a, t) - wide(b, t)) >> 1); }},
        {"saturating_add",
         [](int64_t a, int64_t b, const Type &t) { return saturate(wide(a, t) + wide(b, t), t); }},
        {"saturating_sub",
         [](int64_t a, int64_t b, const Type &t) { return saturate(wide(a, t) - wide(b, t), t); }},
        {"popcount",
         [](int64_t a, int64_t, const Type &t) {
             return static_cast<int64_t>(__builtin_popcountll(static_cast<uint64_t>(a) & mask_of(t)));
         }},
        {"count_leading_zeros",
         [](int64_t a, int64_t, const Type &t) {
             uint64_t bits = static_cast<uint64_t>(a) & mask_of(t);
             return static_cast<int64_t>(bits ? __builtin_clzll(bits) - (64 - t.bits()) : t.bits());
         }},
        {"count_trailing_zeros",
         [](int64_t a, int64_t, const Type &t) {
             uint64_t bits = static_cast<uint64_t>(a) & mask_of(t);
             return static_cast<int64_t>(bits ? __builtin_ctzll(bits) : t.bits());
         }},
    };
    return entries;
}

} // namespace

bool known_integer_op(const char *name) {
    return integer_table().count(name) != 0;
}

Value integer_op(const char *name, const Value &a, const Value &b, const Type &type,
                 const Type &result_type) {
    IntegerOp op = integer_table().at(name);
    int64_t i = op(a.i, b.i, type);
    double error = a.terms_error + b.terms_error;
    if (error == 0) {
        return int_value(result_type, i);
    }
    std::string_view what(name);
    auto all_ones = [&](const Value &x) {
        return x.terms_error == 0 && (static_cast<uint64_t>(x.i) & mask_of(type)) == mask_of(type);
    };
    auto zero = [](const Value &x) { return x.terms_error == 0 && x.i == 0; };
    if (what == "bitwise_and" && (zero(a) || zero(b))) {
        return int_value(result_type, 0);
    }
    if ((what == "bitwise_and" && all_ones(b)) || (what == "bitwise_or" && zero(b))) {
        return a;
    }
    if ((what == "bitwise_and" && all_ones(a)) || (what == "bitwise_or" && zero(a))) {
        return b;
    }
    // Known bits survive: where both ends of an open `a` agree above the bits they differ in, so do the results
    // of a mask.
    auto width = static_cast<int64_t>(std::min(a.terms_error, 1e18));
    int64_t low = op(a.i - width, b.i, type), high = op(a.i + width, b.i, type);
    bool is_mask = std::string_view(name) == "bitwise_and" && b.terms_error == 0 &&
                   ((a.i - width) ^ (a.i + width)) >= 0 && high >= low && high - low <= 2 * width;
    return open_int(result_type, i, is_mask ? static_cast<double>(high - low) : infinity);
}

Value load_element(const void *data, int64_t index, const Type &type) {
    if (!type.is_float()) {
        int64_t i = 0;
        switch (type.bytes()) {
        case 1:
            i = type.is_int() ? static_cast<const int8_t *>(data)[index]
                              : static_cast<const uint8_t *>(data)[index];
            break;
        case 2:
            i = type.is_int() ? static_cast<const int16_t *>(data)[index]
                              : static_cast<const uint16_t *>(data)[index];
            break;
        case 4:
            i = type.is_int() ? static_cast<const int32_t *>(data)[index]
                              : static_cast<const uint32_t *>(data)[index];
            break;
        default:
            i = static_cast<const int64_t *>(data)[index];
        }
        return int_value(type, i);
    }
    double v = 0;
    switch (type.bytes()) {
    case 2:
        v = float_of(static_cast<const uint16_t *>(data)[index], type);
        break;
    case 4:
        v = static_cast<const float *>(data)[index];
        break;
    default:
        v = static_cast<const double *>(data)[index];
    }
    Value out = float_value(v);
    // Kernels may read subnormal float32 (and with it bfloat16) numbers as 0.
    if (v != 0 && std::abs(v) < underflow_error(type) && !(type.bits() == 16 && !type.is_bfloat())) {
        out.terms_error = std::abs(v);
    }
    return out;
}

} // namespace kiln
