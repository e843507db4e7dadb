#include "dsl/tile/build/Build.h"
#include "dsl/schedule/apply/Describe.h"
#include "dsl/tile/build/Builder.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln::tile {

using namespace Halide::Internal;

namespace {

Expr loop_var(const std::string &name) {
    return Variable::make(Halide::Int(32), name);
}

Expr extent_of(const std::string &view, int dimension) {
    return Variable::make(Halide::Int(32), fmt::format("{}.extent.{}", view, dimension));
}

Expr blocks_of(const Expr &extent, int size) {
    return simplify(size == 1 ? extent : (extent + (size - 1)) / size);
}

std::string component_name(const Halide::Func &f, int c) {
    const std::string name = schedule_name(f.function());
    return f.outputs() == 1 ? name : fmt::format("{}.{}", name, c);
}

const BlockDim &block_of(const TilePlan &plan, const std::string &func, const std::string &var) {
    auto it =
        std::find_if(plan.blocks.begin(), plan.blocks.end(), [&](const BlockDim &b) { return b.var == var; });
    if (it == plan.blocks.end()) {
        refuse(
            "K1101",
            fmt::format("`{}` is an output of the tile kernel `{}`, and no block size is given for its `{}`",
                        func, plan.kernel, var),
            {},
            {fmt::format("split `{}` of `{}` by a constant and make the outer loop a gpu_block, or give its "
                         "whole extent: "
                         "`{}.whole({}, n)`",
                         var, func, func, var)});
    }
    return *it;
}

} // namespace

Builder::Builder(Kernel &k, const TilePlan &plan) : k_(k), plan_(plan), axes_(k) {}

const std::string *Builder::output_axis(const BlockDim &block) {
    if (block.size == 1 && !block.loop.empty()) {
        return nullptr;
    }
    auto it = output_axes_.find(block.var);
    if (it == output_axes_.end()) {
        it = output_axes_.emplace(block.var, axes_.make(block.var, block.size)).first;
        if (block.var == plan_.rows) {
            k_.row_axis = it->second;
        }
    }
    return &it->second;
}

std::vector<ViewDim> Builder::output_region(const Halide::Func &f) {
    std::vector<ViewDim> region;
    for (const Halide::Var &v : f.args()) {
        const BlockDim &block = block_of(plan_, schedule_name(f.function()), v.name());
        const std::string *axis = output_axis(block);
        const Expr base = block.loop.empty() ? Expr(0) : simplify(loop_var(block.loop) * block.size);
        region.push_back({base, axis ? *axis : ""});
    }
    return region;
}

void Builder::add_grid_loop(const std::string &func, int dimension, const BlockDim &block) {
    const Expr extent = extent_of(func, dimension);
    if (block.loop.empty()) {
        k_.conditions.push_back(extent <= block.size);
        return;
    }
    const Expr blocks = blocks_of(extent, block.size);
    for (GridLoop &g : k_.grid) {
        if (g.name != block.loop) {
            continue;
        }
        if (!g.extent.defined()) {
            g.extent = blocks;
        } else if (!equal(g.extent, blocks)) {
            k_.conditions.push_back(blocks <= g.extent); // else blocks of the later output would be missing
        }
    }
}

void Builder::make_outputs(const std::vector<Halide::Func> &outputs) {
    for (const std::string &g : plan_.grid) {
        k_.grid.push_back({g, Expr()});
    }
    for (const BlockDim &b : plan_.blocks) {
        k_.fresh(b.loop);
    }
    // Those of most dimensions first: what they need holds what the others need.
    std::vector<Halide::Func> sorted = outputs;
    std::stable_sort(sorted.begin(), sorted.end(), [](const Halide::Func &a, const Halide::Func &b) {
        return a.dimensions() > b.dimensions();
    });

    struct Wanted {
        Halide::Func f;
        std::vector<ViewDim> region;
        std::set<std::string> serial; ///< loops inside the kernel
    };
    std::vector<Wanted> wanted;
    for (const Halide::Func &f : sorted) {
        const std::string name = schedule_name(f.function());
        Wanted w{f, output_region(f), {}};
        for (int d = 0; d < f.dimensions(); d++) {
            const BlockDim &block = block_of(plan_, name, f.args()[d].name());
            add_grid_loop(component_name(f, 0), d, block);
            if (!block.loop.empty() &&
                std::find(plan_.grid.begin(), plan_.grid.end(), block.loop) == plan_.grid.end()) {
                w.serial.insert(block.loop);
            }
        }
        axes_.keep_apart([&] {
            std::vector<std::string> axes;
            for (const ViewDim &d : w.region) {
                if (!d.axis.empty()) {
                    axes.push_back(d.axis);
                }
            }
            return axes;
        }());
        wanted.push_back(std::move(w));
    }
    std::erase_if(k_.grid, [&](const GridLoop &g) { return !g.extent.defined(); });

    scopes_.push_back({&k_.body, {}});
    std::map<std::set<std::string>, std::vector<const Wanted *>> nests;
    for (const Wanted &w : wanted) {
        nests[w.serial].push_back(&w);
    }
    for (const auto &[loops, members] : nests) {
        // From the outermost in; the body is moved into its loop when it is done.
        std::vector<std::unique_ptr<Body>> bodies;
        for (size_t i = 0; i < loops.size(); i++) {
            bodies.push_back(std::make_unique<Body>());
            scopes_.push_back({bodies.back().get(), {}});
        }
        for (const Wanted *w : members) {
            const std::string func = schedule_name(w->f.function());
            for (int c = 0; c < w->f.outputs(); c++) {
                Store store;
                store.to = {component_name(w->f, c), w->region};
                store.src = func_tile(w->f.function(), c, w->region);
                put({store, func});
            }
        }
        for (auto loop = loops.rbegin(); loop != loops.rend(); ++loop) {
            For nest;
            nest.var = *loop;
            nest.lo = 0;
            const Wanted &w = *members.front();
            for (int d = 0; d < w.f.dimensions(); d++) {
                const BlockDim &block = block_of(plan_, "", w.f.args()[d].name());
                if (block.loop == *loop) {
                    nest.hi = blocks_of(extent_of(component_name(w.f, 0), d), block.size);
                }
            }
            nest.body = std::move(*bodies.back());
            bodies.pop_back();
            scopes_.pop_back();
            put({std::move(nest), schedule_name(w.f.function())});
        }
    }
    for (const Halide::Func &f : outputs) {
        for (int c = 0; c < f.outputs(); c++) {
            k_.views.push_back({component_name(f, c), f.types()[c], f.dimensions(), true});
        }
    }
}

void Builder::finish() {
    if (!plan_.rows.empty() && k_.row_axis.empty()) {
        refuse(
            "K1108",
            fmt::format(
                "the rows of the tile kernel `{}` are to be dealt along `{}`, which is no Var of an output "
                "and no RVar inside a tile",
                plan_.kernel, plan_.rows));
    }
    for (ClampedRead &read : clamped_) {
        read.axis = axes_.find(read.axis);
    }
    axes_.resolve();
    prove_clamped_reads(k_, clamped_);
}

Kernel build_kernel(const TilePlan &plan, const std::vector<Halide::Func> &outputs) {
    Kernel k;
    k.name = plan.kernel;
    k.plan = plan;
    Builder b(k, plan);
    b.make_outputs(outputs);
    b.finish();
    return k;
}

} // namespace kiln::tile
