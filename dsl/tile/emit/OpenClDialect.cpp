#include "dsl/tile/emit/OpenClDialect.h"

#include <fmt/format.h>

#include <map>
#include <stdexcept>

namespace kiln::tile {

using Halide::Type;

namespace {

const std::map<std::string, std::string> &helpers() {
    static const std::map<std::string, std::string> table = {
        {"whole_div", "DEV int whole_div(int a, int b) { if (b == 0) return 0; const int q = a / b, r = a - "
                      "q * b; return r < 0 ? "
                      "(b > 0 ? q - 1 : q + 1) : q; }"},
        {"whole_mod", "DEV int whole_mod(int a, int b) { if (b == 0) return 0; const int r = a % b; return r "
                      "< 0 ? (b > 0 ? r + "
                      "b : r - b) : r; }"},
        {"whole_div_l", "DEV i64 whole_div_l(i64 a, i64 b) { if (b == 0) return 0; const i64 q = a / b, r = "
                        "a - q * b; return r < "
                        "0 ? (b > 0 ? q - 1 : q + 1) : q; }"},
        {"whole_mod_l", "DEV i64 whole_mod_l(i64 a, i64 b) { if (b == 0) return 0; const i64 r = a % b; "
                        "return r < 0 ? (b > 0 ? r "
                        "+ b : r - b) : r; }"},
        {"whole_div_u", "#define whole_div_u(a, b) ((b) == 0 ? 0 : (a) / (b))"},
        {"whole_mod_u", "#define whole_mod_u(a, b) ((b) == 0 ? 0 : (a) % (b))"},
        {"divide_by", "DEV u32 divide_by(u32 a, u64 reciprocal) { return reciprocal == 0 ? a : "
                      "(u32)mul_hi((u64)a, reciprocal); }"},
        {"half_of", "DEV u32 half_of(u32 w, int high) { return high ? w >> 16 : w & 0xffff; }"},
        {"byte_of", "DEV u32 byte_of(u32 w, int i) { return w >> i * 8 & 0xff; }"},
        {"bf16_to_f32", "DEV float bf16_to_f32(u32 bits) { return as_float(bits << 16); }"},
        {"f32_to_bf16", "DEV u16 f32_to_bf16(float x) { const u32 b = as_uint(x); return (b & 0x7fffffff) > "
                        "0x7f800000 ? (u16)(b "
                        ">> 16 | 0x40) : (u16)((b + 0x7fff + (b >> 16 & 1)) >> 16); }"},
        {"f16_to_f32", "DEV float f16_to_f32(u32 bits) { const u16 h = (u16)bits; return vload_half(0, "
                       "(const half *)&h); }"},
        {"f32_to_f16", "DEV u16 f32_to_f16(float x) { u16 h; vstore_half_rte(x, 0, (half *)&h); return h; }"},
        {"one_plus_tanh", "DEV float one_plus_tanh(float x) { return 2.0f / (1.0f + exp(-2.0f * x)); }"},
        // By bits: a compiler may take it that there is no NaN.
        {"max_nan", "DEV float max_nan(float a, float b) { return (as_uint(a) & 0x7fffffff) > 0x7f800000 ? a "
                    ": (as_uint(b) & "
                    "0x7fffffff) > 0x7f800000 ? b : fmax(a, b); }"},
        {"min_nan", "DEV float min_nan(float a, float b) { return (as_uint(a) & 0x7fffffff) > 0x7f800000 ? a "
                    ": (as_uint(b) & "
                    "0x7fffffff) > 0x7f800000 ? b : fmin(a, b); }"},
        {"max_f64",
         "DEV double max_f64(double a, double b) { return isnan(a) ? a : isnan(b) ? b : fmax(a, b); }"},
        {"min_f64",
         "DEV double min_f64(double a, double b) { return isnan(a) ? a : isnan(b) ? b : fmin(a, b); }"},
    };
    return table;
}

std::string join(const std::vector<std::string> &args) {
    std::string s;
    for (const std::string &a : args) {
        s += (s.empty() ? "" : ", ") + a;
    }
    return s;
}

/// Halide's names without their type, where OpenCL has another.
const std::map<std::string, std::string> &renamed() {
    static const std::map<std::string, std::string> names = {{"abs", "fabs"},
                                                             {"round", "rint"},
                                                             {"is_nan", "isnan"},
                                                             {"is_inf", "isinf"},
                                                             {"is_finite", "isfinite"},
                                                             {"fast_inverse", "1.0f / "},
                                                             {"fast_inverse_sqrt", "rsqrt"}};
    return names;
}

const std::set<std::string> &plain() {
    static const std::set<std::string> names = {
        "acos", "acosh", "asin",  "asinh", "atan", "atan2", "atanh", "ceil", "cos", "cosh", "erf",
        "exp",  "exp2",  "floor", "log",   "pow",  "sin",   "sinh",  "sqrt", "tan", "tanh", "trunc"};
    return names;
}

const char *element_type(int bits) {
    return bits == 32 ? "u32" : bits == 16 ? "u16" : "uchar";
}

const char *vector_type(int words) {
    return words == 4 ? "uint4" : words == 2 ? "uint2" : "u32";
}

} // namespace

std::string OpenClDialect::type(Type t) const {
    return t.is_int() && t.bits() == 8 ? "char" : t.is_uint() && t.bits() == 8 ? "uchar" : Dialect::type(t);
}

void OpenClDialect::add(const std::string &name, const std::string &text) {
    if (used_.insert(name).second) {
        text_ += text + "\n";
    }
}

const std::string &OpenClDialect::use(const std::string &name) {
    auto h = helpers().find(name);
    if (h == helpers().end()) {
        throw std::logic_error("no helper " + name);
    }
    add(name, h->second);
    return h->first;
}

std::string OpenClDialect::prelude() const {
    return "typedef uint u32;\ntypedef ulong u64;\ntypedef ushort u16;\ntypedef long i64;\n#define SHARED "
           "__local\n"
           "#define DEV static inline\n" +
           text_;
}

std::string OpenClDialect::math(const std::string &name, const std::vector<std::string> &args) {
    std::string stem = name;
    for (const char *suffix : {"_f32", "_f64"}) {
        if (stem.ends_with(suffix)) {
            stem.resize(stem.size() - 4);
        }
    }
    if (auto r = renamed().find(stem); r != renamed().end()) {
        return r->second.ends_with(" ") ? "(" + r->second + join(args) + ")"
                                        : r->second + "(" + join(args) + ")";
    }
    return plain().count(stem) ? fmt::format("{}({})", stem, join(args)) : "";
}

std::string OpenClDialect::widen(Type half, const std::string &bits) {
    return fmt::format("{}({})", use(half.is_bfloat() ? "bf16_to_f32" : "f16_to_f32"), bits);
}

std::string OpenClDialect::narrow(Type half, const std::string &value) {
    return fmt::format("{}({})", use(half.is_bfloat() ? "f32_to_bf16" : "f32_to_f16"), value);
}

std::string OpenClDialect::pack(Type half, const std::string &low, const std::string &high) {
    return fmt::format("{} | (u32){} << 16", narrow(half, low), narrow(half, high));
}

std::string OpenClDialect::reinterpret(Type to, Type from, const std::string &value) {
    if (is_half(to) || is_half(from)) {
        return to == from ? value : fmt::format("({}){}", type(to), value);
    }
    std::string name = type(to);
    name = name == "u32"   ? "uint"
           : name == "u64" ? "ulong"
           : name == "i64" ? "long"
           : name == "u16" ? "ushort"
                           : name;
    return fmt::format("as_{}({})", name, value);
}

std::string OpenClDialect::divide(const std::string &a, const std::string &b) {
    return fmt::format("({} / {})", a, b);
}

std::string OpenClDialect::fma(const std::string &a, const std::string &b, const std::string &c) {
    return fmt::format("fma({}, {}, {})", a, b, c);
}

std::string OpenClDialect::maximum(const std::string &a, const std::string &b) {
    return fmt::format("{}({}, {})", use("max_nan"), a, b);
}

std::string OpenClDialect::minimum(const std::string &a, const std::string &b) {
    return fmt::format("{}({}, {})", use("min_nan"), a, b);
}

std::string OpenClDialect::vector_load(int bits, int count) {
    const std::string name = fmt::format("load_{}x{}", bits, count);
    const int words = bits * count / 32, per = 32 / bits;
    std::string whole, none;
    for (int i = 0; i < words; i++) {
        whole += fmt::format(" w[{}] = v{};", i, words == 1 ? std::string() : fmt::format(".{}", "xyzw"[i]));
        none += fmt::format(" w[{}] = 0;", i);
    }
    add(name, fmt::format("DEV void {0}(u32 *w, const __global void *at, int inside) {{\n"
                          "    const __global {1} *p = (const __global {1} *)at;\n   {2}\n"
                          "    if (inside >= {3}) {{\n        const {4} v = *(const __global {4} *)at;\n     "
                          "  {5}\n    }} else {{\n"
                          "        for (int i = 0; i < {3}; i++)\n"
                          "            if (i < inside) w[i / {6}] |= (u32)p[i] << i % {6} * {7};\n    }}\n}}",
                          name, element_type(bits), none, count, vector_type(words), whole, per, bits % 32));
    return name;
}

std::string OpenClDialect::vector_store(int bits, int count) {
    const std::string name = fmt::format("store_{}x{}", bits, count);
    const int words = bits * count / 32, per = 32 / bits;
    std::string all;
    for (int i = 0; i < words; i++) {
        all += fmt::format("{}w[{}]", i ? ", " : "", i);
    }
    add(name,
        fmt::format("DEV void {0}(__global void *at, const u32 *w, int inside) {{\n"
                    "    __global {1} *p = (__global {1} *)at;\n"
                    "    if (inside >= {2}) {{\n        *(__global {3} *)at = {4};\n    }} else {{\n"
                    "        for (int i = 0; i < {2}; i++)\n"
                    "            if (i < inside) p[i] = ({1})(w[i / {5}] >> i % {5} * {6});\n    }}\n}}",
                    name, element_type(bits), count, vector_type(words),
                    words == 1 ? all : fmt::format("({})({})", vector_type(words), all), per, bits % 32));
    return name;
}

} // namespace kiln::tile
