#include "dsl/ops/Numeric.h"

#include <limits>

namespace kiln::ops {

using namespace Halide;

namespace {
Expr u32(uint32_t v) {
    return cast<uint32_t>(Expr(v));
}
} // namespace

Expr f32(const Expr &x) {
    return x.type() == Float(32) ? x : cast<float>(x);
}

Expr to_type(const Type &type, const Expr &value) {
    return value.type() == type ? value : cast(type, value);
}

Expr minus_inf() {
    return Expr(-std::numeric_limits<float>::infinity());
}

Expr is_minus_inf(const Expr &x) {
    // LLVM recognizes a comparison that separates -inf from the finite numbers, in any spelling, and takes it for
    // false, since its flags say that no value is infinite. It cannot where some finite numbers are on -inf's side.
    return reinterpret<uint32_t>(x) > u32(0xff7ffff0);
}

Expr is_zero(const Expr &x) {
    return (reinterpret<uint32_t>(x) & u32(0x7fffffff)) == u32(0);
}

Expr safe(const Expr &m) {
    return select(is_minus_inf(m), 0.0f, m);
}

Expr masked(const Expr &allowed, const Expr &value) {
    Expr keep = select(allowed, u32(0xffffffff), u32(0));
    return reinterpret<float>((reinterpret<uint32_t>(value) & keep) | (u32(0xff800000) & ~keep));
}

std::string shown_name(const Func &f) {
    std::string name = f.name();
    size_t suffix = name.rfind('$');
    if (suffix != std::string::npos &&
        name.find_first_not_of("0123456789", suffix + 1) == std::string::npos) {
        name.resize(suffix);
    }
    if (name.size() > 3 && name.compare(name.size() - 3, 3, "_im") == 0) {
        name.resize(name.size() - 3);
    }
    return name;
}

Expr inverse_sqrt(const Expr &x) {
    return 1.0f / sqrt(x);
}

} // namespace kiln::ops
