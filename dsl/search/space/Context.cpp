#include "dsl/search/space/Context.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kiln::search {

PlanContext::PlanContext(const Problem &problem) : problem(problem) {
    is_gpu = problem.target.backend != Backend::Cpu;
    is_tile = problem.target.backend == Backend::Cuda && problem.target.feature == "sm_90a";
    units = std::max(1, problem.device.units);
    for (const FuncInfo &f : problem.info.funcs) {
        if (!f.is_input) {
            funcs.push_back(f.name);
        }
        bool from_data = false;
        for (const std::string &caller : f.callers) {
            for (const StageInfo &stage : problem.info.find(caller)->stages) {
                for (const ReadInfo &read : stage.reads) {
                    for (const IndexInfo &index : read.indices) {
                        from_data = from_data || (read.func == f.name && index.from_data);
                    }
                }
            }
        }
        must_inline_[f.name] = from_data && f.can_be_inlined && !f.is_output;
    }
}

const FuncInfo &PlanContext::info(const std::string &func) const {
    return *problem.sized.find(func);
}

const FuncAlgorithm &PlanContext::algorithm(const std::string &func) const {
    return *problem.algorithm->find(func);
}

bool PlanContext::must_inline(const std::string &func) const {
    return must_inline_.at(func);
}

int PlanContext::native_lanes(const std::string &func) const {
    int64_t bytes = 1;
    for (const std::string &type : info(func).types) {
        FuncInfo one;
        one.types = {type};
        bytes = std::max(bytes, one.bytes_per_element());
    }
    // 16-bit integers are computed as such, narrow floats in 32 bits.
    return static_cast<int>(std::clamp<int64_t>(problem.device.limits.lanes * 4 / bytes, 1, 32));
}

int PlanContext::natural_vector_dim(const std::string &func) const {
    const FuncAlgorithm &f = algorithm(func);
    int lanes = is_gpu ? 1 : native_lanes(func);
    for (size_t d = 0; d < std::min<size_t>(f.extents.size(), 2); d++) {
        if (f.extents[d] >= lanes) {
            return static_cast<int>(d);
        }
    }
    return -1;
}

bool PlanContext::reduces_contiguous(const std::string &func) const {
    const FuncInfo &f = info(func);
    const FuncAlgorithm &a = algorithm(func);
    for (size_t s = 1; s < f.stages.size(); s++) {
        bool pure = false, reduced = false;
        for (const Access &read : a.stages[s].reads) {
            // What does not move with the reduction (the mean of a row, say) is read once for a whole sum.
            bool moves = std::any_of(read.dims.begin(), read.dims.end(), [&](const AccessDim &dim) {
                return std::any_of(dim.terms.begin(), dim.terms.end(), [&](const AccessDim::Term &t) {
                    return std::any_of(f.stages[s].dims.begin(), f.stages[s].dims.end(),
                                       [&](const DimInfo &d) { return d.is_rvar && d.name == t.loop; });
                });
            });
            if (!moves) {
                continue;
            }
            for (const AccessDim::Term &t : read.dims[0].terms) {
                for (const DimInfo &d : f.stages[s].dims) {
                    (d.is_rvar ? reduced : pure) |= d.name == t.loop && std::abs(t.coefficient) == 1;
                }
            }
        }
        if (reduced && !pure && f.stages[s].is_associative) {
            return true;
        }
    }
    return false;
}

double PlanContext::cost_of(const std::string &func) const {
    const OpCount &o = algorithm(func).stages[0].ops;
    return o.adds + o.muls + 8 * o.divs + o.special_cost + o.compares + o.ints +
           static_cast<double>(algorithm(func).stages[0].reads.size());
}

bool PlanContext::read_alike(const std::string &func, size_t dim) const {
    for (const std::string &caller : info(func).callers) {
        const IndexInfo *first = nullptr;
        for (const StageInfo &stage : info(caller).stages) {
            for (const ReadInfo &read : stage.reads) {
                if (read.func != func || dim >= read.indices.size()) {
                    continue;
                }
                const IndexInfo &index = read.indices[dim];
                if (!index.is_affine || (first && index.terms != first->terms)) {
                    return false;
                }
                first = &index;
            }
        }
    }
    return true;
}

bool PlanContext::read_once(const std::string &func) const {
    double reads = 0;
    bool elementwise = true;
    for (const std::string &caller : info(func).callers) {
        const FuncAlgorithm &c = algorithm(caller);
        for (size_t s = 0; s < c.stages.size(); s++) {
            std::set<std::string> loops;
            for (const Access &read : c.stages[s].reads) {
                if (read.func != func) {
                    continue;
                }
                reads += read.count;
                for (const AccessDim &d : read.dims) {
                    for (const AccessDim::Term &t : d.terms) {
                        loops.insert(t.loop);
                    }
                }
                elementwise = elementwise && loops.size() >= info(caller).stages[s].dims.size();
            }
        }
    }
    return reads <= 1 && elementwise;
}

std::vector<std::string> PlanContext::readers(const Plan &plan, const std::string &func) const {
    std::vector<std::string> out;
    std::set<std::string> seen;
    std::vector<std::string> work = {func};
    while (!work.empty()) {
        std::string at = work.back();
        work.pop_back();
        for (const std::string &caller : info(at).callers) {
            if (!seen.insert(caller).second) {
                continue;
            }
            auto it = plan.funcs.find(caller);
            if (it != plan.funcs.end() && it->second.place.where == Where::Inline) {
                work.push_back(caller);
            } else {
                out.push_back(caller);
            }
        }
    }
    return out;
}

std::vector<int> PlanContext::reading_stages(const Plan &plan, const std::string &reader,
                                             const std::string &func) const {
    // Everything that reads `func` through inlined Funcs, and `func` itself.
    std::set<std::string> through = {func};
    std::vector<std::string> work = {func};
    while (!work.empty()) {
        std::string at = work.back();
        work.pop_back();
        for (const std::string &caller : info(at).callers) {
            auto it = plan.funcs.find(caller);
            if (it != plan.funcs.end() && it->second.place.where == Where::Inline &&
                through.insert(caller).second) {
                work.push_back(caller);
            }
        }
    }
    std::vector<int> out;
    const FuncAlgorithm &r = algorithm(reader);
    for (size_t s = 0; s < r.stages.size(); s++) {
        for (const Access &read : r.stages[s].reads) {
            if (through.count(read.func)) {
                out.push_back(static_cast<int>(s));
                break;
            }
        }
    }
    return out;
}

std::vector<PlanPlace> PlanContext::places(const Plan &plan, const std::string &func) const {
    // The hosts around each reader, itself first; what all have in common is where `func` may go.
    std::vector<std::vector<PlanPlace>> chains;
    for (const std::string &reader : readers(plan, func)) {
        std::vector<PlanPlace> chain;
        for (int level = has_update(reader) ? Reduce : Block; level >= Task; level--) {
            chain.push_back({Where::At, reader, level});
        }
        std::string at = reader;
        for (size_t depth = 0; depth < plan.funcs.size(); depth++) {
            auto it = plan.funcs.find(at);
            if (it == plan.funcs.end() || it->second.place.where != Where::At) {
                break;
            }
            for (int level = it->second.place.level; level >= Task; level--) {
                chain.push_back({Where::At, it->second.place.host, level});
            }
            at = it->second.place.host;
        }
        chains.push_back(std::move(chain));
    }
    std::vector<PlanPlace> out;
    if (chains.empty()) {
        return out;
    }
    for (const PlanPlace &p : chains[0]) {
        bool everywhere = std::all_of(chains.begin(), chains.end(), [&](const std::vector<PlanPlace> &chain) {
            return std::find(chain.begin(), chain.end(), p) != chain.end();
        });
        if (everywhere && p.host != func) {
            out.push_back(p);
        }
    }
    std::reverse(out.begin(), out.end());
    return out;
}

std::vector<int64_t> PlanContext::region(const Plan &plan, const std::string &func,
                                         const PlanPlace &place) const {
    std::map<std::string, std::vector<int64_t>> memo;
    return region_memo(plan, func, place, memo);
}

std::vector<int64_t> PlanContext::region_memo(const Plan &plan, const std::string &func,
                                              const PlanPlace &place,
                                              std::map<std::string, std::vector<int64_t>> &memo) const {
    const FuncAlgorithm &f = algorithm(func);
    if (place.where != Where::At || info(func).is_output) {
        return f.extents;
    }
    auto [slot, fresh] = memo.emplace(func, f.extents);
    if (!fresh) {
        return slot->second;
    }
    std::vector<int64_t> most(f.extents.size(), 1);
    for (const std::string &caller : info(func).callers) {
        const FuncAlgorithm &c = algorithm(caller);
        bool is_host = caller == place.host;
        std::vector<int64_t> domain;
        Sizes host;
        if (is_host) {
            host = sizes(plan, caller);
        } else {
            domain = region_memo(plan, caller, place, memo);
        }
        const FuncInfo &ci = info(caller);
        const FuncPlan *cp = plan.funcs.count(caller) ? &plan.funcs.at(caller) : nullptr;
        for (size_t s = 0; s < c.stages.size(); s++) {
            auto extent = [&](const std::string &loop) -> double {
                for (size_t a = 0; a < ci.args.size(); a++) {
                    if (ci.args[a] == loop) {
                        if (!is_host) {
                            return a < domain.size() ? static_cast<double>(domain[a]) : 1;
                        }
                        int level = std::min<int>(place.level, Block);
                        return static_cast<double>(host.tile[level][a]);
                    }
                }
                bool innermost = true;
                for (const DimInfo &d : ci.stages[s].dims) {
                    if (d.is_rvar && d.name == loop) {
                        double whole = d.extent ? static_cast<double>(*d.extent) : 64;
                        if (!is_host || place.level < Reduce) {
                            return whole;
                        }
                        // At the reduction's loop: one step of it.
                        return innermost && cp && cp->reduce > 0 ? std::min<double>(whole, cp->reduce) : 1;
                    }
                    innermost = innermost && !d.is_rvar;
                }
                return 1;
            };
            for (const Access &read : c.stages[s].reads) {
                for (size_t d = 0; read.func == func && d < most.size() && d < read.dims.size(); d++) {
                    int64_t n = static_cast<int64_t>(std::ceil(read.dims[d].elements(extent)));
                    most[d] = std::max(most[d], std::min(n, std::max<int64_t>(1, f.extents[d])));
                }
            }
        }
    }
    return memo[func] = most;
}

PlanContext::Sizes PlanContext::sizes(const Plan &plan, const std::string &func) const {
    const FuncPlan &f = plan.funcs.at(func);
    return sizes(f, region(plan, func, f.place));
}

PlanContext::Sizes PlanContext::sizes(const FuncPlan &f, const std::vector<int64_t> &domain) const {
    Sizes out;
    out.domain = domain;
    for (size_t d = 0; d < domain.size(); d++) {
        int64_t above = std::max<int64_t>(1, domain[d]);
        for (int level = Task; level < tile_levels; level++) {
            int64_t t = d < f.tile[level].size() ? f.tile[level][d] : 0;
            bool is_vector = static_cast<int>(d) == f.vector_dim;
            if (level == Block && t == 0) {
                t = is_vector ? f.lanes : 1;
            }
            if (t <= 0 || (level == Task && f.place.where == Where::At)) {
                t = above;
            }
            t = std::min(t, above);
            out.tile[level].push_back(t);
            above = t;
        }
        // Each level a multiple of the one below, so that only the outermost split has a tail.
        for (int level = Inner; level >= Task; level--) {
            int64_t below = out.tile[level + 1][d], &mine = out.tile[level][d];
            if (mine < domain[d] && mine % below != 0) {
                mine = std::min(domain[d], (mine + below - 1) / below * below);
            }
        }
    }
    return out;
}

FuncPlan PlanContext::start_func(const std::string &func) const {
    FuncPlan f;
    size_t dims = info(func).args.size();
    for (auto &tile : f.tile) {
        tile.assign(dims, 0);
    }
    for (size_t d = 0; d < dims; d++) {
        f.order.push_back(static_cast<int>(d));
    }
    f.vector_dim = is_gpu ? -1 : natural_vector_dim(func);
    f.lanes = f.vector_dim < 0 ? 1 : native_lanes(func);
    f.tail = has_update(func) ? Tail::Guard : Tail::Shift;
    return f;
}

Plan PlanContext::start() const {
    Plan plan;
    for (const std::string &func : funcs) {
        FuncPlan f = start_func(func);
        if (must_inline(func)) {
            f.place.where = Where::Inline;
        }
        plan.funcs[func] = std::move(f);
    }
    return plan;
}

} // namespace kiln::search
