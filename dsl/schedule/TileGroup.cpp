#include "dsl/schedule/TileGroup.h"

#include <algorithm>
#include <set>

namespace kiln {

namespace {

bool marks_kernel(const FuncNest &f) {
    auto it = f.tile.find("tile_kernel");
    return it != f.tile.end() && it->second.args.empty();
}

bool joins(const FuncNest &f, const std::string &kernel) {
    auto it = f.tile.find("tile_kernel");
    return it != f.tile.end() && !it->second.args.empty() && it->second.args[0].text == kernel;
}

/// Funcs that `f` reads, also through inlined ones.
void add_reads(const LoopNest &nest, const FuncNest &f, std::set<std::string> &seen,
               std::vector<const FuncNest *> &found) {
    for (const std::string &name : f.callees) {
        const FuncNest *callee = nest.find(name);
        if (!callee || !seen.insert(name).second) {
            continue;
        }
        if (callee->is_inlined() && !callee->is_input) {
            add_reads(nest, *callee, seen, found);
        } else if (!callee->is_input) {
            found.push_back(callee);
        }
    }
}

} // namespace

bool TileGroup::computes(const std::string &func) const {
    auto is = [&](const FuncNest *f) { return f->name == func; };
    return std::any_of(outputs.begin(), outputs.end(), is) || std::any_of(inside.begin(), inside.end(), is);
}

std::vector<TileGroup> tile_groups(const LoopNest &nest) {
    std::vector<TileGroup> groups;
    for (const FuncNest &f : nest.funcs) {
        if (!marks_kernel(f)) {
            continue;
        }
        TileGroup g;
        g.kernel = &f;
        g.outputs = {&f};
        for (const FuncNest &other : nest.funcs) {
            if (joins(other, f.name)) {
                g.outputs.push_back(&other);
            }
        }
        for (const FuncNest &other : nest.funcs) {
            if (other.compute.kind != NestLevel::Kind::At || g.computes(other.name)) {
                continue;
            }
            for (const LoopNest::Enclosing &e : nest.enclosing(other.compute)) {
                if (std::count(g.outputs.begin(), g.outputs.end(), e.func)) {
                    g.inside.push_back(&other);
                    break;
                }
            }
        }
        std::set<std::string> seen;
        std::vector<const FuncNest *> read;
        for (const auto *list : {&g.outputs, &g.inside}) {
            for (const FuncNest *member : *list) {
                add_reads(nest, *member, seen, read);
            }
        }
        for (const FuncNest *r : read) {
            if (!g.computes(r->name)) {
                g.before.push_back(r);
            }
        }
        groups.push_back(std::move(g));
    }
    return groups;
}

bool in_tile_kernel(const LoopNest &nest, const FuncNest &f) {
    if (!tile_kernel_of(f).empty()) {
        return true;
    }
    const std::vector<LoopNest::Enclosing> around = nest.enclosing(f.compute);
    return std::any_of(around.begin(), around.end(),
                       [](const LoopNest::Enclosing &e) { return !tile_kernel_of(*e.func).empty(); });
}

std::string tile_kernel_of(const FuncNest &f) {
    auto it = f.tile.find("tile_kernel");
    return it == f.tile.end() ? "" : it->second.args.empty() ? f.name : it->second.args[0].text;
}

std::vector<TileDim> tile_dims(const StageNest &stage) {
    std::vector<TileDim> dims;
    for (const DimInfo &d : stage.dims) {
        TileDim t;
        t.var = d.name;
        t.is_rvar = d.is_rvar;
        std::string loop = d.name;
        const LoopStep *step = stage.consumer_of(loop);
        while (step && step->kind == LoopStep::Kind::Rename) {
            loop = step->inner;
            step = stage.consumer_of(loop);
        }
        if (step) {
            t.span = step->span;
            t.loop = step->outer;
            t.size = step->factor;
            t.is_plain =
                step->kind == LoopStep::Kind::Split && stage.find(step->outer) && stage.find(step->inner);
        } else if (const Loop *l = stage.find(loop); l && l->kind == LoopKind::GpuBlock) {
            t.span = l->kind_by;
            t.loop = loop;
            t.size = 1;
        } else {
            t.size = d.extent;
        }
        if (auto whole = stage.tile.find("whole " + loop); whole != stage.tile.end()) {
            t.span = whole->second.span;
            t.is_whole = true;
            t.is_plain = t.is_plain && t.loop.empty();
            t.size = whole->second.args[1].int_value;
        }
        const Loop *outer = t.loop.empty() ? nullptr : stage.find(t.loop);
        t.is_block = outer && outer->kind == LoopKind::GpuBlock;
        dims.push_back(std::move(t));
    }
    return dims;
}

} // namespace kiln
