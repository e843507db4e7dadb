// Layouts: each element once, operands where their statement needs them, products as their instruction takes them.
#include "dsl/tile/passes/VerifyRules.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln::tile {

namespace {

bool is_planned(const Tile &t) {
    return t.space == Space::Shared || !t.registers.threads.empty() || !t.registers.registers.empty();
}

/// "" or why the digits along the axis do not count 0 … extent - 1, each once.
std::string count_fault(const RegisterLayout &l, const std::string &axis, int extent) {
    std::vector<LayoutPart> digits;
    for (const auto *parts : {&l.threads, &l.registers}) {
        for (const LayoutPart &p : *parts) {
            if (p.axis == axis && p.extent > 1) {
                digits.push_back(p);
            }
        }
    }
    std::sort(digits.begin(), digits.end(),
              [](const LayoutPart &a, const LayoutPart &b) { return a.stride < b.stride; });
    int next = 1;
    for (const LayoutPart &p : digits) {
        if (p.stride != next) {
            return fmt::format("steps of {} along `{}` where {} is due", p.stride, axis, next);
        }
        next *= p.extent;
    }
    return next == extent ? "" : fmt::format("{} elements along `{}`, which has {}", next, axis, extent);
}

/// Coordinates along an axis that the thread holds.
std::vector<bool> held(const RegisterLayout &l, const std::string &axis, int extent, int thread) {
    std::vector<bool> at(static_cast<size_t>(extent));
    const int registers = l.register_count();
    for (int r = 0; r < registers; r++) {
        const int c = l.coordinate(axis, thread, r);
        if (c >= 0 && c < extent) {
            at[static_cast<size_t>(c)] = true;
        }
    }
    return at;
}

class Layouts {
public:
    Layouts(const Kernel &k, Faults &f) : k_(k), f_(f) {}

    void run() {
        for (const auto &[name, t] : k_.tiles) {
            if (is_planned(t) && t.space == Space::Register) {
                alone(t.registers, t.axes, fmt::format("tile `{}`", name));
                aliased(name, t);
            }
            if (t.space == Space::Shared) {
                shared(name, t);
            }
        }
        if (!f_.all.empty()) {
            return;
        }
        walk(k_.body, [&](const Stmt &s) {
            if (auto *m = s.as<Map>(); m && is_planned(k_.tile(m->dst))) {
                operands(k_.tiles_of(m->value), k_.tile(m->dst).registers, s);
                if (m->unless.defined() && !is_early(k_)) {
                    stays(*m, s);
                }
            } else if (auto *t = s.as<StageStore>(); t && t->value.defined() && is_planned(k_.tile(t->src))) {
                operands(k_.tiles_of(t->value), k_.tile(t->src).registers, s);
            } else if (auto *r = s.as<Reduce>();
                       r && !(r->over.threads.empty() && r->over.registers.empty())) {
                std::set<std::string> axes = k_.axes_of(r->value);
                axes.insert(r->axis);
                alone(r->over, {axes.begin(), axes.end()}, "the values that are reduced");
                operands(k_.tiles_of(r->value), r->over, s);
            } else if (auto *m = s.as<Mma>()) {
                product(*m, s);
            }
        });
    }

private:
    const Kernel &k_;
    Faults &f_;

    void alone(const RegisterLayout &l, const std::vector<std::string> &axes, const std::string &what) {
        for (const std::string &axis : axes) {
            if (const std::string why = count_fault(l, axis, k_.axes.at(axis)); !why.empty()) {
                f_.add("K1192", fmt::format("the layout of {}, {}, does not hold each element once: {}", what,
                                            l.str(), why));
            }
        }
        for (const auto *parts : {&l.threads, &l.registers}) {
            for (const LayoutPart &p : *parts) {
                if (!p.axis.empty() && std::find(axes.begin(), axes.end(), p.axis) == axes.end()) {
                    f_.add("K1192",
                           fmt::format("the layout of {} moves along `{}`, which it lacks", what, p.axis));
                }
            }
        }
        const int most = 128 * k_.warpgroups();
        if (l.thread_count() > most) {
            f_.add("K1192", fmt::format("the layout of {} counts {} threads, {} compute", what,
                                        l.thread_count(), most));
        }
    }

    void aliased(const std::string &name, const Tile &t) {
        std::set<std::string> seen{name};
        for (const Tile *at = &t; !at->alias.empty();) {
            auto next = k_.tiles.find(at->alias);
            if (next == k_.tiles.end() || !seen.insert(at->alias).second) {
                f_.add("K1192",
                       fmt::format("`{}` lies in the registers of `{}`, {}", name, at->alias,
                                   next == k_.tiles.end() ? "which is no tile" : "which lies in its own"));
                return;
            }
            at = &next->second;
            if (!(at->registers == t.registers) || at->type.bits() != t.type.bits()) {
                f_.add("K1192",
                       fmt::format("`{}` lies in the registers of `{}`, whose layout or width is another",
                                   name, at->name));
                return;
            }
        }
    }

    void shared(const std::string &name, const Tile &t) {
        const SharedLayout &l = t.shared;
        const std::set<std::string> axes(t.axes.begin(), t.axes.end());
        std::set<std::string> has;
        for (const auto &[axis, extent] : {std::pair{l.inner, l.inner_extent}, {l.outer, l.outer_extent}}) {
            if (axis.empty()) {
                continue;
            }
            has.insert(axis);
            if (axes.count(axis) && k_.axes.at(axis) != extent) {
                f_.add("K1192", fmt::format("`{}` in shared memory has {} elements along `{}`, the axis {}",
                                            name, extent, axis, k_.axes.at(axis)));
            }
        }
        if (has != axes) {
            f_.add("K1192", fmt::format("`{}` in shared memory lies along other axes than it has ({})", name,
                                        l.str()));
        }
        if (l.element_bytes != t.type.bytes() || l.slab * l.element_bytes > l.pitch) {
            f_.add("K1192", fmt::format("`{}` in shared memory: {} elements of {} bytes in rows of {} bytes",
                                        name, l.slab, t.type.bytes(), l.pitch));
        }
    }

    /// Where `unless` holds nothing is done: the tile must be the one it was made of.
    void stays(const Map &m, const Stmt &s) {
        for (const std::string &t : k_.tiles_of(m.value)) {
            if (k_.root(t) == k_.root(m.dst)) {
                return;
            }
        }
        f_.add("K1192",
               fmt::format("`{}` keeps its value where `unless` holds, and lies in the registers of no tile "
                           "that it reads",
                           m.dst),
               &s);
    }

    /// Every thread holds what it needs of each tile.
    void operands(const std::set<std::string> &tiles, const RegisterLayout &at, const Stmt &s) {
        for (const std::string &name : tiles) {
            const Tile &t = k_.tile(name);
            if (t.space != Space::Register || !is_planned(t) || t.registers == at) {
                continue;
            }
            const int threads = std::max(t.registers.thread_count(), at.thread_count());
            for (const std::string &axis : t.axes) {
                const int extent = k_.axes.at(axis);
                for (int thread = 0; thread < threads; thread++) {
                    const std::vector<bool> has =
                        held(t.registers, axis, extent, thread % t.registers.thread_count());
                    const std::vector<bool> wants = held(at, axis, extent, thread % at.thread_count());
                    bool missing = false;
                    for (size_t i = 0; i < has.size(); i++) {
                        missing |= wants[i] && !has[i];
                    }
                    if (missing) {
                        f_.add("K1192",
                               fmt::format("thread {} needs elements of `{}` along `{}` that others hold: {} "
                                           "is read at {}",
                                           thread, name, axis, t.registers.str(), at.str()),
                               &s);
                        break;
                    }
                }
            }
        }
    }

    /// PTX ISA, "wgmma.mma_async": shapes m64nNk16 and their like, B in shared memory.
    void product(const Mma &m, const Stmt &s) {
        const Tile &d = k_.tile(m.dst), &a = k_.tile(m.a), &b = k_.tile(m.b);
        if (!is_planned(d) || k_.product_kind(s.func) != MmaKind::Wgmma) {
            return;
        }
        auto other = [&](const Tile &t) {
            std::string found;
            for (const std::string &axis : t.axes) {
                found = axis == m.axis ? found : axis;
            }
            return found;
        };
        const std::string row = other(a), col = other(b);
        if (a.axes.size() != 2 || b.axes.size() != 2) {
            f_.add("K1199", "the operands of a product have two axes each", &s);
            return;
        }
        const int rows = k_.axes.at(row), cols = k_.axes.at(col), depth = k_.axes.at(m.axis);
        if (rows % (64 * k_.warpgroups()) != 0) {
            f_.add(
                "K1199",
                fmt::format("{} rows over {} warpgroups: wgmma takes 64 rows of each", rows, k_.warpgroups()),
                &s);
            return;
        }
        if (cols % 8 != 0 || cols > 256) {
            f_.add("K1199", fmt::format("{} columns: wgmma takes a multiple of 8, at most 256", cols), &s);
        }
        if (depth * a.type.bytes() % 32 != 0) {
            f_.add("K1199",
                   fmt::format("{} elements of {} bytes along `{}`: wgmma takes 32 bytes at a time", depth,
                               a.type.bytes(), m.axis),
                   &s);
        }
        if (a.type != b.type || d.type != Halide::Float(32)) {
            f_.add("K1199",
                   fmt::format("a product of {} and {} into {}", type_name(a.type), type_name(b.type),
                               type_name(d.type)),
                   &s);
        }
        if (b.space != Space::Shared) {
            f_.add(
                "K1199",
                fmt::format("`{}`, the second operand, lies in registers: wgmma reads it from shared memory",
                            b.name),
                &s);
        }
        if (!(d.registers == wgmma_fragment(row, rows, col, cols, k_.warpgroups()))) {
            f_.add("K1199",
                   fmt::format("`{}` does not lie as wgmma leaves it, but {}", d.name, d.registers.str()),
                   &s);
        }
        if (a.space == Space::Register &&
            !(a.registers == wgmma_fragment(row, rows, m.axis, depth, k_.warpgroups()))) {
            f_.add("K1199",
                   fmt::format("`{}`, the first operand, does not lie as wgmma reads it, but {}", a.name,
                               a.registers.str()),
                   &s);
        }
    }
};

} // namespace

void verify_layouts(const Kernel &k, Faults &f) {
    Layouts(k, f).run();
}

} // namespace kiln::tile
