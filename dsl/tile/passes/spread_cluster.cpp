// A tile that the blocks of a cluster hold together: each gets an equal part of one axis, and what is reduced over that axis
// is reduced over the parts of all of them.
#include "dsl/tile/passes/Passes.h"

#include <fmt/format.h>

namespace kiln::tile {

namespace {

using namespace Halide::Internal;

/// The axis of the tile along that Var of the kernel's Func.
std::string axis_of(const Kernel &k, const std::string &var) {
    size_t dimension = 0;
    while (dimension < k.plan.blocks.size() && k.plan.blocks[dimension].var != var) {
        dimension++;
    }
    std::string axis;
    walk(k.body, [&](const Stmt &s) {
        const Store *store = s.as<Store>();
        if (store && axis.empty() && s.func == k.plan.kernel && dimension < store->to.dims.size()) {
            axis = store->to.dims[dimension].axis;
        }
    });
    return axis;
}

} // namespace

void spread_cluster(Kernel &k) {
    const int blocks = k.plan.spread_blocks;
    if (blocks <= 1) {
        return;
    }
    const std::string axis = axis_of(k, k.plan.spread);
    if (axis.empty()) {
        refuse(
            "K1154",
            fmt::format("`{}` is no dimension of the tile of `{}`: a cluster has nothing to spread it over",
                        k.plan.spread, k.plan.kernel),
            k.plan.spread_span, {"name a Var that one tile spans: `whole(j, 131072).spread(j, 8)`"});
    }
    const int extent = k.axes.at(axis), part = extent / blocks;
    if (part * blocks != extent) {
        refuse("K1154",
               fmt::format("{} elements along `{}` over {} blocks: each needs the same number", extent,
                           k.plan.spread, blocks),
               k.plan.spread_span, {fmt::format("let the tile span a multiple of {}", blocks)});
    }
    if (k.plan.producers > 0) {
        walk(k.body, [&](const Stmt &s) {
            if (s.as<Copy>()) {
                refuse(
                    "K1154",
                    fmt::format("a producer copies for `{}`, and blocks of a cluster that share a tile have "
                                "threads of one role only",
                                k.plan.kernel),
                    k.plan.spread_span,
                    {"write `warpgroups(…, producers = 0)`, or keep the input in Register"});
            }
        });
    }
    k.axes[axis] = part;
    k.grid.insert(k.grid.begin(), GridLoop{k.fresh(k.plan.spread + "_part"), Expr(blocks), blocks});
    const Expr start = Variable::make(Halide::Int(32), "cluster.rank") * part;
    const std::string at = "%" + axis;
    auto shift = [&](Region &r) {
        for (ViewDim &d : r.dims) {
            if (d.axis == axis) {
                d.base = simplify(d.base + start);
            }
        }
    };
    walk(k.body, [&](Stmt &s) {
        each_expr(s, [&](Expr &e) {
            if (e.defined() && expr_uses_var(e, at)) {
                e = replace_variable(e, at, Variable::make(Halide::Int(32), at) + start);
            }
        });
        if (Copy *c = s.as<Copy>()) {
            shift(c->from);
        } else if (Store *store = s.as<Store>()) {
            shift(store->to);
        } else if (Reduce *r = s.as<Reduce>(); r && r->axis == axis) {
            r->blocks = blocks;
        } else if (const Mma *m = s.as<Mma>(); m && m->axis == axis) {
            refuse(
                "K1154",
                fmt::format("the product in `{}` sums along `{}`, which the blocks of a cluster share: only "
                            "reductions meet over a cluster",
                            s.func, k.plan.spread),
                k.plan.spread_span, {"spread another Var, or deal the sum to blocks: `split_reduce`"});
        }
    });
    k.remarks.push_back(fmt::format("spread_cluster: {} blocks hold a tile together, {} of `{}` each", blocks,
                                    part, k.plan.spread));
}

} // namespace kiln::tile
