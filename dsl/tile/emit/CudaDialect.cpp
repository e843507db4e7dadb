#include "dsl/tile/emit/CudaDialect.h"

#include "dsl/tile/emit/ExprC.h"

#include <fmt/format.h>

#include <map>

namespace kiln::tile {

using Halide::Type;

namespace {

std::string join(const std::vector<std::string> &args) {
    std::string s;
    for (const std::string &a : args) {
        s += (s.empty() ? "" : ", ") + a;
    }
    return s;
}

/// Halide's names of functions on f32 and what CUDA's own library calls them, where it is not the name with an f behind.
/// ptxas makes sqrt and reciprocals exact at several times the cost; docs/numerics.md asks for 2^-23 only.
const std::map<std::string, std::string> &renamed() {
    static const std::map<std::string, std::string> names = {
        {"exp2", "exp2_approx"},     {"exp2_f32", "exp2_approx"},
        {"sqrt_f32", "square_root"}, {"fast_inverse_f32", "reciprocal"},
        {"abs_f32", "fabsf"},        {"fast_inverse_sqrt_f32", "reciprocal_root"},
        {"round_f32", "rintf"},      {"is_nan_f32", "isnan"},
        {"is_inf_f32", "isinf"},     {"is_finite_f32", "isfinite"},
        {"abs_f64", "fabs"},         {"round_f64", "rint"},
        {"max_f64", "max_f64"},      {"min_f64", "min_f64"},
    };
    return names;
}

const std::set<std::string> &plain() {
    static const std::set<std::string> names = {"acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh",
                                                "ceil", "cos",   "cosh", "erf",   "exp",  "floor", "log",
                                                "pow",  "sin",   "sinh", "sqrt",  "tan",  "tanh",  "trunc"};
    return names;
}

const std::set<std::string> &wrapped() {
    static const std::set<std::string> names = {"exp2_approx", "square_root", "reciprocal",
                                                "reciprocal_root"};
    return names;
}

} // namespace

std::string CudaDialect::math(const std::string &name, const std::vector<std::string> &args) {
    if (auto r = renamed().find(name); r != renamed().end()) {
        if (wrapped().count(r->second)) {
            use(r->second);
        }
        return fmt::format("{}({})", r->second, join(args));
    }
    const size_t cut = name.rfind('_');
    if (cut == std::string::npos || !plain().count(name.substr(0, cut))) {
        return "";
    }
    const std::string suffix = name.substr(cut);
    if (suffix == "_f32") {
        return fmt::format("{}f({})", name.substr(0, cut), join(args));
    }
    return suffix == "_f64" ? fmt::format("{}({})", name.substr(0, cut), join(args)) : "";
}

std::string CudaDialect::widen(Type half, const std::string &bits) {
    return fmt::format("{}({})", use(half.is_bfloat() ? "bf16_to_f32" : "f16_to_f32"), bits);
}

std::string CudaDialect::narrow(Type half, const std::string &value) {
    return fmt::format("{}({})", use(half.is_bfloat() ? "f32_to_bf16" : "f32_to_f16"), value);
}

std::string CudaDialect::pack(Type half, const std::string &low, const std::string &high) {
    return fmt::format("{}({}, {})", use(half.is_bfloat() ? "pack_bf16" : "pack_f16"), low, high);
}

std::string CudaDialect::reinterpret(Type to, Type from, const std::string &value) {
    const bool to_float = to.is_float() && !is_half(to), from_float = from.is_float() && !is_half(from);
    if (to_float == from_float) {
        return to == from ? value : fmt::format("({}){}", type(to), value);
    }
    if (to.bits() == 64) {
        return to_float ? fmt::format("__longlong_as_double((i64){})", value)
                        : fmt::format("({})__double_as_longlong({})", type(to), value);
    }
    return to_float ? fmt::format("__uint_as_float({})", value)
                    : fmt::format("({})__float_as_uint({})", type(to), value);
}

std::string CudaDialect::divide(const std::string &a, const std::string &b) {
    return a == "1.0f" ? fmt::format("{}({})", use("reciprocal"), b)
                       : fmt::format("{}({}, {})", use("divide"), a, b);
}

std::string CudaDialect::fma(const std::string &a, const std::string &b, const std::string &c) {
    return fmt::format("fmaf({}, {}, {})", a, b, c);
}

std::string CudaDialect::maximum(const std::string &a, const std::string &b) {
    return fmt::format("{}({}, {})", use("max_nan"), a, b);
}

std::string CudaDialect::minimum(const std::string &a, const std::string &b) {
    return fmt::format("{}({}, {})", use("min_nan"), a, b);
}

namespace {

/// C types of one access and of one element.
struct Access {
    int words, per;
    const char *vector, *element;
    Access(int bits, int count)
        : words(bits * count / 32), per(32 / bits), vector(words == 4   ? "uint4"
                                                           : words == 2 ? "uint2"
                                                                        : "u32"),
          element(bits == 32   ? "u32"
                  : bits == 16 ? "u16"
                               : "unsigned char") {}
};

} // namespace

std::string CudaDialect::vector_load(int bits, int count) {
    const std::string name = fmt::format("load_{}x{}", bits, count);
    const Access a(bits, count);
    std::string whole, tail;
    for (int i = 0; i < a.words; i++) {
        whole +=
            fmt::format(" w[{}] = v{};", i, a.words == 1 ? std::string() : fmt::format(".{}", "xyzw"[i]));
        tail += fmt::format(" w[{}] = 0;", i);
    }
    add(name, fmt::format("DEV void {0}(u32 *w, const void *at, int inside) {{\n"
                          "    const {1} *p = (const {1} *)at;\n   {2}\n"
                          "    if (inside >= {3}) {{\n        const {4} v = *(const {4} *)at;\n       {5}\n"
                          "    }} else if (inside > 0) {{\n"
                          "#pragma unroll\n        for (int i = 0; i < {6}; i++)\n"
                          "            if (i < inside) w[i / {7}] |= (u32)p[i] << i % {7} * {8};\n    }}\n}}",
                          name, a.element, tail, count, a.vector, whole, count - 1, a.per, bits % 32));
    return name;
}

std::string CudaDialect::vector_store(int bits, int count) {
    const std::string name = fmt::format("store_{}x{}", bits, count);
    const Access a(bits, count);
    std::string all;
    for (int i = 0; i < a.words; i++) {
        all += fmt::format("{}w[{}]", i ? ", " : "", i);
    }
    add(name,
        fmt::format("DEV void {0}(void *at, const u32 *w, int inside) {{\n"
                    "    {1} *p = ({1} *)at;\n"
                    "    if (inside >= {2}) {{\n        *({3} *)at = {4};\n    }} else if (inside > 0) {{\n"
                    "#pragma unroll\n        for (int i = 0; i < {5}; i++)\n"
                    "            if (i < inside) p[i] = ({1})(w[i / {6}] >> i % {6} * {7});\n    }}\n}}",
                    name, a.element, count, a.vector,
                    a.words == 1 ? all : fmt::format("make_{}({})", a.vector, all), count - 1, a.per,
                    bits % 32));
    return name;
}

} // namespace kiln::tile
