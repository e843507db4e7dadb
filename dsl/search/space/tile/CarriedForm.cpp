// Loops over blocks that carry a result.
#include "dsl/search/space/tile/KernelForm.h"

#include <algorithm>
#include <functional>

namespace kiln::search {

namespace {

const DimInfo *only_rvar(const StageInfo &stage) {
    const DimInfo *found = nullptr;
    for (const DimInfo &d : stage.dims) {
        if (d.is_rvar && found) {
            return nullptr;
        }
        found = d.is_rvar ? &d : found;
    }
    return found;
}

bool depends_on(const ReadInfo &read, const std::string &loop) {
    return std::any_of(read.indices.begin(), read.indices.end(), [&](const IndexInfo &i) {
        return std::find(i.loops.begin(), i.loops.end(), loop) != i.loops.end();
    });
}

/// Funcs that `func`'s update computes in each step, with what those read; inputs left out.
void gather(const PlanContext &cx, const std::string &func, std::set<std::string> &found) {
    for (const StageInfo &stage : cx.info(func).stages) {
        for (const ReadInfo &read : stage.reads) {
            const FuncInfo &f = cx.info(read.func);
            if (!f.is_input && found.insert(read.func).second) {
                gather(cx, read.func, found);
            }
        }
    }
}

/// Whether the Func's value comes from an update: it is no mere copy of an input.
bool is_computed(const PlanContext &cx, const std::string &func) {
    std::set<std::string> below = {func};
    gather(cx, func, below);
    return std::any_of(below.begin(), below.end(), [&](const std::string &f) { return cx.has_update(f); });
}

} // namespace

std::optional<CarriedKernel> carried_kernel(const PlanContext &cx) {
    CarriedKernel out;
    for (const std::string &func : cx.funcs) {
        const FuncInfo &f = cx.info(func);
        const DimInfo *loop = f.stages.size() == 2 ? only_rvar(f.stages[1]) : nullptr;
        if (!loop) {
            continue;
        }
        size_t joined = 0, other = 0;
        for (const ReadInfo &read : f.stages[1].reads) {
            if (!cx.info(read.func).is_input && is_computed(cx, read.func)) {
                (depends_on(read, loop->name) ? joined : other)++;
            }
        }
        if (joined >= 2 && other == 0) {
            out.carrier = func;
            out.loop = loop->name;
        }
    }
    if (out.carrier.empty()) {
        return std::nullopt;
    }
    std::set<std::string> members;
    gather(cx, out.carrier, members);
    for (const std::string &func : cx.funcs) {
        if (!members.count(func)) {
            if (cx.has_update(func) && func != out.carrier) {
                return std::nullopt; // more than the kernel computes
            }
            continue;
        }
        if (auto product = product_form(cx, func)) {
            out.products.push_back(std::move(*product));
        }
        if (is_computed(cx, func)) {
            out.inside.push_back(func);
        }
    }
    if (out.products.size() < 2 || out.products.front().rows.buffer.empty()) {
        return std::nullopt;
    }
    // The output that has the last product's column; its rows are the first product's.
    out.column = out.products.back().column;
    out.row = out.products.front().row;
    for (const std::string &func : cx.funcs) {
        const FuncInfo &f = cx.info(func);
        if (!f.is_output) {
            continue;
        }
        auto has = [&](const std::string &arg) {
            return std::find(f.args.begin(), f.args.end(), arg) != f.args.end();
        };
        if (!has(out.row)) {
            return std::nullopt;
        }
        if (!has(out.column)) {
            out.extra.push_back(func);
        } else if (out.output.empty()) {
            out.output = func;
        } else {
            return std::nullopt;
        }
    }
    if (out.output.empty() || cx.has_update(out.output)) {
        return std::nullopt;
    }
    for (const std::string &arg : cx.info(out.output).args) {
        if (arg != out.row && arg != out.column) {
            out.batch.push_back(arg);
        }
    }
    return out;
}

} // namespace kiln::search
