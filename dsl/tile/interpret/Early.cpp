// Runs the IR before it has layouts or roles: block tile by block tile, statement by statement, on dense tiles.
#include "dsl/tile/interpret/Run.h"

#include "dsl/tile/ir/Text.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln::tile {

namespace {

/// Coordinates of all elements over some axes, the first axis fastest.
struct Grid {
    std::vector<std::string> axes;
    std::vector<int64_t> extents;

    Grid(const Kernel &k, std::vector<std::string> over) : axes(std::move(over)) {
        for (const std::string &a : axes) {
            extents.push_back(k.axes.at(a));
        }
    }
    size_t size() const {
        size_t n = 1;
        for (int64_t e : extents) {
            n *= static_cast<size_t>(e);
        }
        return n;
    }
    /// Σ coordinate(axis)·stride(axis) for every element.
    std::vector<int64_t> sums(const std::function<int64_t(const std::string &)> &stride) const {
        std::vector<int64_t> s{0};
        for (size_t d = 0; d < axes.size(); d++) {
            const int64_t step = stride(axes[d]);
            const size_t n = s.size();
            s.resize(n * static_cast<size_t>(extents[d]));
            for (size_t i = n; i < s.size(); i++) {
                s[i] = s[i % n] + static_cast<int64_t>(i / n) * step;
            }
        }
        return s;
    }
    int64_t stride(const std::string &axis) const {
        int64_t n = 1;
        for (size_t d = 0; d < axes.size(); d++) {
            if (axes[d] == axis) {
                return n;
            }
            n *= extents[d];
        }
        return 0;
    }
};

class Sequential {
public:
    explicit Sequential(Run &run) : run_(run), k_(run.k) {}

    /// Tiles n … of one cluster, side by side: a reduction over parts of an axis takes those of all of them.
    void cluster(int64_t n, int blocks) {
        blocks_.assign(static_cast<size_t>(blocks), {});
        for (int b = 0; b < blocks; b++) {
            blocks_[static_cast<size_t>(b)].writer = n + b;
            blocks_[static_cast<size_t>(b)].scope = run_.grid_variables(n + b);
        }
        now_ = 0;
        scope_ = blocks_[0].scope;
        values_.clear();
        run_.writer = blocks_[0].writer;
        body(k_.body);
    }

private:
    struct Block {
        int64_t writer = 0;
        Variables scope;
        std::map<std::string, ColumnPtr> values; ///< in the order of the tile's axes
    };
    Run &run_;
    const Kernel &k_;
    std::vector<Block> blocks_;
    size_t now_ = 0;
    // Of the block whose statement runs:
    Variables scope_;
    std::map<std::string, ColumnPtr> values_;

    void enter(size_t block) {
        std::swap(blocks_[now_].scope, scope_);
        std::swap(blocks_[now_].values, values_);
        now_ = block;
        std::swap(blocks_[now_].scope, scope_);
        std::swap(blocks_[now_].values, values_);
        run_.writer = blocks_[now_].writer;
    }
    /// Once for each block, which is entered before.
    template<typename F>
    void each_block(const F &f) {
        for (size_t b = 0; b < blocks_.size(); b++) {
            enter(b);
            f();
        }
        enter(0);
    }

    class Elements : public Places {
    public:
        Elements(Sequential &s, const Grid &grid) : s_(s), grid_(grid) {}
        size_t count() const override { return grid_.size(); }
        ColumnPtr variable(const std::string &name) override;
        ColumnPtr view(const std::string &name, const std::vector<ColumnPtr> &at, const Mask &mask) override;

    private:
        Sequential &s_;
        const Grid &grid_;
    };

    [[noreturn]] void fault(const std::string &text, const Stmt &s) const {
        throw Fault{fmt::format("{}: in `{}`", text, print(k_, s))};
    }

    ColumnPtr value(const std::string &tile) const {
        auto v = values_.find(tile);
        if (v == values_.end()) {
            throw Fault{fmt::format("tile `{}` is read before it is defined", tile)};
        }
        return v->second;
    }

    /// At every element of the grid; one value becomes as many.
    ColumnPtr evaluate(const Expr &e, const Grid &grid) {
        Elements places(*this, grid);
        ColumnPtr c = Evaluator(places)(e);
        return spread(c, e.type(), grid.size());
    }
    static ColumnPtr spread(const ColumnPtr &c, Halide::Type type, size_t n) {
        if (c->size() == n) {
            return c;
        }
        auto all = std::make_shared<Column>(Column::sized(type, n));
        if (all->is_real) {
            all->real.assign(n, c->real[0]);
        } else {
            all->whole.assign(n, c->whole[0]);
        }
        return all;
    }

    void define(const std::string &tile, ColumnPtr c) { values_[tile] = std::move(c); }

    void body(const Body &b) {
        for (const Stmt &s : b) {
            run_.out.reached.insert(&s);
            if (s.as<For>() || s.as<If>() || s.as<Last>()) { // the same for all blocks that run side by side
                std::visit([&](const auto &o) { run(o, s); }, s.op);
            } else {
                each_block([&] { std::visit([&](const auto &o) { run(o, s); }, s.op); });
                if (const Reduce *r = s.as<Reduce>(); r && r->blocks > 1) {
                    meet(*r, s);
                }
            }
        }
    }

    template<typename T>
    void run(const T &, const Stmt &s) {
        fault("not a statement of the early IR", s);
    }

    void run(const Copy &o, const Stmt &s) {
        const Tile &t = k_.tile(o.dst);
        const Array &a = run_.array(o.from.view);
        const Grid grid(k_, t.axes);
        const std::vector<int64_t> base = run_.bases(o.from, scope_);
        std::vector<std::vector<int64_t>> at = indices(o.from, grid, base);
        auto out = std::make_shared<Column>(Column::sized(t.type, grid.size()));
        std::vector<int64_t> index(base.size());
        for (size_t i = 0; i < grid.size(); i++) {
            for (size_t d = 0; d < base.size(); d++) {
                index[d] = at[d][i];
            }
            if (a.contains(index)) {
                const uint8_t *p = a.bytes.data() + a.offset(index) * a.type.bytes();
                out->is_real ? void(out->real[i] = load_element(a.type, p))
                             : void(out->whole[i] = load_integer(a.type, p));
                run_.out.counters.loaded += a.type.bytes();
            }
        }
        for (const std::string &axis : t.axes) {
            if (std::none_of(o.from.dims.begin(), o.from.dims.end(),
                             [&](const ViewDim &d) { return d.axis == axis; })) {
                fault(fmt::format("the region has no axis `{}` of the tile", axis), s);
            }
        }
        define(o.dst, out);
    }

    /// For each dimension of the region the index at every element.
    std::vector<std::vector<int64_t>> indices(const Region &r, const Grid &grid,
                                              const std::vector<int64_t> &base) const {
        std::vector<std::vector<int64_t>> at;
        for (size_t d = 0; d < base.size(); d++) {
            at.push_back(grid.sums([&](const std::string &a) { return a == r.dims[d].axis ? 1 : 0; }));
            for (int64_t &i : at.back()) {
                i += base[d];
            }
        }
        return at;
    }

    void run(const Store &o, const Stmt &) {
        const Tile &t = k_.tile(o.src);
        const Grid grid(k_, t.axes);
        const ColumnPtr v = value(o.src);
        const std::vector<int64_t> base = run_.bases(o.to, scope_);
        const std::vector<std::vector<int64_t>> at = indices(o.to, grid, base);
        std::vector<int64_t> index(base.size());
        for (size_t i = 0; i < grid.size(); i++) {
            for (size_t d = 0; d < base.size(); d++) {
                index[d] = at[d][i];
            }
            if (run_.write(o.to.view, index, *v, i)) {
                run_.out.counters.view_writes.bytes += t.type.bytes();
            }
        }
    }

    /// The elements of the axis that count.
    int64_t limited(const Expr &limit, const std::string &axis) const {
        const int64_t extent = k_.axes.at(axis);
        return limit.defined() ? std::clamp<int64_t>(run_.integer(limit, scope_), 0, extent) : extent;
    }

    void run(const Mma &o, const Stmt &s) {
        const Tile &t = k_.tile(o.dst);
        const Grid grid(k_, t.axes), ga(k_, k_.tile(o.a).axes), gb(k_, k_.tile(o.b).axes);
        const bool zero =
            o.start.empty() || (o.zero_when.defined() && run_.integer(o.zero_when, scope_) != 0);
        auto acc = std::make_shared<Column>(Column::sized(t.type, grid.size()));
        if (!zero) {
            *acc = *aligned(o.start, grid);
        }
        const std::vector<int64_t> ia = grid.sums([&](const std::string &x) { return ga.stride(x); });
        const std::vector<int64_t> ib = grid.sums([&](const std::string &x) { return gb.stride(x); });
        const ColumnPtr a = value(o.a), b = value(o.b);
        const int64_t sa = ga.stride(o.axis), sb = gb.stride(o.axis), depth = limited(o.limit, o.axis);
        if (sa == 0 || sb == 0) {
            fault(fmt::format("an operand lacks the axis `{}`", o.axis), s);
        }
        for (int64_t r = 0; r < depth; r++) {
            for (size_t i = 0; i < grid.size(); i++) {
                const size_t x = static_cast<size_t>(ia[i] + r * sa), y = static_cast<size_t>(ib[i] + r * sb);
                if (acc->is_real) {
                    acc->real[i] = static_cast<float>(acc->real[i] + a->number(x) * b->number(y));
                } else {
                    acc->whole[i] = wrap_to(t.type, acc->whole[i] + a->integer(x) * b->integer(y));
                }
            }
        }
        run_.out.counters.multiply_adds += depth * static_cast<int64_t>(grid.size());
        define(o.dst, acc);
    }

    /// The tile's values at the elements of another grid.
    ColumnPtr aligned(const std::string &tile, const Grid &grid) {
        const Tile &t = k_.tile(tile);
        const ColumnPtr v = value(tile);
        if (t.axes == grid.axes) {
            return v;
        }
        const Grid own(k_, t.axes);
        for (const std::string &axis : t.axes) {
            if (std::find(grid.axes.begin(), grid.axes.end(), axis) == grid.axes.end()) {
                throw Fault{fmt::format("tile `{}` has the axis `{}`, which is not defined where it is read",
                                        tile, axis)};
            }
        }
        const std::vector<int64_t> from = grid.sums([&](const std::string &x) { return own.stride(x); });
        auto out = std::make_shared<Column>(Column::sized(t.type, grid.size()));
        for (size_t i = 0; i < from.size(); i++) {
            const size_t j = static_cast<size_t>(from[i]);
            out->is_real ? void(out->real[i] = v->real[j]) : void(out->whole[i] = v->whole[j]);
        }
        return out;
    }

    void run(const Map &o, const Stmt &) {
        const Grid grid(k_, k_.tile(o.dst).axes);
        define(o.dst, evaluate(o.value, grid));
    }

    void run(const Reduce &o, const Stmt &) {
        const Tile &t = k_.tile(o.dst);
        std::vector<std::string> axes = t.axes;
        axes.push_back(o.axis);
        const Grid grid(k_, axes), left(k_, t.axes);
        const ColumnPtr v = evaluate(o.value, grid);
        const size_t n = left.size();
        auto out = std::make_shared<Column>(Column::sized(t.type, n));
        const int64_t count = limited(o.limit, o.axis);
        for (size_t i = 0; i < n; i++) {
            double sum = identity_of(o.op, t.type);
            for (int64_t r = 0; r < count; r++) {
                sum = combine(o.op, t.type, sum, v->number(i + static_cast<size_t>(r) * n));
            }
            out->is_real ? void(out->real[i] = sum) : void(out->whole[i] = static_cast<int64_t>(sum));
        }
        define(o.dst, out);
    }

    void meet(const Reduce &o, const Stmt &s) {
        if (static_cast<size_t>(o.blocks) != blocks_.size()) {
            fault(fmt::format("a reduction over {} blocks in a cluster of {}", o.blocks, blocks_.size()), s);
        }
        const Tile &t = k_.tile(o.dst);
        const size_t n = Grid(k_, t.axes).size();
        auto all = std::make_shared<Column>(Column::sized(t.type, n));
        std::vector<double> sums(n, identity_of(o.op, t.type));
        each_block([&] {
            for (size_t i = 0; i < n; i++) {
                sums[i] = combine(o.op, t.type, sums[i], value(o.dst)->number(i));
            }
        });
        for (size_t i = 0; i < n; i++) {
            all->is_real ? void(all->real[i] = sums[i]) : void(all->whole[i] = static_cast<int64_t>(sums[i]));
        }
        each_block([&] { define(o.dst, all); });
    }

    /// Dense tiles hold whole sums already.
    void run(const LaneReduce &o, const Stmt &) {
        define(o.dst, aligned(o.src, Grid(k_, k_.tile(o.dst).axes)));
    }

    void run(const For &o, const Stmt &) {
        each_block([&] {
            for (const Carry &c : o.carry) {
                define(c.name, evaluate(c.init, Grid(k_, k_.tile(c.name).axes)));
            }
        });
        const int64_t lo = run_.integer(o.lo, scope_), hi = run_.integer(o.hi, scope_);
        for (int64_t i = lo; i < hi; i++) {
            each_block([&] { scope_[o.var] = i; });
            body(o.body);
            each_block([&] {
                std::map<std::string, ColumnPtr> next;
                for (const Carry &c : o.carry) {
                    next[c.name] = aligned(c.next, Grid(k_, k_.tile(c.name).axes));
                }
                for (auto &[name, v] : next) {
                    define(name, v);
                }
            });
        }
        each_block([&] { scope_.erase(o.var); });
    }

    void run(const Last &o, const Stmt &) {
        run_.publish(run_.writer); // blocks run one after the other
        if (run_.arrive(o.at, run_.integer(o.parts, scope_), scope_)) {
            body(o.body);
        }
    }

    void run(const If &o, const Stmt &) { body(run_.integer(o.condition, scope_) ? o.body : o.otherwise); }
};

ColumnPtr Sequential::Elements::variable(const std::string &name) {
    if (is_axis_var(name)) {
        if (grid_.stride(name.substr(1)) == 0) {
            throw Fault{fmt::format("axis `{}` is not defined where it is read", name.substr(1))};
        }
        auto c = std::make_shared<Column>();
        c->whole = grid_.sums([&](const std::string &a) { return a == name.substr(1) ? 1 : 0; });
        return c;
    }
    if (s_.k_.tiles.count(name)) {
        return s_.aligned(name, grid_);
    }
    return std::make_shared<Column>(Column::of(s_.run_.variable(name, s_.scope_)));
}

ColumnPtr Sequential::Elements::view(const std::string &name, const std::vector<ColumnPtr> &at,
                                     const Mask &mask) {
    return s_.run_.read_view(name, at, mask, false);
}

} // namespace

void run_early(Run &run) {
    Sequential s(run);
    // Others of a cluster share nothing but copies, which is no matter here.
    const int blocks = std::max(1, run.k.plan.spread_blocks > 1 ? run.k.cluster_blocks() : 1);
    for (int64_t n = 0, all = run.grid_size(); n < all; n += blocks) {
        s.cluster(n, blocks);
    }
}

} // namespace kiln::tile
