#include "dsl/lower/LegalizeStorage.h"

#include "dsl/lower/Legalize.h"

namespace kiln {

using namespace Halide;
using namespace Halide::Internal;

namespace {

bool is_16_bit_float(const Type &t) {
    return t.is_float() && t.bits() == 16;
}

Expr u32(uint32_t v) {
    return cast<uint32_t>(Expr(v));
}

// Of as many lanes as their argument: the conversions also serve code that is vectorized already.
Expr as_bits(const Expr &f) {
    return reinterpret(UInt(32, f.type().lanes()), f);
}
Expr as_float(const Expr &b) {
    return reinterpret(Float(32, b.type().lanes()), b);
}
Expr converted(const Type &element, const Expr &e) {
    return cast(element.with_lanes(e.type().lanes()), e);
}

/// Rounds away the low `shift` bits of an unsigned magnitude: nearest, ties to even.
Expr round_shift(const Expr &magnitude, int shift) {
    Expr odd = (magnitude >> shift) & u32(1);
    return (magnitude + u32((1u << (shift - 1)) - 1) + odd) >> shift;
}

Expr bfloat16_bits(const Expr &value) {
    Expr b = as_bits(value);
    // Rounding would carry the all-ones NaN into -0: NaNs keep their upper bits and become quiet.
    Expr is_nan = (b & u32(0x7fffffff)) > u32(0x7f800000);
    return converted(UInt(16), select(is_nan, (b >> 16) | u32(0x40), round_shift(b, 16)));
}

Expr float16_bits(const Expr &value) {
    Expr b = as_bits(value);
    Expr sign = (b >> 16) & u32(0x8000);
    Expr a = b & u32(0x7fffffff);
    // The exponent's bias falls by 112. A carry out of the mantissa moves into the exponent, up to infinity
    // at 65520.
    Expr normal = round_shift(a - u32(112u << 23), 13);
    // Below 2^-14 a result counts units of 2^-24, which is the last place of 0.5f: the addition rounds.
    Expr tiny = as_bits(as_float(a) + 0.5f) - u32(0x3f000000);
    Expr nan = u32(0x7e00) | ((a >> 13) & u32(0x3ff));
    Expr r = select(a < u32(0x38800000), tiny, normal);
    r = select(a >= u32(0x47800000), make_const(a.type(), 0x7c00), r);
    r = select(a > u32(0x7f800000), nan, r);
    return converted(UInt(16), r | sign);
}

Expr float16_value(const Expr &bits) {
    Expr h = converted(UInt(32), bits);
    Expr sign = (h & u32(0x8000)) << 16;
    Expr a = h & u32(0x7fff);
    Expr normal = (a << 13) + u32(112u << 23);
    Expr special = (a << 13) + u32(224u << 23);
    // Through an integer conversion and not a product of denormals, which devices may flush.
    Expr tiny = as_bits(converted(Float(32), converted(Int(32), a)) * (1.0f / 16777216.0f));
    Expr r = select(a < u32(0x400), tiny, select(a >= u32(0x7c00), special, normal));
    return as_float(r | sign);
}

} // namespace

Expr float_from_bits(const Expr &bits, const Type &type) {
    return type.is_bfloat() ? as_float(converted(UInt(32), bits) << 16) : float16_value(bits);
}

Expr bits_from_float(const Expr &value, const Type &type) {
    return type.is_bfloat() ? bfloat16_bits(value) : float16_bits(value);
}

Expr float_from_bits_native(const Expr &bits, const Type &type) {
    return cast<float>(reinterpret(type, bits));
}

Expr bits_from_float_native(const Expr &value, const Type &type) {
    return reinterpret<uint16_t>(cast(type, value));
}

bool stores_natively(const Type &type, const Halide::Target &target) {
    if (!is_16_bit_float(type)) {
        return true;
    }
    if (target.has_gpu_feature()) {
        return false;
    }
    if (type.is_bfloat()) {
        return target.has_feature(Halide::Target::AVX512_Zen4) ||
               target.has_feature(Halide::Target::AVX512_SapphireRapids);
    }
    return target.has_feature(Halide::Target::F16C);
}

LegalizeStorage::LegalizeStorage(const Halide::Target &target, bool storage, Finish finish)
    : target_(target), storage_(storage), finish_(std::move(finish)) {}

bool LegalizeStorage::replaced(const Type &type) {
    return storage_ && !stores_natively(type.element_of(), target_);
}

Type LegalizeStorage::stored(const Type &type) {
    return replaced(type) ? type.with_code(halide_type_uint) : type;
}

Expr LegalizeStorage::load(const Expr &element, const Type &type) {
    bool native = type == Float(16) && target_.has_feature(Halide::Target::CUDA);
    Expr value = native ? float_from_bits_native(element, type) : float_from_bits(element, type);
    bits_of_[value.get()] = {value, element};
    return value;
}

Expr LegalizeStorage::store(const Expr &value, const Type &type) {
    if (auto it = bits_of_.find(value.get()); it != bits_of_.end()) {
        return it->second.bits;
    }
    bool native = type == Float(16) && target_.has_feature(Halide::Target::CUDA);
    return native ? bits_from_float_native(value, type) : bits_from_float(value, type);
}

Expr LegalizeStorage::rounded(const Expr &value, const Type &type) {
    if (bits_of_.count(value.get())) {
        return value;
    }
    return load(store(value, type), type);
}

Expr LegalizeStorage::finish(const Expr &e, const Function &in_update_of) {
    return finish_ ? finish_(e, in_update_of) : e;
}

Expr LegalizeStorage::mutate(const Expr &e) {
    Expr r = GraphRebuild::mutate(e);
    if (!e.defined() || !replaced(e.type())) {
        return r;
    }
    switch (e.node_type()) {
    case IRNodeType::Add:
    case IRNodeType::Sub:
    case IRNodeType::Mul:
    case IRNodeType::Div:
    case IRNodeType::Mod:
        return rounded(r, e.type());
    default:
        return r; // exact (min, max, select, ...) or rounded where it is visited
    }
}

Expr LegalizeStorage::visit(const FloatImm *op) {
    return replaced(op->type) ? FloatImm::make(Float(32), op->value) : Expr(op);
}

Expr LegalizeStorage::visit(const Cast *op) {
    bool from = replaced(op->value.type()), to = replaced(op->type);
    if (!from && !to) {
        return GraphRebuild::visit(op);
    }
    Expr value = mutate(op->value);
    if (from && to && op->value.type() == op->type) {
        return value;
    }
    Expr as_f32 = value.type() == Float(32) ? value : cast<float>(value);
    if (to) {
        return rounded(as_f32, op->type);
    }
    return op->type == Float(32) ? as_f32 : cast(op->type, as_f32);
}

Expr LegalizeStorage::visit(const Reinterpret *op) {
    bool from = replaced(op->value.type()), to = replaced(op->type);
    Expr value = mutate(op->value);
    if (from) {
        value = store(value, op->value.type());
    }
    if (to) {
        return load(reinterpret<uint16_t>(value), op->type);
    }
    return value.type() == op->type ? value : reinterpret(op->type, value);
}

Expr LegalizeStorage::visit(const Variable *op) {
    if (replaced(op->type) && !op->param.defined()) {
        return Variable::make(Float(32), op->name); // bound by a Let
    }
    return GraphRebuild::visit(op);
}

Expr LegalizeStorage::visit(const Call *op) {
    if (op->call_type == Call::Halide || op->call_type == Call::Image || !replaced(op->type)) {
        return GraphRebuild::visit(op);
    }
    std::vector<Expr> args;
    for (const Expr &a : op->args) {
        args.push_back(mutate(a));
    }
    std::string name = op->name;
    if (size_t n = name.size(); op->is_extern() && n > 4 && name.compare(n - 4, 4, "_f16") == 0) {
        name.replace(n - 4, 4, "_f32");
    }
    return rounded(Call::make(Float(32), name, args, op->call_type), op->type);
}

} // namespace kiln
