#include "dsl/check/Value.h"

#include "dsl/check/Tolerance.h"

#include <cmath>
#include <limits>

namespace kiln {

namespace {

using Halide::Type;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double tiny = std::numeric_limits<double>::denorm_min();

/// Exponent of the lowest set bit; large for 0, infinities and NaN, which are multiples of everything.
int16_t lowest_bit(double v) {
    if (v == 0 || !std::isfinite(v)) {
        return 4096;
    }
    int exponent;
    auto mantissa = static_cast<int64_t>(std::ldexp(std::frexp(v, &exponent), 53));
    return static_cast<int16_t>(exponent - 53 +
                                __builtin_ctzll(static_cast<uint64_t>(mantissa < 0 ? -mantissa : mantissa)));
}

/// Two open sums of more additions than this are joined as two terms: in a deep chain of stencils each sum is part of several,
/// and its terms would be counted once for every path, 3^40 times.
constexpr int64_t most_joined = 64;

bool is_surely_nan(const Value &a) {
    return std::isnan(a.v) && std::isfinite(a.terms_error);
}

bool is_power_of_two(double v) {
    int exponent;
    return v != 0 && std::isfinite(v) && std::abs(std::frexp(v, &exponent)) == 0.5;
}

double smallest_normal(const Type &type) {
    return type.bits() == 16 && !type.is_bfloat() ? std::ldexp(1.0, -14)
           : type.bits() == 64                    ? std::numeric_limits<double>::min()
                                                  : std::numeric_limits<float>::min();
}

/// Random signs for shadows: a fixed sequence a thread, so that a run can be repeated.
double random_sign() {
    thread_local uint64_t state = 0x9e3779b97f4a7c15ull;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (state >> 40) & 1 ? 1.0 : -1.0;
}

bool sign_is_open(const Value &a) {
    return a.v == 0 && (a.adds > 0 || a.zero_sign_is_open);
}

Value with_error(double v, double error) {
    Value out = float_value(v);
    out.terms_error = error;
    return out;
}

Value unknown(double v) {
    return with_error(v, infinity);
}

/// A written 0 times or over something: `v` by IEEE arithmetic.
Value written_zero(double v, bool is_finite) {
    Value out = is_finite ? float_value(0) : unknown(v);
    out.is_written_zero = is_finite;
    out.zero_sign_is_open = true;
    return out;
}

double shadow_spread(const Value &a) {
    double spread = 0;
    for (double s : a.shadow) {
        if (!(s == a.v || (std::isnan(s) && std::isnan(a.v)))) {
            double d = std::abs(s - a.v);
            spread = std::isnan(d) ? infinity : std::max(spread, d);
        }
    }
    return spread;
}

/// Overflow: in double the sum went on, in `type` it may have stopped at infinity, also on the way.
Value limit(Value a, const Type &type) {
    double top = largest_finite(type);
    if (std::max(std::abs(a.v), a.magnitude) <= top * 0.99) {
        return a;
    }
    double error = full_error(a, type);
    double size = std::abs(a.v), edge = top * (1 + unit_roundoff(type));
    if (std::isinf(error) || !(size - error >= edge || a.magnitude + error <= top)) {
        return unknown(a.v);
    }
    return size - error >= edge ? float_value(std::copysign(infinity, a.v)) : a;
}

Value scaled(const Value &a, double factor) {
    Value out = a;
    out.v *= factor;
    out.terms_error *= std::abs(factor);
    out.magnitude *= std::abs(factor);
    out.shadow[0] *= factor;
    out.shadow[1] *= factor;
    out.grid = static_cast<int16_t>(std::min(4096, out.grid + std::ilogb(factor)));
    return out;
}

bool is_big_enough_to_scale(const Value &a, double factor, const Type &type) {
    double size = std::abs(a.v * factor);
    return std::isfinite(size) && std::isfinite(a.terms_error) &&
           (a.v == 0 ? a.terms_error == 0 && a.magnitude == 0 : size > smallest_normal(type) * 2) &&
           a.magnitude * std::abs(factor) < largest_finite(type) / 2;
}

int64_t wrap(const Type &type, int64_t i) {
    if (type.bits() >= 64) {
        return i;
    }
    if (type.bits() == 1) {
        return i != 0;
    }
    uint64_t mask = (uint64_t(1) << type.bits()) - 1;
    uint64_t bits = static_cast<uint64_t>(i) & mask;
    if (type.is_int() && (bits >> (type.bits() - 1))) {
        bits |= ~mask;
    }
    return static_cast<int64_t>(bits);
}

bool less(const Type &type, int64_t a, int64_t b) {
    return type.is_uint() ? static_cast<uint64_t>(a) < static_cast<uint64_t>(b) : a < b;
}

Value uncertain_int(const Type &type, int64_t i, double error) {
    Value out = int_value(type, i);
    out.terms_error = error;
    return out;
}

/// Quotient and remainder as Halide defines them: 0 <= remainder < |b|, and both 0 where b is 0.
int64_t euclidean_quotient(const Type &type, int64_t a, int64_t b) {
    if (b == 0) {
        return 0;
    }
    if (type.is_uint()) {
        return static_cast<int64_t>(static_cast<uint64_t>(a) / static_cast<uint64_t>(b));
    }
    if (b == -1) {
        return static_cast<int64_t>(-static_cast<uint64_t>(a));
    }
    int64_t q = a / b, r = a % b;
    return r < 0 ? (b > 0 ? q - 1 : q + 1) : q;
}

} // namespace

Value float_value(double v) {
    Value out;
    out.v = out.shadow[0] = out.shadow[1] = v;
    out.magnitude = std::abs(v);
    out.grid = lowest_bit(v);
    return out;
}

Value int_value(const Type &type, int64_t i) {
    Value out;
    out.i = wrap(type, i);
    return out;
}

double settled_error(const Value &a, const Type &type) {
    if (a.adds == 0 || std::isinf(a.terms_error) || !std::isfinite(a.v)) {
        return a.terms_error;
    }
    if (a.terms_error == 0 && a.magnitude <= std::ldexp(1.0, significant_bits(type) + a.grid)) {
        return 0;
    }
    return a.terms_error + sum_tolerance(type, a.adds, a.magnitude);
}

double full_error(const Value &a, const Type &type) {
    return settled_error(a, type) + 4 * shadow_spread(a);
}

Value settle(const Value &a, const Type &type) {
    if (a.adds == 0) {
        return a;
    }
    Value out = a;
    out.terms_error = settled_error(a, type);
    out.magnitude = std::abs(a.v);
    out.adds = 0;
    out.grid = lowest_bit(a.v);
    out.zero_sign_is_open = sign_is_open(a);
    return out;
}

Value add(const Value &a, const Value &b, const Type &type) {
    if (!type.is_float()) {
        Value out =
            int_value(type, static_cast<int64_t>(static_cast<uint64_t>(a.i) + static_cast<uint64_t>(b.i)));
        out.terms_error = a.terms_error + b.terms_error;
        return out;
    }
    double v = a.v + b.v;
    if (is_surely_nan(a) || is_surely_nan(b)) {
        return float_value(v);
    }
    if (!std::isfinite(v)) {
        return with_error(v, std::isinf(a.terms_error + b.terms_error) ? infinity : 0);
    }
    bool a_is_zero = a.v == 0 && a.terms_error == 0 && a.adds == 0 && a.magnitude == 0;
    bool b_is_zero = b.v == 0 && b.terms_error == 0 && b.adds == 0 && b.magnitude == 0;
    if (a_is_zero || b_is_zero) {
        Value out = a_is_zero ? b : a;
        out.is_written_zero = a.is_written_zero && b.is_written_zero;
        out.zero_sign_is_open = out.v == 0; // -0 + 0: compilers drop the addition
        return out;
    }
    if (a.adds > 0 && b.adds > 0 && int64_t(a.adds) + b.adds > most_joined) {
        return add(settle(a, type), settle(b, type), type);
    }
    Value out;
    out.v = v;
    out.shadow[0] = a.shadow[0] + b.shadow[0];
    out.shadow[1] = a.shadow[1] + b.shadow[1];
    out.terms_error = a.terms_error + b.terms_error;
    out.magnitude = a.magnitude + b.magnitude;
    out.adds = a.adds + b.adds + 1;
    out.grid = std::min(a.grid, b.grid);
    return limit(out, type);
}

Value subtract(const Value &a, const Value &b, const Type &type) {
    if (!type.is_float()) {
        Value out =
            int_value(type, static_cast<int64_t>(static_cast<uint64_t>(a.i) - static_cast<uint64_t>(b.i)));
        out.terms_error = a.terms_error + b.terms_error;
        return out;
    }
    Value negated = b;
    negated.v = -b.v;
    negated.shadow[0] = -b.shadow[0];
    negated.shadow[1] = -b.shadow[1];
    return add(a, negated, type);
}

Value multiply(const Value &a, const Value &b, const Type &type) {
    if (!type.is_float()) {
        Value out =
            int_value(type, static_cast<int64_t>(static_cast<uint64_t>(a.i) * static_cast<uint64_t>(b.i)));
        out.terms_error = a.terms_error + b.terms_error > 0
                              ? std::abs(static_cast<double>(a.i)) * b.terms_error +
                                    std::abs(static_cast<double>(b.i)) * a.terms_error +
                                    a.terms_error * b.terms_error
                              : 0;
        return out;
    }
    if (b.terms_error == 0 && is_power_of_two(b.v) && b.adds == 0 && is_big_enough_to_scale(a, b.v, type)) {
        return scaled(a, b.v);
    }
    if (a.terms_error == 0 && is_power_of_two(a.v) && a.adds == 0 && is_big_enough_to_scale(b, a.v, type)) {
        return scaled(b, a.v);
    }
    double ea = settled_error(a, type), eb = settled_error(b, type);
    double v = a.v * b.v;
    if (a.is_written_zero || b.is_written_zero) {
        return written_zero(v, v == 0 && std::isfinite(ea) && std::isfinite(eb));
    }
    if (is_surely_nan(a) || is_surely_nan(b)) {
        return float_value(v);
    }
    if (!std::isfinite(a.v) || !std::isfinite(b.v)) {
        // inf * (something that may be 0 or change its sign) may be anything.
        bool open = (std::isinf(a.v) && std::abs(b.v) <= eb && eb > 0) ||
                    (std::isinf(b.v) && std::abs(a.v) <= ea && ea > 0) || std::isinf(ea) || std::isinf(eb);
        return open ? unknown(v) : float_value(v);
    }
    if ((a.v == 0 && ea == 0) || (b.v == 0 && eb == 0)) {
        Value zero = std::isinf(ea) || std::isinf(eb) ? unknown(v) : float_value(v);
        zero.zero_sign_is_open = sign_is_open(a) || sign_is_open(b);
        return zero;
    }
    Value out = float_value(v);
    out.shadow[0] = a.shadow[0] * b.shadow[0];
    out.shadow[1] = a.shadow[1] * b.shadow[1];
    out.terms_error = std::abs(a.v) * eb + std::abs(b.v) * ea + ea * eb;
    bool is_exact = out.terms_error == 0 && std::fma(a.v, b.v, -v) == 0 && round_to(v, type) == v &&
                    std::abs(v) >= smallest_normal(type);
    if (!is_exact) {
        out.terms_error += storage_tolerance(type, v);
    }
    return limit(out, type);
}

Value divide(const Value &a, const Value &b, const Type &type) {
    if (!type.is_float()) {
        return uncertain_int(type, euclidean_quotient(type, a.i, b.i),
                             a.terms_error + b.terms_error > 0 ? a.terms_error + 1 : 0);
    }
    if (b.terms_error == 0 && is_power_of_two(b.v) && b.adds == 0 &&
        is_big_enough_to_scale(a, 1 / b.v, type)) {
        return scaled(a, 1 / b.v);
    }
    double ea = settled_error(a, type), eb = settled_error(b, type);
    double v = a.v / b.v;
    if (a.is_written_zero) {
        return written_zero(v, v == 0 && std::isfinite(eb) && !(eb > 0 && std::abs(b.v) <= eb));
    }
    if (is_surely_nan(a) || is_surely_nan(b)) {
        return float_value(v);
    }
    if (std::isinf(ea) || std::isinf(eb) || (eb > 0 && std::abs(b.v) <= eb)) {
        return unknown(v);
    }
    if (!std::isfinite(a.v) || !std::isfinite(b.v) || b.v == 0 || (a.v == 0 && ea == 0)) {
        Value out = b.v == 0 && ea > 0 && std::abs(a.v) <= ea ? unknown(v) : float_value(v);
        out.zero_sign_is_open = sign_is_open(a);
        return out;
    }
    Value out = float_value(v);
    out.shadow[0] = a.shadow[0] / b.shadow[0];
    out.shadow[1] = a.shadow[1] / b.shadow[1];
    out.terms_error = (ea + std::abs(v) * eb) / (std::abs(b.v) - eb);
    // GPUs divide to 2 ulp, and a compiler may multiply by a rounded reciprocal: even a quotient that has no
    // rounding is not safe from them.
    out.terms_error += 4 * unit_roundoff(type) * std::abs(v) + storage_tolerance(type, v);
    return limit(out, type);
}

Value modulo(const Value &a, const Value &b, const Type &type) {
    if (!type.is_float()) {
        int64_t q = euclidean_quotient(type, a.i, b.i);
        int64_t r = b.i == 0 ? 0
                             : static_cast<int64_t>(static_cast<uint64_t>(a.i) -
                                                    static_cast<uint64_t>(q) * static_cast<uint64_t>(b.i));
        return uncertain_int(type, r,
                             a.terms_error + b.terms_error > 0 ? std::abs(static_cast<double>(b.i)) : 0);
    }
    // Halide: a - b * floor(a / b).
    Value quotient = apply_function("floor", divide(a, b, type), type);
    return subtract(a, multiply(b, quotient, type), type);
}

Value maximum(const Value &a, const Value &b, const Type &type, bool folds_itself) {
    if (!type.is_float()) {
        const Value &w = less(type, a.i, b.i) ? b : a;
        return uncertain_int(type, w.i, std::max(a.terms_error, b.terms_error));
    }
    double ea = full_error(a, type), eb = full_error(b, type);
    if (is_surely_nan(a) || is_surely_nan(b)) {
        return folds_itself ? unknown(a.v + b.v) : float_value(a.v + b.v);
    }
    Value winner = a.v >= b.v ? a : b;
    winner.is_written_zero = false;
    if (a.v == b.v && ea == 0 && eb == 0) {
        Value out = winner;
        out.zero_sign_is_open =
            a.v == 0 && (std::signbit(a.v) != std::signbit(b.v) || sign_is_open(a) || sign_is_open(b));
        return out;
    }
    bool is_separate = std::abs(a.v - b.v) > ea + eb;
    if (is_separate && (ea == 0 || eb == 0)) {
        return winner;
    }
    double sa = settled_error(a, type), sb = settled_error(b, type);
    Value out = float_value(winner.v);
    out.shadow[0] = std::max(a.shadow[0], b.shadow[0]);
    out.shadow[1] = std::max(a.shadow[1], b.shadow[1]);
    double error = is_separate ? settled_error(winner, type) : std::max(sa, sb);
    if (sa == 0 || sb == 0 || std::isinf(error)) {
        out.terms_error = std::isnan(error) ? infinity : error;
        return out;
    }
    out.shadow[0] += random_sign() * error;
    out.shadow[1] += random_sign() * error;
    out.terms_error = tiny;
    return out;
}

namespace {
Value negate(Value a) {
    a.v = -a.v;
    a.shadow[0] = -a.shadow[0];
    a.shadow[1] = -a.shadow[1];
    return a;
}
} // namespace

Value minimum(const Value &a, const Value &b, const Type &type, bool folds_itself) {
    if (!type.is_float()) {
        const Value &w = less(type, b.i, a.i) ? b : a;
        return uncertain_int(type, w.i, std::max(a.terms_error, b.terms_error));
    }
    return negate(maximum(negate(a), negate(b), type, folds_itself));
}

Value compare(Compare op, const Value &a, const Value &b, const Type &type) {
    bool is_less, is_equal, is_open;
    if (type.is_float()) {
        double error = full_error(a, type) + full_error(b, type);
        is_less = a.v < b.v;
        is_equal = a.v == b.v;
        bool unordered = std::isnan(a.v) || std::isnan(b.v);
        is_open =
            (std::isinf(error) && !is_surely_nan(a) && !is_surely_nan(b)) ||
            (!unordered && error > 0 && !(std::abs(a.v - b.v) > error) && !(is_equal && std::isinf(a.v)));
        if (unordered) {
            Value out = int_value(Halide::Bool(), op == Compare::NE);
            out.terms_error = is_open ? 1 : 0;
            return out;
        }
    } else {
        is_less = less(type, a.i, b.i);
        is_equal = a.i == b.i;
        double error = a.terms_error + b.terms_error;
        is_open = error > 0 && !(std::abs(static_cast<double>(a.i) - static_cast<double>(b.i)) > error);
        if (is_open && a.carries_float && b.terms_error == 0 && type.bits() == 32 &&
            std::isfinite(a.magnitude)) {
            // Bits grow with the float on either side of 0: the ends of each side say what can happen.
            double spread = a.magnitude + 4 * shadow_spread(a);
            double low = a.v - spread, high = a.v + spread;
            is_open = false;
            for (double end :
                 {low, high, low <= 0 && high >= 0 ? 0.0 : low, low <= 0 && high >= 0 ? -0.0 : low}) {
                int64_t bits = reinterpret(float_value(end), Halide::Float(32), type).i;
                is_open = is_open || less(type, bits, b.i) != is_less || (bits == b.i) != is_equal;
            }
        }
    }
    bool result = false;
    switch (op) {
    case Compare::EQ:
        result = is_equal;
        break;
    case Compare::NE:
        result = !is_equal;
        break;
    case Compare::LT:
        result = is_less;
        break;
    case Compare::LE:
        result = is_less || is_equal;
        break;
    case Compare::GT:
        result = !is_less && !is_equal;
        break;
    case Compare::GE:
        result = !is_less;
        break;
    }
    Value out = int_value(Halide::Bool(), result);
    out.terms_error = is_open ? 1 : 0;
    return out;
}

Value select(const Value &condition, const Value &a, const Value &b, const Type &type) {
    const Value &chosen = condition.i ? a : b;
    if (condition.terms_error == 0) {
        return chosen;
    }
    const Value &other = condition.i ? b : a;
    if (!type.is_float()) {
        double d = std::abs(static_cast<double>(a.i) - static_cast<double>(b.i));
        return uncertain_int(type, chosen.i, d + std::max(a.terms_error, b.terms_error));
    }
    Value out = settle(chosen, type);
    out.is_written_zero = a.is_written_zero && b.is_written_zero;
    bool same = a.v == b.v || (std::isnan(a.v) && std::isnan(b.v));
    double d = same ? 0 : std::abs(a.v - b.v);
    out.terms_error =
        std::max(settled_error(chosen, type), full_error(other, type)) + (std::isnan(d) ? infinity : d);
    return out;
}

Value cast(const Value &a, const Type &from, const Type &to) {
    if (from.is_float() && to.is_float()) {
        Value out = settle(a, from);
        bool widens =
            significant_bits(to) >= significant_bits(from) && largest_finite(to) >= largest_finite(from);
        if (widens || !std::isfinite(out.v)) {
            return out;
        }
        if (full_error(out, from) == 0) {
            Value rounded = float_value(round_to(out.v, to));
            rounded.zero_sign_is_open = out.zero_sign_is_open;
            rounded.is_written_zero = out.is_written_zero;
            return rounded;
        }
        out.terms_error += storage_tolerance(to, out.v);
        return limit(out, to);
    }
    if (from.is_float()) {
        if (to.is_bool()) {
            return compare(Compare::NE, a, float_value(0), from);
        }
        double error = full_error(a, from);
        double low = std::trunc(a.v - error), high = std::trunc(a.v + error);
        // Beyond the range of the type the result is undefined.
        double top = std::ldexp(1.0, to.is_int() ? to.bits() - 1 : to.bits());
        double bottom = to.is_int() ? -top - 1 : -1;
        if (!(high < top && low > bottom)) {
            return uncertain_int(to, 0, infinity);
        }
        auto i = to.is_uint() && a.v >= 9.2e18 ? static_cast<int64_t>(static_cast<uint64_t>(a.v))
                                               : static_cast<int64_t>(a.v);
        return uncertain_int(to, i, high - low);
    }
    if (to.is_float()) {
        double exact =
            from.is_uint() ? static_cast<double>(static_cast<uint64_t>(a.i)) : static_cast<double>(a.i);
        Value out = float_value(round_to(exact, to));
        out.terms_error = a.terms_error;
        return out;
    }
    Value out = int_value(to, a.i);
    out.terms_error = to.is_bool()
                          ? (a.terms_error > 0 && std::abs(static_cast<double>(a.i)) <= a.terms_error)
                          : a.terms_error;
    return out;
}

} // namespace kiln
