// Products by multiply and add: every thread sums its own elements, reading both operands from shared memory.
#include "dsl/tile/emit/ElementC.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln::tile {

using namespace Halide::Internal;

namespace {

constexpr int widest = 16; ///< bytes of one access
/// Multiply-adds that stand behind one another, so that ptxas puts the loads of one step under those of another. Loads of
/// single elements have an address each, in registers.
constexpr int sums_unrolled = 2048, sums_unrolled_of_single = 1024;

} // namespace

/// Where an element lies: the swizzle is computed for what only the thread knows, digits whose steps leave its pattern in
/// place are plain offsets.
std::string Printer::shared_element(const Tile &t, const Digits &d, const std::string &fixed_axis,
                                    const std::string &fixed) {
    const SharedLayout &l = t.shared;
    const int pattern = l.swizzle <= 16 ? 1 : 128 * (l.swizzle / 16); // bytes after which the swizzle repeats
    Digits rest = d;
    std::string offsets;
    for (size_t i = 0; i < d.names.size(); i++) {
        const LayoutPart &p = d.layout.registers[i];
        int bytes = -1;
        if (p.axis == l.outer && p.axis != fixed_axis) {
            bytes = p.stride * l.pitch;
        } else if (p.axis == l.inner && p.axis != fixed_axis && p.stride % l.slab == 0) {
            bytes = p.stride / l.slab * l.outer_extent * l.pitch;
        }
        if (bytes >= 0 && bytes % pattern == 0 && !d.names[i].empty()) {
            offsets += fmt::format(" + {} * {}", d.names[i], bytes);
            rest.names[i] = "";
        }
    }
    auto at = [&](const std::string &axis) {
        return axis.empty() ? std::string("0") : axis == fixed_axis ? fixed : coordinate(axis, &rest);
    };
    return fmt::format("smem + {} + {}{}", shared_base(t), shared_at(t.name, l, at(l.inner), at(l.outer)),
                       offsets);
}

/// The operand's elements of `steps` steps of the reduction from `k` on, in `values[element][step]`.
void Printer::load_operand(const Tile &t, const Digits &own, const std::vector<int> &number,
                           const std::string &values, const std::string &axis, const std::string &k,
                           int steps, Halide::Type type) {
    const SharedLayout &l = t.shared;
    ElementC c(*this, &own);
    open_digits(own);
    const std::string to = fmt::format("{}[{}]", values, own.sum(number));
    if (l.inner == axis && steps > 1) {
        const int bytes = steps * l.element_bytes, n = std::max(1, bytes / 4);
        const std::string vector = n == 4 ? "uint4" : n == 2 ? "uint2" : "u32", v = fresh("v");
        line(fmt::format("const {} {} = *{}({});", vector, v, dialect_.shared_pointer("const " + vector),
                         shared_element(t, own, axis, k)));
        const int per = 4 / l.element_bytes;
        for (int s = 0; s < steps; s++) {
            const std::string w = n == 1 ? v : fmt::format("{}.{}", v, "xyzw"[s / per]);
            const std::string x = per == 1   ? dialect_.reinterpret(t.type, Halide::UInt(32), w)
                                  : per == 2 ? fmt::format("{}({}, {})", dialect_.use("half_of"), w, s % per)
                                             : fmt::format("({}){}({}, {})", dialect_.type(t.type),
                                                           dialect_.use("byte_of"), w, s % per);
            line(fmt::format("{}[{}] = {};", to, s, c.cast(type, t.type, x)));
        }
    } else {
        for (int s = 0; s < steps; s++) {
            const std::string x =
                fmt::format("*{}({})", dialect_.shared_pointer("const " + storage(t.type)),
                            shared_element(t, own, axis, s == 0 ? k : fmt::format("{} + {}", k, s)));
            line(fmt::format("{}[{}] = {};", to, s, c.cast(type, t.type, x)));
        }
    }
    close_digits(own);
}

void Printer::fma_product(const Mma &m) {
    const Tile &d = k_.tile(m.dst), &a = k_.tile(m.a), &b = k_.tile(m.b);
    const int extent = k_.axes.at(m.axis);
    // Neighbours along the reduction in one access, where an operand lies so.
    int steps = 1;
    for (const Tile *t : {&a, &b}) {
        if (t->space != Space::Shared) {
            no_form(fmt::format("the product `{}`", m.dst),
                    fmt::format("its operand `{}` is not in shared memory", t->name));
        }
        const SharedLayout &l = t->shared;
        int n = l.inner == m.axis ? 4 : 1;
        while (n > 1 && (n * l.element_bytes > widest || n * l.element_bytes < 4 || l.slab % n != 0 ||
                         extent % n != 0 || l.pitch % (n * l.element_bytes) != 0)) {
            n /= 2;
        }
        steps = std::max(steps, n);
    }
    for (const Tile *t : {&a, &b}) { // the other one must allow it too
        if (t->shared.inner == m.axis &&
            (steps * t->shared.element_bytes < 4 || t->shared.slab % steps != 0)) {
            steps = 1;
        }
    }
    const std::string acc = array(m.dst), type = dialect_.type(d.type);
    const Expr zero = make_zero(d.type);
    if (m.start.empty()) {
        map(m.dst, zero);
    } else {
        move(m.dst, m.start);
        if (m.zero_when.defined()) {
            open(fmt::format("if ({})", scalar(m.zero_when)));
            map(m.dst, zero);
            close();
        }
    }
    const Digits all(d.registers);
    std::vector<Digits> own;
    std::vector<std::vector<int>> number;
    std::vector<int> count;
    for (const Tile *t : {&a, &b}) {
        own.push_back(all);
        number.emplace_back();
        count.push_back(1);
        for (size_t i = 0; i < all.names.size(); i++) {
            const LayoutPart &p = all.layout.registers[i];
            const bool mine = std::count(t->axes.begin(), t->axes.end(), p.axis) > 0;
            number.back().push_back(mine ? count.back() : 0);
            count.back() *= mine ? p.extent : 1;
            own.back().names[i] = mine ? all.names[i] : "";
        }
    }
    open("");
    const std::string k = fresh("k"), x = fresh("a"), y = fresh("b");
    const bool vectors = steps > 1 && a.shared.inner == m.axis && b.shared.inner == m.axis;
    const int unrolled = (vectors ? sums_unrolled : sums_unrolled_of_single) /
                         std::max(1, d.registers.register_count() * steps);
    line(fmt::format("#pragma unroll {}", std::clamp(unrolled, 1, extent / steps)));
    open(fmt::format("for (int {0} = 0; {0} < {1}; {0} += {2})", k, extent, steps));
    line(fmt::format("{} {}[{}][{}], {}[{}][{}];", type, x, count[0], steps, y, count[1], steps));
    load_operand(a, own[0], number[0], x, m.axis, k, steps, d.type);
    load_operand(b, own[1], number[1], y, m.axis, k, steps, d.type);
    if (steps > 1) {
        line("#pragma unroll");
        open(fmt::format("for (int s = 0; s < {}; s++)", steps));
    }
    open_digits(all);
    const std::string s = steps == 1 ? "0" : "s", sum = fmt::format("{}[{}]", acc, all.sum(all.own())),
                      left = fmt::format("{}[{}][{}]", x, all.sum(number[0]), s),
                      right = fmt::format("{}[{}][{}]", y, all.sum(number[1]), s);
    line(d.type.is_float() ? fmt::format("{} = {};", sum, dialect_.fma(left, right, sum))
                           : fmt::format("{} += {} * {};", sum, left, right));
    close_digits(all);
    if (steps > 1) {
        close();
    }
    close();
    close();
}

} // namespace kiln::tile
