#include "dsl/lower/LegalizeMath.h"

#include "dsl/lower/ErfPattern.h"

#include <cmath>
#include <limits>

namespace kiln {

using namespace Halide;
using namespace Halide::Internal;

namespace {

const float infinity = std::numeric_limits<float>::infinity();
const float quiet_nan = std::numeric_limits<float>::quiet_NaN();

Expr bits_of(const Expr &x) {
    return reinterpret<uint32_t>(x);
}
Expr from_bits(const Expr &b) {
    return reinterpret<float>(b);
}
Expr u32(uint32_t v) {
    return cast<uint32_t>(Expr(v));
}

Expr sign_bit(const Expr &x) {
    return bits_of(x) & u32(0x80000000);
}
Expr magnitude(const Expr &x) {
    return from_bits(bits_of(x) & u32(0x7fffffff));
}
/// `r`, which is not negative, with the sign of `x`: right for -0 too.
Expr with_sign(const Expr &r, const Expr &x) {
    return from_bits(bits_of(r) | sign_bit(x));
}

bool never_nan(const Expr &e) {
    if (const FloatImm *f = e.as<FloatImm>()) {
        return !std::isnan(f->value);
    }
    const Cast *c = e.as<Cast>();
    return c && !c->value.type().is_float();
}

Expr pure_call(const char *name, const std::vector<Expr> &args) {
    return Call::make(Float(32), name, args, Call::PureExtern);
}

/// e^x = 2^n e^r with n = floor(x log2 e) and r in [0, ln 2]: a NaN goes through r and the polynomial, and what is too
/// large through r > ln 2, since n stops at 127. Below -87.33 what comes is not e^x: see cpu_exp.
Expr exp_above_underflow(const Expr &x) {
    // n + 127, the exponent's bits, is not negative, so that a conversion rounds it down: one instruction on any vector,
    // where floor is several. A sum that rounds up to the next whole number puts r at most 6e-6 below 0.
    Expr biased = cast<int32_t>(min(x, 88.5f) * 1.44269504f + 127.0f);
    // One constant for ln 2: LLVM's flags would join a high and a low part. Its error of 2^-29 is multiplied by |n|.
    Expr r = x - cast<float>(biased - 127) * 0.69314718f;
    // Minimax for the relative error on [0, ln 2] under p(0) = 1: 1.4 units of 2^-24.
    Expr p = 0.0116703371f;
    for (float c : {0.039061226f, 0.1675556f, 0.499870718f, 1.00000596f, 1.0f}) {
        p = p * r + c;
    }
    return p * reinterpret<float>(biased << 23);
}

/// Halide's polynomial gives 0 for NaN, and a comparison of floats may go either way for one: whether x is from -inf to
/// the last number whose exponential is denormal is asked of the bits, by one addition and one signed comparison.
Expr cpu_exp(const Expr &x) {
    const uint32_t from = 0xc2aeac50, to = 0xff800000; // -87.336548 and -inf
    Expr place = reinterpret<int32_t>(bits_of(x) + u32(0x80000000 - from));
    Expr vanishes = place <= Expr(std::numeric_limits<int32_t>::min() + int32_t(to - from));
    return select(vanishes, 0.0f, exp_above_underflow(x));
}

Expr cpu_log(const Expr &x) {
    // Denormals are brought into the range of the polynomial: log x = log(2^23 x) - 23 log 2.
    Expr small = x < 1.17549435e-38f;
    Expr scaled = select(small, x * 8388608.0f, x);
    Expr r = pure_call("log_f32", {scaled}) - select(small, 15.9423851528787f, 0.0f);
    r = select(x == 0.0f, -infinity, r);
    r = select(x < 0.0f, quiet_nan, r);
    // +inf and every NaN with a positive sign are the bit patterns from 0x7f800000 up.
    return select((bits_of(x) & u32(0x7fffffff)) > u32(0x7f7fffff),
                  select(bits_of(x) > u32(0x80000000), quiet_nan, x), r);
}

/// Through exp, which vectorizes; below 0.625 the polynomial of Cephes (S. Moshier, tanhf.c), since 1 -
/// 2/(e^2x + 1) cancels there.
Expr cpu_tanh(const Expr &x) {
    Expr a = magnitude(x);
    Expr z = a * a;
    Expr p = -5.70498872745e-3f;
    for (float c : {2.06390887954e-2f, -5.37397155531e-2f, 1.33314422036e-1f, -3.33332819422e-1f}) {
        p = p * z + c;
    }
    Expr low = p * z * a + a;
    // From 9.01 on tanh rounds to 1.
    Expr high = 1.0f - 2.0f / (exp_above_underflow(2.0f * select(a > 10.0f, 10.0f, a)) + 1.0f);
    return select(is_nan_bits(x), x, with_sign(select(a < 0.625f, low, high), x));
}

/// Halide::erf loses ±inf, large arguments and -0; from 4 on erf rounds to 1.
Expr any_erf(const Expr &x) {
    Expr a = magnitude(x);
    Expr r = Halide::erf(select(a > 4.0f, 4.0f, a));
    return select(is_nan_bits(x), x, with_sign(magnitude(r), x));
}

/// IEEE 754-2019 9.2.1, pow.
Expr cpu_pow(const Expr &x, const Expr &y) {
    Expr a = magnitude(x);
    Expr whole = floor(y) == y;
    Expr odd = whole && floor(y * 0.5f) != y * 0.5f;
    Expr one = (y == 0.0f) || (x == 1.0f) || (a == 1.0f && magnitude(y) > 3.4e38f && !is_nan_bits(y));
    Expr m = cpu_exp(y * cpu_log(a));
    Expr r = select(odd, from_bits(bits_of(m) ^ sign_bit(x)), m);
    r = select(x < 0.0f && !whole && bits_of(a) < u32(0x7f800000), quiet_nan, r);
    r = select(is_nan_bits(x), x, select(is_nan_bits(y), y, r));
    return select(one && !(is_nan_bits(y) && x != 1.0f), select(is_nan_bits(x) && y != 0.0f, x, 1.0f), r);
}

/// x^n by squaring: exact signs, zeros and infinities, and no error of log and exp.
Expr whole_power(const Expr &x, int n) {
    Expr result, square = x;
    for (int e = std::abs(n); e; e >>= 1) {
        if (e & 1) {
            result = result.defined() ? result * square : square;
        }
        square = square * square;
    }
    return n < 0 ? 1.0f / result : result;
}

class CallsFunction : public IRGraphVisitor {
public:
    explicit CallsFunction(const std::string &name) : name_(name) {}
    bool found = false;
    using IRGraphVisitor::visit;
    void visit(const Call *op) override {
        found = found || (op->call_type == Call::Halide && op->name == name_);
        IRGraphVisitor::visit(op);
    }

private:
    const std::string &name_;
};

class LegalizeMath : public IRGraphMutator {
public:
    LegalizeMath(const Function &in_update_of, const Halide::Target &target)
        : in_update_of_(in_update_of), cpu_(!target.has_gpu_feature()) {}

protected:
    using IRGraphMutator::visit;

    Expr visit(const Call *op) override {
        Expr e = IRGraphMutator::visit(op);
        const Call *c = e.as<Call>();
        if (!c || !c->is_extern() || c->type != Float(32)) {
            return e;
        }
        if (c->name == "pow_f32") {
            std::optional<double> n = as_const_float(c->args[1]);
            if (n && *n == std::floor(*n) && std::abs(*n) <= 16 && *n != 0) {
                return whole_power(c->args[0], int(*n));
            }
            return cpu_ ? cpu_pow(c->args[0], c->args[1]) : e;
        }
        if (!cpu_) {
            return e; // libdevice and OpenCL's built-ins keep IEEE's special values
        }
        if (c->name == "exp_f32") {
            return cpu_exp(c->args[0]);
        }
        if (c->name == "log_f32") {
            return cpu_log(c->args[0]);
        }
        if (c->name == "tanh_f32") {
            return cpu_tanh(c->args[0]);
        }
        return e;
    }

    Expr visit(const Mul *op) override {
        if (Expr x = erf_argument(op); x.defined()) {
            return any_erf(mutate(x));
        }
        return IRGraphMutator::visit(op);
    }

    Expr visit(const Sub *op) override {
        Expr e = IRGraphMutator::visit(op);
        const Sub *s = e.as<Sub>();
        // Halide writes -x as 0 - x, which makes +0 of +0.
        if (s && s->type == Float(32) && is_const_zero(s->a)) {
            return s->b * -1.0f;
        }
        return e;
    }

    Expr visit(const Max *op) override { return extremum(IRGraphMutator::visit(op), op); }
    Expr visit(const Min *op) override { return extremum(IRGraphMutator::visit(op), op); }

private:
    template<typename T>
    Expr extremum(const Expr &e, const T *op) {
        const T *m = e.as<T>();
        if (!m || m->type != Float(32) || folds_itself(op)) {
            return e;
        }
        Expr r = e;
        for (const Expr &operand : {m->b, m->a}) {
            if (!never_nan(operand)) {
                r = select(is_nan_bits(operand), operand, r);
            }
        }
        return r;
    }

    bool folds_itself(const Expr &e) {
        if (!in_update_of_.get_contents().defined()) {
            return false;
        }
        CallsFunction calls(in_update_of_.name());
        e.accept(&calls);
        return calls.found;
    }

    Function in_update_of_;
    bool cpu_;
};

} // namespace

Expr is_nan_bits(const Expr &x) {
    return (bits_of(x) & u32(0x7fffffff)) > u32(0x7f800000);
}

Expr legalize_math(const Expr &e, const Function &in_update_of, const Halide::Target &target) {
    LegalizeMath mutator(in_update_of, target);
    // Lets come from Halide's own elimination of common subexpressions, which runs again when the Func is
    // defined.
    return mutator.mutate(substitute_in_all_lets(e));
}

} // namespace kiln
