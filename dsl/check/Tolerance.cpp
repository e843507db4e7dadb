#include "dsl/check/Tolerance.h"

#include <cmath>
#include <limits>
#include <string_view>

namespace kiln {

int significant_bits(const Halide::Type &type) {
    if (type.is_bfloat()) {
        return 8;
    }
    return type.bits() == 16 ? 11 : type.bits() == 32 ? 24 : 53;
}

double unit_roundoff(const Halide::Type &type) {
    return type.is_float() ? std::ldexp(1.0, -significant_bits(type)) : 0.0;
}

double underflow_error(const Halide::Type &type) {
    if (!type.is_float()) {
        return 0;
    }
    if (type.bits() == 16 && !type.is_bfloat()) {
        return std::ldexp(1.0, -25);
    }
    return type.bits() == 64 ? std::numeric_limits<double>::min() : std::numeric_limits<float>::min();
}

double largest_finite(const Halide::Type &type) {
    if (type.is_bfloat()) {
        return std::ldexp(255.0, 120);
    }
    return type.bits() == 16   ? 65504.0
           : type.bits() == 32 ? std::numeric_limits<float>::max()
                               : std::numeric_limits<double>::max();
}

double sum_tolerance(const Halide::Type &accumulate, int64_t terms, double sum_abs) {
    return static_cast<double>(terms + 2) * 2 * unit_roundoff(accumulate) * sum_abs;
}

double storage_tolerance(const Halide::Type &storage, double value) {
    double size = std::abs(value);
    double error = unit_roundoff(storage) * size;
    bool tiny = size < (storage.bits() == 16 && !storage.is_bfloat() ? std::ldexp(1.0, -14)
                                                                     : underflow_error(storage));
    return size > 0 && tiny ? error + underflow_error(storage) : error;
}

double tolerance(const Halide::Type &storage, const Halide::Type &accumulate, int64_t terms, double value,
                 double sum_abs) {
    return storage_tolerance(storage, value) + sum_tolerance(accumulate, terms, sum_abs);
}

double function_ulps(const char *function, double x) {
    std::string_view name(function);
    double size = std::isfinite(x) ? std::abs(x) : 0;
    if (name == "exp") {
        return 8 + 4 * size;
    }
    if (name == "pow") { // the exponent's part is added by the caller
        return 32;
    }
    if (name == "sqrt") {
        return 6;
    }
    if (name == "fast_inverse" || name == "fast_inverse_sqrt") {
        return 8192; // 12 bits with one Newton step less than full accuracy on some targets
    }
    if (name == "sin" || name == "cos" || name == "tan") {
        return 16 + 4 * size;
    }
    return 32; // log, tanh, erf and the rest of the library
}

} // namespace kiln
