/** \file
 * What plans and moves ask of a problem: who reads what through inlined Funcs, how much of a Func one iteration of a place
 * needs, natural vector lengths.
 */
#pragma once

#include "dsl/search/space/Algorithm.h"
#include "dsl/search/space/Plan.h"
#include "dsl/search/space/Problem.h"

#include <set>

namespace kiln::search {

class PlanContext {
public:
    explicit PlanContext(const Problem &problem);

    const Problem &problem;
    std::vector<std::string> funcs; ///< that can be scheduled, producers first
    bool is_gpu = false, is_tile = false;
    int units = 1;

    const FuncInfo &info(const std::string &func) const;
    const FuncAlgorithm &algorithm(const std::string &func) const;
    bool is_output(const std::string &func) const { return info(func).is_output; }
    bool has_update(const std::string &func) const { return info(func).stages.size() > 1; }
    /// Lanes of one register for the Func's widest value.
    int native_lanes(const std::string &func) const;
    /// A dimension that no other one should be vectorized before: where its extent allows, the innermost of storage. -1:
    /// none is long enough.
    int natural_vector_dim(const std::string &func) const;
    /// Whether a reduction of the Func runs along elements that lie side by side in what it reads, while no pure
    /// dimension does: what rfactor is for.
    bool reduces_contiguous(const std::string &func) const;
    /// Operations of one value, with those of Funcs that are inlined by `plan`.
    double cost_of(const std::string &func) const;
    /// Whether each reader's reads move alike along a dimension: how much of it one tile needs does not depend on where the
    /// tile lies, as it does where `f(x)` and `f(0)` are read.
    bool read_alike(const std::string &func, size_t dim) const;
    /// Each value is read at most once: inlining it costs nothing.
    bool read_once(const std::string &func) const;

    /// Funcs with loops of their own that read `func`, also through inlined ones.
    std::vector<std::string> readers(const Plan &plan, const std::string &func) const;
    /// Stages of `reader` that read `func`, also through inlined ones.
    std::vector<int> reading_stages(const Plan &plan, const std::string &reader,
                                    const std::string &func) const;
    /// Funcs and levels where `func` may be computed, as far as who reads it tells; the outermost first.
    std::vector<PlanPlace> places(const Plan &plan, const std::string &func) const;

    /// Elements of each dimension that one iteration of the place needs (Root: of the whole call).
    std::vector<int64_t> region(const Plan &plan, const std::string &func, const PlanPlace &place) const;
    /// Sizes of the tiles by level in effect: what `tile` says, within the region that is computed at once and with
    /// each level a multiple of the one below. The first entry is the region itself.
    struct Sizes {
        std::vector<int64_t> domain;
        std::array<std::vector<int64_t>, tile_levels> tile;
    };
    Sizes sizes(const Plan &plan, const std::string &func) const;
    Sizes sizes(const FuncPlan &f, const std::vector<int64_t> &domain) const;

    /// A plan with every Func at root but those that must be inlined, without tiles: where plans start.
    Plan start() const;
    FuncPlan start_func(const std::string &func) const;
    /// Read at places that data decides: the region that is needed has no bound.
    bool must_inline(const std::string &func) const;

private:
    std::map<std::string, bool> must_inline_;
    std::vector<int64_t> region_memo(const Plan &plan, const std::string &func, const PlanPlace &place,
                                     std::map<std::string, std::vector<int64_t>> &memo) const;
};

} // namespace kiln::search
