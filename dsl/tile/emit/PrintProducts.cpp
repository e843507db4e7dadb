// Products by multiply and add: every thread sums its own elements, reading both operands from shared memory.
#include "dsl/tile/emit/ElementC.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln::tile {

using namespace Halide::Internal;

namespace {

constexpr int widest = 16; ///< bytes of one access
constexpr int sums_unrolled =
    512; ///< multiply-adds that stand behind one another: loads of one step run under another

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
    open("");
    const std::string k = fresh("k");
    const int unrolled = sums_unrolled / std::max(1, d.registers.register_count() * steps);
    line(fmt::format("#pragma unroll {}", std::clamp(unrolled, 1, extent / steps)));
    open(fmt::format("for (int {0} = 0; {0} < {1}; {0} += {2})", k, extent, steps));
    std::vector<std::string> index;
    for (const Tile *t : {&a, &b}) {
        Digits own = all;
        std::vector<int> number;
        int count = 1;
        for (size_t i = 0; i < own.names.size(); i++) {
            const LayoutPart &p = own.layout.registers[i];
            const bool mine = std::count(t->axes.begin(), t->axes.end(), p.axis) > 0;
            number.push_back(mine ? count : 0);
            count *= mine ? p.extent : 1;
            own.names[i] = mine ? own.names[i] : "";
        }
        const std::string values = fresh(t == &a ? "a" : "b");
        line(fmt::format("{} {}[{}][{}];", type, values, count, steps));
        load_operand(*t, own, number, values, m.axis, k, steps, d.type);
        index.push_back(fmt::format("{}[{}]", values, all.sum(number)));
    }
    const std::string s = steps == 1 ? "0" : "s";
    if (steps > 1) {
        line("#pragma unroll");
        open(fmt::format("for (int s = 0; s < {}; s++)", steps));
    }
    open_digits(all);
    const std::string sum = fmt::format("{}[{}]", acc, all.sum(all.own())),
                      x = fmt::format("{}[{}]", index[0], s), y = fmt::format("{}[{}]", index[1], s);
    line(d.type.is_float() ? fmt::format("{} = {};", sum, dialect_.fma(x, y, sum))
                           : fmt::format("{} += {} * {};", sum, x, y));
    close_digits(all);
    if (steps > 1) {
        close();
    }
    close();
    close();
}

} // namespace kiln::tile
