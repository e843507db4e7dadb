#include "dsl/tile/build/Builder.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln::tile {

using namespace Halide::Internal;

namespace {

bool is_half(Halide::Type t) {
    return t.is_float() && t.bits() == 16;
}

bool is_byte(Halide::Type t) {
    return t.is_int_or_uint() && t.bits() == 8;
}

/// What is widened to give `e`: 16-bit floats to float32, 8-bit integers to any wider type; otherwise `e`.
Expr before_widening(const Expr &e) {
    const Cast *c = e.as<Cast>();
    if (!c) {
        return e;
    }
    const Halide::Type from = c->value.type();
    return (is_half(from) && c->type == Halide::Float(32)) || is_byte(from) ? c->value : e;
}

Expr product_of(const std::vector<Expr> &factors) {
    Expr p;
    for (const Expr &f : factors) {
        p = p.defined() ? p * f : f;
    }
    return p;
}

const char *kind_name(MmaKind kind) {
    return kind == MmaKind::Wgmma ? "wgmma" : kind == MmaKind::MmaSync ? "mma_sync" : "fma";
}

} // namespace

/// A term as a product over one axis.
struct ProductForm {
    std::vector<Expr> outside; ///< factors that do not vary along the axis
    Expr a, b;                 ///< the operands, not widened
    MmaKind natural = MmaKind::Wgmma;
};

namespace {

/// The two operands as types that one instruction takes: both 16-bit floats of one type, or both 8-bit integers;
/// otherwise both as they are multiplied.
void settle_types(const Expr &x, const Expr &y, ProductForm &form) {
    form.a = before_widening(x);
    form.b = before_widening(y);
    const Halide::Type a = form.a.type(), b = form.b.type();
    form.natural = MmaKind::Wgmma;
    if (x.type() == Halide::Float(32)) {
        // An 8-bit integer is exact in every 16-bit float.
        if (is_half(a) && is_byte(b)) {
            form.b = cast(a, form.b);
            return;
        }
        if (is_byte(a) && is_half(b)) {
            form.a = cast(b, form.a);
            return;
        }
    }
    const bool same_half = is_half(a) && a == b;
    const bool bytes = is_byte(a) && is_byte(b) && x.type() == Halide::Int(32);
    if (!same_half && !bytes) {
        form.a = x;
        form.b = y;
        form.natural = MmaKind::Fma;
    }
}

std::optional<ProductForm> match_product(const AxisTable &axes, const std::string &axis, const Expr &term,
                                         std::string &why, std::string &help) {
    ProductForm form;
    std::vector<Expr> varying;
    for (const Expr &f : factors_of(term)) {
        const std::vector<std::string> on = axes.axes_of(f);
        const bool varies = std::find(on.begin(), on.end(), axes.find(axis)) != on.end();
        (varies ? varying : form.outside).push_back(f);
    }
    if (varying.size() != 2) {
        why = fmt::format("{} of its factors vary along `{}`, and a product has two", varying.size(), axis);
        help = varying.size() > 2
                   ? "join factors into one operand and round it: `f32(bf16(a(k, m) * s(k))) * f32(b(k, n))`"
                   : "";
        return std::nullopt;
    }
    std::set<std::string> seen;
    for (const Expr &f : varying) {
        int others = 0;
        for (const std::string &a : axes.axes_of(f)) {
            if (a == axes.find(axis)) {
                continue;
            }
            others++;
            if (!seen.insert(a).second) {
                why = fmt::format("both factors vary along `{}`, which is no axis of the sum", a);
                return std::nullopt;
            }
        }
        if (others != 1) {
            why = fmt::format("a factor varies along {} axes beside `{}`, and an operand has one", others,
                              axis);
            return std::nullopt;
        }
    }
    settle_types(varying[0], varying[1], form);
    return form;
}

} // namespace

std::string Builder::operand(const Expr &e, const std::string &base, const std::string &func) {
    if (const Variable *v = e.as<Variable>(); v && k_.tiles.count(v->name)) {
        return v->name;
    }
    const Call *c = e.as<Call>();
    if (c && c->name.compare(0, 5, "view:") == 0) {
        if (const std::string tile = copy_tile(c); !tile.empty()) {
            return tile;
        }
    }
    return map_tile(base, e, func);
}

Expr Builder::reduce_in_tile(const Update &u, ReduceOp op, const Expr &e) {
    const auto planned = plan_.products.find(u.func);
    const bool wanted = planned != plan_.products.end();
    const Span span = wanted ? planned->second.span : Span{};
    Expr v = value(e);
    const Expr identity = reduce_identity(op, v.type());
    auto guarded = [&](const Expr &x) {
        return u.predicate.defined() ? select(u.predicate, x, identity) : x;
    };

    std::string why, help;
    if (op != ReduceOp::Sum) {
        why = fmt::format("it is a {}", reduce_name(op));
    } else if (u.in_tile.size() != 1) {
        why = u.in_tile.empty() ? "its RVar is split by 1, so that no sum is left inside a tile"
                                : "two of its RVars run inside a tile";
    } else {
        const TileRVar &over = u.in_tile[0];
        const std::vector<std::string> in =
            u.predicate.defined() ? axes_.axes_of(u.predicate) : std::vector<std::string>{};
        std::vector<ProductForm> forms;
        const std::vector<Expr> terms = terms_of(v);
        if (std::find(in.begin(), in.end(), axes_.find(over.axis)) != in.end()) {
            why = fmt::format("its RDom has a condition on `{}`", over.axis);
            help = fmt::format("choose in an operand instead: `select(condition, a({0}, m), 0) * b({0}, n)`",
                               over.axis);
        } else {
            for (const Expr &t : terms) {
                if (auto form = match_product(axes_, over.axis, t, why, help)) {
                    forms.push_back(*form);
                }
            }
        }
        if (forms.size() == terms.size()) {
            Expr sum;
            for (const ProductForm &form : forms) {
                const Expr part = emit_product(u, over, form);
                sum = sum.defined() ? sum + part : part;
            }
            return guarded(sum);
        }
    }
    if (wanted) {
        refuse(
            "K1104",
            fmt::format("`{}` is to be a product ({}), but its update is none: {}", u.func,
                        kind_name(planned->second.kind), why),
            span,
            {help.empty()
                 ? fmt::format("leave out `mma` of `{}`, or write it as a sum of a(k, m) * b(k, n)", u.func)
                 : help});
    }
    v = guarded(v);
    for (const TileRVar &over : u.in_tile) {
        std::vector<std::string> left = axes_.axes_of(v);
        std::erase(left, axes_.find(over.axis));
        axes_.keep_apart([&] {
            std::vector<std::string> all = left;
            all.push_back(over.axis);
            return all;
        }());
        const std::string tile = new_tile(u.func, v.type(), left, u.func);
        Reduce r;
        r.dst = tile;
        r.op = op;
        r.axis = axes_.find(over.axis);
        r.value = v;
        r.limit = over.limit;
        put({r, u.func});
        v = k_.ref(tile);
    }
    return v;
}

Expr Builder::emit_product(const Update &u, const TileRVar &over, const ProductForm &form) {
    auto planned = plan_.products.find(u.func);
    if (planned == plan_.products.end()) {
        k_.plan.products[u.func].kind = form.natural;
    } else if (planned->second.kind != MmaKind::Fma && form.natural == MmaKind::Fma &&
               !(planned->second.tf32 && form.a.type() == Halide::Float(32) &&
                 form.b.type() == Halide::Float(32))) {
        refuse("K1105",
               fmt::format("`{}` is to be a product by {}, which multiplies 16-bit floats of one type or "
                           "8-bit integers; its operands "
                           "are {} and {}",
                           u.func, kind_name(planned->second.kind), type_name(before_widening(form.a).type()),
                           type_name(before_widening(form.b).type())),
               planned->second.span,
               {"round both operands: `f32(cast<bfloat16_t>(e))`, or to TF32: `mma(wgmma, tf32)`",
                fmt::format("multiply in float32: `{}.mma(fma)`", u.func)});
    }
    Expr x = form.a, y = form.b;
    auto has_rows = [&](const Expr &e) {
        const std::vector<std::string> on = axes_.axes_of(e);
        return !k_.row_axis.empty() && std::find(on.begin(), on.end(), axes_.find(k_.row_axis)) != on.end();
    };
    if (has_rows(y)) {
        std::swap(x, y);
    }
    Mma mma;
    mma.axis = axes_.find(over.axis);
    mma.limit = over.limit;
    mma.a = operand(x, u.func + "_a", u.func);
    mma.b = operand(y, u.func + "_b", u.func);
    std::set<std::string> out;
    for (const std::string &t : {mma.a, mma.b}) {
        for (const std::string &a : k_.tiles[t].axes) {
            if (axes_.find(a) != mma.axis) {
                out.insert(a);
            }
        }
    }
    const Halide::Type type = form.a.type().is_int_or_uint() ? Halide::Int(32) : Halide::Float(32);
    mma.dst = new_tile(u.func, type, axes_.in_order(out), u.func);
    put({mma, u.func});
    const Expr result = k_.ref(mma.dst);
    return form.outside.empty() ? result : product_of(form.outside) * result;
}

} // namespace kiln::tile
