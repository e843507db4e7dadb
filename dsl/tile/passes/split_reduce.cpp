// Split-K: a loop that adds up is dealt to several blocks. Each stores what its part comes to in a workspace, and the last
// to come there combines all parts, in the order of the loop whichever block came when, so that results repeat bit for bit.
// What follows the loop is done once, by that block.
#include "dsl/tile/passes/CombineParts.h"
#include "dsl/tile/passes/Passes.h"
#include "dsl/tile/passes/Rewrite.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln::tile {

namespace {

using namespace Halide::Internal;

class SplitReduce {
public:
    explicit SplitReduce(Kernel &k) : k_(k) {}

    void run() {
        if (k_.plan.splits.empty()) {
            return;
        }
        const size_t end = find_loops();
        if (k_.plan.dynamic) {
            refuse_split("K1187", "its kernel hands tiles out by a counter, which counts whole tiles",
                         "leave out `dynamic`");
        }
        if (k_.plan.cluster_x * k_.plan.cluster_y > 1) {
            refuse_split("K1187", "its kernel runs in clusters, whose blocks may lie past the last tile",
                         "leave out `cluster`");
        }
        const std::string part_name = k_.fresh("part");
        part_ = Variable::make(Halide::Int(32), part_name);
        tiles_ = k_.grid;
        k_.grid.push_back({part_name, Expr(parts_)});
        Body before(std::make_move_iterator(k_.body.begin()),
                    std::make_move_iterator(k_.body.begin() + static_cast<std::ptrdiff_t>(end)));
        Body after(std::make_move_iterator(k_.body.begin() + static_cast<std::ptrdiff_t>(end)),
                   std::make_move_iterator(k_.body.end()));
        Body stores;
        Last last{point(counters(), {}), Expr(parts_), {}};
        for (Stmt &s : before) {
            if (is_split(s)) {
                deal(s, stores, last.body, after);
            }
        }
        // What is copied into shared memory comes for every part, since the producer does not know which is the last.
        Body copies;
        for (Stmt &s : after) {
            (s.as<Copy>() ? copies : last.body).push_back(std::move(s));
        }
        k_.body.clear();
        Body whole; // outputs that were stored above the loop
        for (Stmt &s : before) {
            (s.as<Store>() ? whole : k_.body).push_back(std::move(s));
        }
        last.body.insert(last.body.end(), std::make_move_iterator(whole.begin()),
                         std::make_move_iterator(whole.end()));
        for (Body *b : {&copies, &stores}) {
            k_.body.insert(k_.body.end(), std::make_move_iterator(b->begin()),
                           std::make_move_iterator(b->end()));
        }
        k_.body.push_back({std::move(last), func_});
        k_.remarks.push_back(fmt::format(
            "split_reduce: {} blocks share a sum of `{}`; the last to end adds up their parts in order",
            parts_, func_));
    }

private:
    Kernel &k_;
    int parts_ = 0;
    std::string func_; ///< the first that is split
    Expr part_;
    std::vector<GridLoop> tiles_; ///< the grid without the parts

    [[noreturn]] void refuse_split(const char *code, const std::string &why, const std::string &help) const {
        const std::string &func = func_.empty() ? k_.plan.splits.begin()->first : func_;
        refuse(code, fmt::format("the sum of `{}` cannot be dealt to several blocks: {}", func, why),
               k_.plan.splits.at(func).span, {help});
    }

    bool is_split(const Stmt &s) const { return s.as<For>() && !split_in(s).empty(); }

    /// The Func of the plan that the loop adds up, also one whose loop was joined with another's.
    std::string split_in(const Stmt &s) const {
        if (const For *f = s.as<For>()) {
            for (const Carry &c : f->carry) {
                if (k_.plan.splits.count(k_.tile(c.name).func)) {
                    return k_.tile(c.name).func;
                }
            }
        }
        return "";
    }

    /// The statement behind the last loop that is split; all of them must be able to run before anything needs a sum.
    size_t find_loops() {
        std::set<std::string> found, sums;
        size_t end = 0;
        for (size_t i = 0; i < k_.body.size(); i++) {
            const Stmt &s = k_.body[i];
            if (!is_split(s)) {
                continue;
            }
            const std::string func = split_in(s);
            func_ = func_.empty() ? func : func_;
            const int parts = k_.plan.splits.at(func).parts;
            if (parts_ != 0 && parts != parts_) {
                refuse_split("K1186",
                             fmt::format("it is dealt to {}, and that of `{}` in the same kernel to {}",
                                         parts_, func, parts),
                             "give both as many parts");
            }
            parts_ = parts;
            end = i + 1;
            for (const Carry &c : s.as<For>()->carry) {
                found.insert(k_.tile(c.name).func);
                sums.insert(c.name);
            }
        }
        for (const auto &[func, split] : k_.plan.splits) {
            if (!found.count(func)) {
                func_ = func;
                refuse_split(
                    "K1184", "there is no loop around its tile that belongs to the block alone",
                    fmt::format("split its RVar: `{}.update().split(k, ko, ki, 64)`, and run that loop "
                                "inside no other",
                                func));
            }
        }
        for (size_t i = 0; i < k_.body.size(); i++) {
            const std::set<std::string> read = reads(k_, k_.body[i]);
            const bool needs = std::any_of(read.begin(), read.end(), [&](const std::string &t) {
                return sums.count(t) && !carries(k_.body[i], t);
            });
            if (i < end && needs) {
                refuse_split("K1185",
                             fmt::format("`{}` needs it before the last of these sums", k_.body[i].func),
                             "split the last sum alone");
            }
            bool copies = false;
            walk(Body{k_.body[i]}, [&](const Stmt &s) { copies |= s.as<Copy>() != nullptr; });
            if (i >= end && copies && !k_.body[i].as<Copy>()) {
                refuse_split(
                    "K1185",
                    fmt::format("the loop of `{}` behind it copies into shared memory, and runs in one "
                                "of the blocks only",
                                k_.body[i].func),
                    fmt::format("compute `{}` in a kernel of its own, or split its sum", k_.body[i].func));
            }
        }
        return end;
    }

    static bool carries(const Stmt &s, const std::string &tile) {
        const For *f = s.as<For>();
        return f &&
               std::any_of(f->carry.begin(), f->carry.end(), [&](const Carry &c) { return c.name == tile; });
    }

    /// One loop: its share of the iterations; stores of what it comes to; the loop that combines all shares.
    void deal(Stmt &s, Body &stores, Body &last, Body &after) {
        For &f = *s.as<For>();
        // The loop still begins at 0: then a product starts at zero in an iteration that ptxas can tell from the others.
        const Expr trips = simplify(f.hi - f.lo), share = simplify((trips + (parts_ - 1)) / parts_);
        const Expr first = simplify(f.lo + part_ * share);
        f.lo = 0;
        f.hi = simplify(min(share, trips - part_ * share));
        const Expr var = Variable::make(Halide::Int(32), f.var);
        walk(f.body, [&](Stmt &inner) {
            each_expr(inner, [&](Expr &e) { e = replace_variable(e, f.var, first + var); });
        });
        const std::string at = k_.fresh("share");
        For combine{at, Expr(0), Expr(parts_), {}, {}};
        std::vector<SharedComponent> components;
        for (Carry &c : f.carry) {
            const Tile of = k_.tile(c.name);
            const Region mine = workspace(of);
            stores.push_back({Store{mine, c.name}, s.func});
            SharedComponent one{&c, k_.add_tile(of.name + "_all", of.type, of.axes, of.func).name,
                                read(mine, Variable::make(Halide::Int(32), at))};
            components.push_back(std::move(one));
        }
        const std::string why = combine_parts(k_, f, components, combine);
        if (!why.empty()) {
            refuse_split("K1188", why,
                         "a sum, product, maximum, minimum or an associative update of a Tuple can be");
        }
        for (const SharedComponent &c : components) {
            replace_reads(after, c.carry->name, c.all);
        }
        last.push_back({std::move(combine), s.func});
    }

    /// Behind `dims` one dimension for each loop of the grid but that over parts, and that of the part where it is said.
    Region point(const std::string &view, std::vector<ViewDim> dims) const {
        Region r{view, std::move(dims)};
        for (const GridLoop &g : tiles_) {
            r.dims.push_back({Variable::make(Halide::Int(32), g.name), ""});
        }
        return r;
    }

    View &add_view(const std::string &base, Halide::Type type, View::Memory memory,
                   std::vector<Expr> extents) {
        for (const GridLoop &g : tiles_) {
            extents.push_back(g.extent);
        }
        View v{k_.fresh(base), type, 0, false, memory, std::move(extents)};
        k_.views.push_back(std::move(v));
        return k_.views.back();
    }

    std::string counters() {
        View &v = add_view(func_ + "_arrived", Halide::Int(32), View::Memory::Counters, {});
        if (v.extents.empty()) {
            v.extents.push_back(1);
        }
        v.rank = static_cast<int>(v.extents.size());
        return v.name;
    }

    /// This block's share of the tile: rows last, so that neighbours in memory are neighbours in a thread.
    Region workspace(const Tile &t) {
        std::vector<std::string> axes = t.axes;
        std::stable_partition(axes.begin(), axes.end(),
                              [&](const std::string &a) { return a != k_.row_axis; });
        std::vector<Expr> extents;
        std::vector<ViewDim> dims;
        for (const std::string &a : axes) {
            extents.push_back(k_.axes.at(a));
            dims.push_back({0, a});
        }
        View &v = add_view(t.name + "_parts", t.type, View::Memory::Workspace, extents);
        v.extents.push_back(parts_);
        v.rank = static_cast<int>(v.extents.size());
        Region r = point(v.name, dims);
        r.dims.push_back({part_, ""});
        return r;
    }

    /// The share of another part, inside an Expr.
    Expr read(const Region &mine, const Expr &part) const {
        std::vector<Expr> at;
        for (const ViewDim &d : mine.dims) {
            at.push_back(d.axis.empty() ? d.base : k_.axis_var(d.axis));
        }
        at.back() = part;
        return Call::make(k_.view(mine.view)->type, "view:" + mine.view, at, Call::PureExtern);
    }
};

} // namespace

void split_reduce(Kernel &k) {
    SplitReduce(k).run();
}

} // namespace kiln::tile
