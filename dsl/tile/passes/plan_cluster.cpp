// Clusters: which grid loops their blocks are neighbours along, and which blocks read the same part of a view, so that
// one of them loads it for all.
#include "dsl/tile/passes/Passes.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln::tile {

namespace {

using namespace Halide::Internal;

Expr rank() {
    return Variable::make(Halide::Int(32), "cluster.rank");
}

Expr shifted(int bits, const Expr &by) {
    return is_const_zero(by)
               ? Expr(bits)
               : Call::make(Halide::Int(32), Call::shift_left, {Expr(bits), by}, Call::PureIntrinsic);
}

bool mentions(const Expr &e, const std::string &name) {
    return e.defined() && expr_uses_var(e, name);
}

/// Grid loops that a cluster has several blocks along.
std::vector<std::string> clustered(const Kernel &k) {
    std::vector<std::string> loops;
    for (const GridLoop &g : k.grid) {
        if (g.cluster > 1) {
            loops.push_back(g.name);
        }
    }
    return loops;
}

class Check {
public:
    explicit Check(const Kernel &k) : k_(k) {}

    /// `uneven`: why blocks of one cluster may not run the body equally often, or "".
    void body(const Body &b, const std::string &uneven) {
        for (const Stmt &s : b) {
            if (const Copy *c = s.as<Copy>()) {
                copy(*c, uneven);
            } else if (const For *f = s.as<For>()) {
                body(f->body, uneven.empty() ? by_block(f->var, {f->lo, f->hi}) : uneven);
            } else if (const If *i = s.as<If>()) {
                const std::string why = uneven.empty() ? by_block("a condition", {i->condition}) : uneven;
                body(i->body, why);
                body(i->otherwise, why);
            }
        }
    }

private:
    const Kernel &k_;

    std::string by_block(const std::string &what, const std::vector<Expr> &es) const {
        for (const std::string &loop : clustered(k_)) {
            for (const Expr &e : es) {
                if (mentions(e, loop)) {
                    return fmt::format("how often `{}` runs depends on `{}`", what, loop);
                }
                if (e.defined() && !k_.tiles_of(e).empty()) {
                    return fmt::format("how often `{}` runs depends on what the block computes", what);
                }
            }
        }
        return "";
    }

    void copy(const Copy &c, const std::string &uneven) const {
        auto plan = k_.plan.copies.find(c.from.view);
        if (plan == k_.plan.copies.end() || !plan->second.multicast) {
            return;
        }
        const Span span = plan->second.span;
        const std::string size = fmt::format("cluster({}, {})", k_.plan.cluster_x, k_.plan.cluster_y);
        const int blocks = shared_copy(k_, c).parts;
        if (blocks == 1) {
            refuse("K1125",
                   fmt::format("each block of {} reads another part of `{}`: nothing comes for several", size,
                               c.from.view),
                   span,
                   {fmt::format("leave out the multicast of `{}`, or let the cluster run along a block loop "
                                "that it does not depend on",
                                c.from.view)});
        }
        if (!uneven.empty()) {
            refuse("K1127",
                   fmt::format("`{}` cannot come for several blocks of {} at once: {}", c.from.view, size,
                               uneven),
                   span, {"leave out the multicast: each block loads for itself"});
        }
        const std::string outer = outer_axis(c);
        const int rows = outer.empty() ? 1 : k_.axes.at(outer);
        if (rows % blocks != 0) {
            refuse("K1126",
                   fmt::format("{} blocks of {} read the same {} rows of `{}`, and each is to load an equal "
                               "part of them",
                               blocks, size, rows, c.from.view),
                   span,
                   {fmt::format("take a tile with a multiple of {} rows, or a smaller cluster", blocks)});
        }
    }

    std::string outer_axis(const Copy &c) const {
        std::string last;
        int axes = 0;
        for (const ViewDim &d : c.from.dims) {
            last = d.axis.empty() ? last : d.axis;
            axes += !d.axis.empty();
        }
        return axes < 2 ? "" : last;
    }
};

} // namespace

SharedCopy shared_copy(const Kernel &k, const Copy &c) {
    SharedCopy s;
    auto plan = k.plan.copies.find(c.from.view);
    if (plan == k.plan.copies.end() || !plan->second.multicast) {
        return s;
    }
    auto common = [&](size_t loop) {
        const bool same = loop < k.grid.size() &&
                          std::none_of(c.from.dims.begin(), c.from.dims.end(),
                                       [&](const ViewDim &d) { return mentions(d.base, k.grid[loop].name); });
        return same ? k.grid[loop].cluster : 1;
    };
    const int x = k.grid.empty() ? 1 : k.grid[0].cluster, all = k.cluster_blocks();
    const int along_x = common(0), along_y = common(1);
    s.parts = along_x * along_y;
    if (s.parts == 1) {
        return s;
    }
    if (s.parts == all) {
        s.part = rank();
        s.blocks = (1 << all) - 1;
    } else if (along_x > 1) {
        s.part = rank() % x;
        s.blocks = shifted((1 << x) - 1, rank() / x * x);
    } else {
        int column = 0;
        for (int y = 0; y < along_y; y++) {
            column |= 1 << x * y;
        }
        s.part = rank() / x;
        s.blocks = shifted(column, rank() % x);
    }
    return s;
}

Expr readers_of(const Kernel &k, const std::string &ring) {
    Expr all;
    walk(k.body, [&](const Stmt &s) {
        const Copy *c = s.as<Copy>();
        const SharedCopy shared = c && k.tile(c->dst).ring == ring ? shared_copy(k, *c) : SharedCopy{};
        if (shared.parts == 1 || (all.defined() && equal(all, shared.blocks))) {
            return;
        }
        const bool every = is_const(shared.blocks) || (all.defined() && is_const(all));
        all = !all.defined() ? shared.blocks
              : every
                  ? Expr((1 << k.cluster_blocks()) - 1)
                  : Call::make(Halide::Int(32), Call::bitwise_or, {all, shared.blocks}, Call::PureIntrinsic);
    });
    return all;
}

int count_readers(const Expr &blocks, int rank) {
    const Expr bits = blocks.defined() ? simplify(replace_variable(blocks, "cluster.rank", rank)) : Expr(1);
    auto value = Halide::Internal::as_const_int(bits);
    return value ? __builtin_popcountll(static_cast<unsigned long long>(*value)) : 0;
}

void plan_cluster(Kernel &k) {
    const int x = k.plan.cluster_x, y = k.plan.cluster_y;
    if (x * y <= 1) {
        return;
    }
    if (k.grid.size() < (y > 1 ? 2u : 1u)) {
        refuse("K1128",
               fmt::format("cluster({}, {}) runs along two block loops, and `{}` has {}", x, y, k.name,
                           k.grid.size()),
               k.plan.cluster_span, {fmt::format("write `cluster({})`", x * y)});
    }
    k.grid[0].cluster = x;
    if (y > 1) {
        k.grid[1].cluster = y;
    }
    Check(k).body(k.body, "");
}

} // namespace kiln::tile
