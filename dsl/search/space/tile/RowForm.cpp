// Rows with their reductions.
#include "dsl/search/space/tile/KernelForm.h"

#include <algorithm>

namespace kiln::search {

namespace {

/// Definitions that read `func`, each once.
size_t reading_definitions(const PlanContext &cx, const std::string &func) {
    size_t n = 0;
    for (const std::string &caller : cx.info(func).callers) {
        for (const StageInfo &stage : cx.info(caller).stages) {
            n += std::any_of(stage.reads.begin(), stage.reads.end(),
                             [&](const ReadInfo &r) { return r.func == func; });
        }
    }
    return n;
}

/// Definitions that read `func` where all pure Funcs between are inlined; 2 stands for more too, which keeps the walk short.
size_t final_reads(const PlanContext &cx, const std::string &func) {
    size_t n = 0;
    for (const std::string &caller : cx.info(func).callers) {
        const FuncInfo &f = cx.info(caller);
        n += f.stages.size() == 1 && !f.is_output ? final_reads(cx, caller) : 1;
        if (n >= 2) {
            return 2;
        }
    }
    return n;
}

} // namespace

std::optional<RowKernel> row_kernel(const PlanContext &cx) {
    RowKernel out;
    size_t rank = 0;
    for (const std::string &func : cx.funcs) {
        const FuncInfo &f = cx.info(func);
        if (f.is_extern || f.stages.size() > 2) {
            return std::nullopt;
        }
        if (!f.is_output) {
            continue;
        }
        if (f.stages.size() != 1 || f.args.size() < 2 || (rank != 0 && f.args.size() != rank)) {
            return std::nullopt;
        }
        rank = f.args.size();
        out.outputs.push_back(func);
        out.row_loop = f.args[0];
        out.columns = std::max(out.columns, cx.algorithm(func).extents.at(0));
    }
    for (const std::string &func : cx.funcs) {
        const FuncInfo &f = cx.info(func);
        if (f.is_output) {
            continue;
        }
        if (f.stages.size() == 2) {
            // One value a row: a sum over the only RVar, which runs along dimension 0 of what it reads.
            std::vector<const DimInfo *> rvars;
            for (const DimInfo &d : f.stages[1].dims) {
                if (d.is_rvar) {
                    rvars.push_back(&d);
                }
            }
            bool along = rvars.size() == 1 && f.args.size() == rank - 1 && f.stages[1].is_associative;
            for (const ReadInfo &r : f.stages[1].reads) {
                for (size_t d = 0; along && d < r.indices.size(); d++) {
                    const std::vector<std::string> &loops = r.indices[d].loops;
                    bool reads_along = std::find(loops.begin(), loops.end(), rvars[0]->name) != loops.end();
                    along = !reads_along || d == 0;
                }
            }
            if (!along) {
                return std::nullopt;
            }
            out.reductions.push_back({func, rvars[0]->name});
        } else if (f.args.size() < rank) {
            out.scalars.push_back(func);
        } else if (reading_definitions(cx, func) > 1) {
            out.rows.push_back(func);
        }
    }
    for (const FuncInfo &f : cx.problem.sized.funcs) {
        if (f.is_input && f.args.size() == rank && final_reads(cx, f.name) > 1) {
            out.inputs.push_back(f.name);
            out.inputs_read_directly = out.inputs_read_directly || reading_definitions(cx, f.name) > 1;
        }
    }
    return out.reductions.empty() || out.outputs.empty() ? std::nullopt : std::optional(out);
}

} // namespace kiln::search
