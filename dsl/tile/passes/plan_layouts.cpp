// A layout for every tile. Roles belong to axes: the row axis is dealt to the warpgroups, any other axis is a column.
// Then which tiles share registers: a product with its start, a map with an operand that nobody reads later.
#include "dsl/tile/ir/EachCall.h"
#include "dsl/tile/passes/Passes.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace kiln::tile {

namespace {

/// Stands in for the axis that a slice lacks.
const char *no_axis = "~";

class Layouts {
public:
    explicit Layouts(Kernel &k) : k_(k) {}

    void run() {
        walk(k_.body, [&](Stmt &s) {
            if (s.as<Mma>()) {
                has_product_ = true;
                by_fma_ |= k_.product_kind(s.func) == MmaKind::Fma;
            }
        });
        walk(k_.body, [&](Stmt &s) {
            if (Mma *m = s.as<Mma>()) {
                order_operands(*m, s.func);
            } else if (Copy *c = s.as<Copy>()) {
                share(*c);
            }
        });
        walk(k_.body, [&](Stmt &s) {
            if (const Mma *m = s.as<Mma>()) {
                check_product(*m, s.func);
            }
        });
        choose_rows();
        for (const View &v : k_.views) {
            narrowest_ = v.is_buffer() ? std::min(narrowest_, v.type.bytes()) : narrowest_;
        }
        for (auto &[name, t] : k_.tiles) {
            if (t.space == Space::Register) {
                t.registers = layout_of(t.axes, t.name, t.func);
            }
        }
        walk(k_.body, [&](Stmt &s) {
            if (Reduce *r = s.as<Reduce>()) {
                std::set<std::string> axes = k_.axes_of(r->value);
                axes.insert(r->axis);
                check_reduction(*r, axes, s.func);
                r->over = layout_of({axes.begin(), axes.end()}, r->dst, s.func);
            }
        });
        alias(k_.body, {});
        drop_unmet_tests(k_.body);
    }

private:
    Kernel &k_;
    bool has_product_ = false, by_fma_ = false;
    int narrowest_ = 4; ///< bytes of the narrowest element of a view
    int extent(const std::string &axis) const { return k_.axes.at(axis); }
    int rows() const { return k_.row_axis.empty() ? 1 : extent(k_.row_axis); }

    bool has_rows(const std::string &tile) const {
        const Tile &t = k_.tile(tile);
        return std::count(t.axes.begin(), t.axes.end(), k_.row_axis) > 0;
    }

    /// Axes along dimension 0 of what is read of views at more than one axis.
    std::set<std::string> contiguous() const {
        std::set<std::string> found;
        walk(k_.body, [&](const Stmt &s) {
            if (const Copy *c = s.as<Copy>()) {
                const auto &dims = c->from.dims;
                if (std::count_if(dims.begin(), dims.end(),
                                  [](const ViewDim &d) { return !d.axis.empty(); }) > 1) {
                    found.insert(dims[0].axis);
                }
            }
            each_expr(s, [&](const Expr &e) {
                each_call(e, [&](const Halide::Internal::Call &c) {
                    if (c.name.starts_with("view:") && k_.axes_of(&c).size() > 1) {
                        for (const std::string &axis : k_.axes_of(c.args[0])) {
                            found.insert(axis);
                        }
                    }
                });
            });
        });
        return found;
    }

    /// Where the schedule deals no axis to the warps and a reduction leaves another axis: the one that does not lie along
    /// dimension 0 of what is read, so that the lanes read neighbours.
    void choose_rows() {
        if (!k_.row_axis.empty()) {
            return;
        }
        const std::set<std::string> inner = contiguous();
        walk(k_.body, [&](Stmt &s) {
            const Reduce *r = s.as<Reduce>();
            if (k_.row_axis.empty() && r && !k_.tile(r->dst).axes.empty()) {
                const std::string &left = k_.tile(r->dst).axes[0];
                k_.row_axis = inner.count(r->axis) && !inner.count(left) ? left : r->axis;
            }
        });
    }

    /// The operand with the rows is A: a·b is b·a.
    void order_operands(Mma &m, const std::string &func) {
        if (!has_rows(m.a) && has_rows(m.b)) {
            std::swap(m.a, m.b);
        }
        if (!has_rows(m.a) || has_rows(m.b)) {
            refuse("K1110",
                   fmt::format(
                       "the product in `{}` needs the row axis `{}` in one of its operands, and has it in {}",
                       func, k_.row_axis, has_rows(m.b) ? "both" : "neither"),
                   {}, {"name another Var as `rows` in warpgroups(…)"});
        }
    }

    void share(const Copy &c) {
        Tile &t = k_.tiles.at(c.dst);
        SharedLayout l;
        for (const ViewDim &d : c.from.dims) {
            if (d.axis.empty()) {
                continue;
            }
            if (!l.inner.empty() && !l.outer.empty()) {
                refuse("K1111", fmt::format("`{}` would lie in shared memory with three axes", c.from.view),
                       {}, {"give one of its dimensions a block size of 1"});
            }
            (l.inner.empty() ? l.inner : l.outer) = d.axis;
        }
        if (l.inner.empty() || c.from.dims[0].axis != l.inner) {
            refuse("K1112",
                   fmt::format(
                       "`{}` is read at one place of its contiguous dimension 0: no copy engine moves that",
                       c.from.view),
                   {}, {"leave out its staging, so that it is read where it is used"});
        }
        l.inner_extent = extent(l.inner);
        l.outer_extent = l.outer.empty() ? 1 : extent(l.outer);
        l.element_bytes = t.type.bytes();
        auto plan = k_.plan.copies.find(c.from.view);
        const int span = plan == k_.plan.copies.end() ? 128 : plan->second.swizzle;
        // A slab is one row of the swizzle's span, or the whole row where that is shorter or nothing is swizzled.
        const int row = l.inner_extent * l.element_bytes;
        l.swizzle = span;
        while (l.swizzle > 16 && row % l.swizzle != 0) {
            l.swizzle /= 2;
        }
        if (l.swizzle <= 16) {
            l.swizzle = 0;
            l.slab = l.inner_extent;
        } else {
            l.slab = l.swizzle / l.element_bytes;
        }
        l.pitch = l.slab * l.element_bytes;
        t.space = Space::Shared;
        t.shared = l;
    }

    /// Over the row axis and `col`; each may be the stand-in.
    RegisterLayout over(const std::string &row, const std::string &col) const {
        const int consumers = k_.warpgroups();
        if (by_fma_) {
            const int r = row == no_axis ? 8 * consumers : rows();
            return fma_fragment(row, r, col, col == no_axis ? 16 : extent(col), consumers);
        }
        if (has_product_) {
            const int r = row == no_axis ? 64 * consumers : rows();
            return wgmma_fragment(row, r, col, col == no_axis ? 8 : extent(col), consumers);
        }
        const int warps = 4 * consumers;
        const int r = rows(); // 1 where the block has one row: then all warps share it
        const int lanes = 32 * std::max(1, warps / r);
        if (col == no_axis) {
            return row_major_threads(row, r, col, lanes, warps, 1);
        }
        const int cols = extent(col);
        int vector = 16 / narrowest_;
        while (vector > 1 && cols % (lanes * vector) != 0) {
            vector /= 2;
        }
        if (cols % lanes != 0) {
            refuse("K1113",
                   fmt::format("{} columns of axis `{}` over {} threads: each thread needs the same number",
                               cols, col, lanes),
                   {}, {fmt::format("let the tile span a multiple of {} columns", lanes)});
        }
        return row_major_threads(row, r, col, cols, warps, vector);
    }

    RegisterLayout layout_of(const std::vector<std::string> &axes, const std::string &tile,
                             const std::string &func) const {
        std::string col;
        bool row = false;
        for (const std::string &a : axes) {
            if (a == k_.row_axis) {
                row = true;
            } else if (col.empty()) {
                col = a;
            } else {
                refuse("K1114",
                       fmt::format(
                           "tile `{}` of `{}` has the axes `{}` and `{}` beside the rows: registers hold one",
                           tile, func, col, a),
                       {}, {"give one of these dimensions a block size of 1"});
            }
        }
        const std::string r = k_.row_axis.empty() ? no_axis : k_.row_axis;
        RegisterLayout l = over(r, col.empty() ? no_axis : col);
        l = row || r == no_axis ? l : l.without(r);
        return l.without(no_axis);
    }

    /// What wgmma asks (PTX ISA, "wgmma.mma_async").
    void check_product(const Mma &m, const std::string &func) const {
        auto plan = k_.plan.products.find(func);
        const Span span = plan == k_.plan.products.end() ? Span{} : plan->second.span;
        if (k_.product_kind(func) == MmaKind::Fma) {
            check_fma(m, func, span);
        }
        if (k_.product_kind(func) != MmaKind::Wgmma) {
            check_both_are_copied(m, func, span);
            return;
        }
        const Tile &a = k_.tile(m.a), &b = k_.tile(m.b), &d = k_.tile(m.dst);
        const int per = 64 * k_.warpgroups();
        if (rows() % per != 0) {
            refuse("K1115",
                   fmt::format("{} rows of `{}` over {} warpgroups: wgmma takes 64 rows a warpgroup", rows(),
                               func, k_.plan.consumers),
                   span, {fmt::format("take a multiple of {} rows, or other warpgroups", per)});
        }
        int cols = 1;
        for (const std::string &x : d.axes) {
            cols = x == k_.row_axis ? cols : extent(x);
        }
        if (cols % 8 != 0 || cols > 256) {
            refuse("K1116",
                   fmt::format("{} columns of `{}`: wgmma takes a multiple of 8, at most 256", cols, func),
                   span);
        }
        const bool tf32 = plan != k_.plan.products.end() && plan->second.tf32 &&
                          a.type == Halide::Float(32) && b.type == Halide::Float(32);
        for (const Tile *t : {&a, &b}) {
            if (tf32) {
                check_along_sum(*t, m, func, span);
            } else if (t->type.bits() != 16 || !t->type.is_float()) {
                refuse(
                    "K1117",
                    fmt::format(
                        "the product in `{}` reads `{}` of type {}: wgmma here takes bfloat16 and float16",
                        func, t->func, type_name(t->type)),
                    span,
                    {fmt::format("mma(fma) multiplies it, in {}", t->type.is_float() ? "float32" : "int32")});
            }
        }
        if (a.type != b.type) {
            refuse("K1118",
                   fmt::format("the product in `{}` reads two types: `{}` and `{}`", func, a.func, b.func),
                   span, {"cast one operand to the type of the other"});
        }
        const int depth = extent(m.axis) * a.type.bytes();
        if (depth % 32 != 0) {
            refuse("K1119",
                   fmt::format("{} values of the reduction `{}` in one tile: wgmma takes 32 bytes at a time, "
                               "a multiple of {}",
                               extent(m.axis), m.axis, 32 / a.type.bytes()),
                   span);
        }
        if (b.space != Space::Shared) {
            refuse("K1120",
                   fmt::format("the product in `{}` computes its second operand `{}` on the way: wgmma reads "
                               "that one from "
                               "shared memory",
                               func, b.func),
                   span,
                   {"let the rows be those of the computed operand: `rows` in warpgroups(…)",
                    "where both are computed, compute one before the kernel: a Func of its own with "
                    "`compute_root()`"});
        }
    }

    /// Only a sum of products adds up inside a tile what has the axes of two operands.
    void check_reduction(const Reduce &r, const std::set<std::string> &axes, const std::string &func) const {
        std::string others;
        int columns = 0;
        for (const std::string &a : axes) {
            columns += a != k_.row_axis;
            others += a == r.axis ? "" : fmt::format("{}`{}`", others.empty() ? "" : " and ", a);
        }
        if (columns > 1 && axes.size() > 2) {
            refuse(
                "K1141",
                fmt::format("`{}` takes the {} over `{}` of values that vary along {} too: inside a tile "
                            "only a sum of "
                            "products of two operands does so",
                            func, reduce_name(r.op), r.axis, others),
                {},
                {fmt::format("split its RVar by 1: then `{}` is carried from iteration to iteration", func),
                 "or give all but one of these dimensions a block size of 1"});
        }
    }

    /// PTX ISA, "wgmma.mma_async": only 16-bit operands may lie across the reduction.
    void check_along_sum(const Tile &t, const Mma &m, const std::string &func, const Span &span) const {
        const bool shared = t.space == Space::Shared;
        if (shared && t.shared.inner == m.axis) {
            return;
        }
        const std::string &axis = shared ? t.shared.inner : m.axis;
        refuse(
            "K1140",
            shared ? fmt::format(
                         "the product in `{}` reads `{}`, whose neighbours in memory run along `{}`: wgmma "
                         "reads TF32 operands with neighbours along the sum `{}` only",
                         func, t.func, axis, m.axis)
                   : fmt::format("the product in `{}` computes its operand `{}` on the way: wgmma reads TF32 "
                                 "operands from shared memory as they were copied",
                                 func, t.func),
            span,
            {shared
                 ? fmt::format(
                       "transpose it before the kernel: a Func `t(k, n) = {}(n, k)` with `t.compute_root()`",
                       t.func)
                 : fmt::format("compute `{}` before the kernel: `{}.compute_root()`", t.func, t.func),
             "or take `mma(fma)`, which reads either"});
    }

    /// Only wgmma takes an operand from registers.
    void check_both_are_copied(const Mma &m, const std::string &func, const Span &span) const {
        for (const std::string &operand : {m.a, m.b}) {
            const Tile &t = k_.tile(operand);
            if (t.space == Space::Shared) {
                continue;
            }
            refuse("K1120",
                   fmt::format("the product in `{}` computes {} on the way: `mma({})` reads both operands "
                               "from shared memory, as they were copied",
                               func, t.func == func ? "an operand" : fmt::format("its operand `{}`", t.func),
                               k_.product_kind(func) == MmaKind::Fma ? "fma" : "mma_sync"),
                   span,
                   {"compute the operand before the kernel: a Func of its own with `compute_root()`",
                    "`mma(wgmma)` computes one operand of 16 bits on the way, the one with the rows"});
        }
    }

    void check_fma(const Mma &m, const std::string &func, const Span &span) const {
        for (const std::string &x : k_.tile(m.dst).axes) {
            const bool row = x == k_.row_axis;
            const int unit = row ? 8 * k_.warpgroups() : 16;
            if (extent(x) % unit != 0) {
                refuse("K1123",
                       fmt::format(
                           "{} {} of `{}`: products by multiply-add take a multiple of {} over {} warpgroups",
                           extent(x), row ? "rows" : "columns", func, unit, k_.warpgroups()),
                       span);
            }
        }
    }

    /// A map that may be left out must lie where its operand does.
    bool drop_unmet_tests(Body &body) {
        bool dropped = false;
        for (Stmt &s : body) {
            if (For *f = s.as<For>()) {
                if (drop_unmet_tests(f->body)) {
                    f->untested_from = f->untested_to = Expr();
                    dropped = true;
                }
            } else if (Map *m = s.as<Map>(); m && m->unless.defined() && k_.tile(m->dst).alias.empty()) {
                k_.remarks.push_back(fmt::format(
                    "plan_layouts: `{}` is tested everywhere: it does not lie where its operand does",
                    m->dst));
                m->unless = Expr();
                dropped = true;
            }
        }
        return dropped;
    }

    static bool same_shape(const Tile &a, const Tile &b) {
        return a.space == Space::Register && b.space == Space::Register && a.type == b.type &&
               a.registers == b.registers;
    }

    bool read_after(const Body &body, size_t i, const std::string &tile) const {
        for (size_t j = i + 1; j < body.size(); j++) {
            if (reads(k_, body[j]).count(tile)) {
                return true;
            }
        }
        return false;
    }

    /// `own`: tiles that live no longer than one run of this body, so that their registers are free after the last read.
    void alias(Body &body, std::set<std::string> own) {
        for (size_t i = 0; i < body.size(); i++) {
            Stmt &s = body[i];
            if (For *f = s.as<For>()) {
                std::set<std::string> carried;
                for (const Carry &c : f->carry) {
                    carried.insert(c.name);
                    own.insert(c.name); // after the loop its last value
                }
                alias(f->body, carried);
            } else if (Last *l = s.as<Last>()) {
                std::set<std::string> free = own; // what nobody reads behind it
                std::erase_if(free, [&](const std::string &t) { return read_after(body, i, t); });
                alias(l->body, free);
            }
            const std::string dst = defines(s);
            if (dst.empty()) {
                continue;
            }
            Tile &t = k_.tiles.at(dst);
            if (Mma *m = s.as<Mma>()) {
                if (!m->start.empty() && (!own.count(m->start) || read_after(body, i, m->start))) {
                    // The accumulator is overwritten, and somebody still reads what it started at.
                    const Tile from = k_.tile(m->start);
                    Tile &copy = k_.add_tile(from.name, from.type, from.axes, from.func);
                    copy.registers = from.registers;
                    Stmt before{Map{copy.name, k_.ref(from.name), Expr()}, s.func};
                    m->start = copy.name;
                    t.alias = copy.name;
                    body.insert(body.begin() + static_cast<std::ptrdiff_t>(i), std::move(before));
                    i++;
                } else if (!m->start.empty()) {
                    t.alias = m->start;
                }
            } else if (const Map *m = s.as<Map>(); m && t.axes.size() == 2) {
                for (const std::string &x : k_.tiles_of(m->value)) {
                    if (t.alias.empty() && own.count(x) && same_shape(t, k_.tile(x)) &&
                        !read_after(body, i, x)) {
                        t.alias = x;
                    }
                }
            }
            own.insert(dst);
        }
    }
};

} // namespace

void plan_layouts(Kernel &k) {
    Layouts(k).run();
}

} // namespace kiln::tile
