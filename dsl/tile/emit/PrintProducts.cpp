// Products by multiply and add: every thread sums its own elements, reading both operands from shared memory.
#include "dsl/tile/emit/ElementC.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln::tile {

using namespace Halide::Internal;

namespace {

/// Unrolled by so much, loads of one step of k run under the sums of another.
constexpr int unrolled = 8;

} // namespace

void Printer::fma_product(const Mma &m) {
    const Tile &d = k_.tile(m.dst), &a = k_.tile(m.a), &b = k_.tile(m.b);
    for (const Tile *t : {&a, &b}) {
        if (t->space != Space::Shared) {
            no_form(fmt::format("the product `{}`", m.dst),
                    fmt::format("its operand `{}` is not in shared memory", t->name));
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
    line(fmt::format("#pragma unroll {}", std::min(unrolled, k_.axes.at(m.axis))));
    open(fmt::format("for (int {0} = 0; {0} < {1}; {0}++)", k, k_.axes.at(m.axis)));
    // The digits of each operand, and its elements of this step in an array of their own.
    std::vector<std::string> index;
    for (const Tile *t : {&a, &b}) {
        Digits own = all;
        std::vector<int> f;
        int count = 1;
        for (size_t i = 0; i < own.names.size(); i++) {
            const std::string &axis = own.layout.registers[i].axis;
            const bool mine = std::count(t->axes.begin(), t->axes.end(), axis) > 0;
            f.push_back(mine ? count : 0);
            count *= mine ? own.layout.registers[i].extent : 1;
            if (!mine) {
                own.names[i] = "";
            }
        }
        const std::string values = fresh(t == &a ? "a" : "b");
        line(fmt::format("{} {}[{}];", type, values, count));
        open_digits(own);
        ElementC c(*this, &own);
        c.name("%" + m.axis, k);
        const SharedLayout &l = t->shared;
        auto at = [&](const std::string &axis) {
            return axis.empty() ? std::string("0") : axis == m.axis ? k : coordinate(axis, &own);
        };
        const std::string x =
            fmt::format("*{}(smem + {} + {})", dialect_.shared_pointer("const " + storage(t->type)),
                        shared_base(*t), shared_at(t->name, l, at(l.inner), at(l.outer)));
        line(fmt::format("{}[{}] = {};", values, own.sum(f), c.cast(d.type, t->type, x)));
        close_digits(own);
        index.push_back(fmt::format("{}[{}]", values, all.sum(f)));
    }
    open_digits(all);
    const std::string sum = fmt::format("{}[{}]", acc, all.sum(all.own()));
    line(d.type.is_float() ? fmt::format("{} = {};", sum, dialect_.fma(index[0], index[1], sum))
                           : fmt::format("{} += {} * {};", sum, index[0], index[1]));
    close_digits(all);
    close();
    close();
}

} // namespace kiln::tile
