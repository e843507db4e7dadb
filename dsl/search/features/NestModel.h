/** \file
 * A schedule's loop nest with numbers in place of names: for each computed definition the loops around it with their
 * extents, what it reads (through inlined Funcs and wrappers) and how addresses move with each loop. What features count.
 */
#pragma once

#include "dsl/schedule/LoopNest.h"
#include "dsl/schedule/Schedule.h"
#include "dsl/search/space/Algorithm.h"
#include "dsl/search/space/Problem.h"

namespace kiln::search {

/// One loop around a definition.
struct ModelLoop {
    const StageNest *stage = nullptr; ///< that it belongs to
    int index = 0;                    ///< there
    LoopKind kind = LoopKind::Serial;
    double extent = 1;
    bool own = false; ///< of the definition's own stage
    bool reduction = false;
};

/// An access, with addresses as functions of the dimensions of its own stage and of the stages around.
struct ModelAccess {
    std::string func;
    bool is_store = false, reads_own = false; ///< the old value of a reduction
    double bytes = 4;                         ///< of an element
    double count = 1;
    int store_depth = 0;        ///< loops of the chain outside of the buffer: they do not move its addresses
    std::vector<double> stored; ///< extents of the buffer
    struct Term {
        const StageNest *stage = nullptr; ///< whose dimension it is
        int dim = -1;                     ///< index in its `dims`; -1: none of them
        double coefficient = 1;
    };
    struct Dim {
        std::vector<Term> terms;
        double spread = 0, limit = 0;
    };
    std::vector<Dim> dims; ///< innermost in storage first
};

/// A definition that has loops of its own.
struct ModelBody {
    const FuncNest *func = nullptr;
    const StageNest *stage = nullptr; ///< the specialization in effect
    std::string name;
    OpCount ops;
    std::vector<ModelAccess> accesses;
    std::vector<ModelLoop> loops; ///< outermost first
    double useful_points = 0;
    double share = 1; ///< of the points at which `where` holds
    bool is_reduction = false;
    double element_bytes = 4;
};

class NestModel {
public:
    /// `canonical` is the schedule that made the nest.
    NestModel(const Problem &problem, const LoopNest &nest, const Schedule &canonical);

    std::vector<ModelBody> bodies; ///< producers first; none of tile kernels' Funcs
    /// Elements of a dimension of `stage` that its loops with index < `level` cover.
    double span(const StageNest &stage, int dim, int level) const;
    static int dim_index(const StageNest &stage, const std::string &dim);
    /// Elements along each dimension that an access touches while the loops at depth >= `depth` of its body run.
    void box(const ModelBody &body, const ModelAccess &access, size_t depth, std::vector<double> &out) const;
    /// The same in bytes of whole lines.
    double lines(const ModelBody &body, const ModelAccess &access, size_t depth, double line_bytes) const;
    /// Distinct bytes that are used of them.
    double bytes(const ModelBody &body, const ModelAccess &access, size_t depth) const;
    /// How far one step of the loop moves the address, in elements of the innermost dimension (0: not at all), and
    /// whether it moves another dimension.
    double step(const ModelBody &body, const ModelAccess &access, size_t loop, bool &other) const;

    double stored_bytes(const std::string &func) const;

private:
    struct StageNumbers {
        std::vector<double> loops;              ///< extents by index
        std::vector<std::vector<double>> spans; ///< by level and dimension
        std::vector<std::vector<char>> roots;   ///< by loop and dimension: whether it runs over it
    };
    struct Reads {
        OpCount ops;
        std::vector<Access> reads;
    };
    const Problem &problem;
    const LoopNest &nest;
    std::map<const StageNest *, StageNumbers> numbers;
    std::map<std::string, std::vector<const StageNest *>> chosen; ///< by Func and stage
    std::map<std::string, std::vector<double>> domain, stored;
    std::map<std::pair<std::string, std::string>, std::vector<double>> boxes; ///< by Func and place
    std::map<std::string, std::vector<size_t>>
        storage; ///< order of the stored dimensions, where a schedule changes it
    std::map<std::string, Reads> inlined;
    std::map<std::pair<std::string, int>, Reads> direct;

    const StageNest *stage_of(const std::string &func, int update) const;
    const StageNest *at_stage(const NestLevel &level) const;
    void refresh(const FuncNest &f);
    const Reads &reads_of(const FuncNest &f, size_t stage);
    Reads through(const FuncNest &reader, const StageAlgorithm &stage, int depth);
    StageAlgorithm stage_algorithm(const FuncNest &f, size_t stage) const;
    const std::vector<double> &box_at(const FuncNest &f, const NestLevel &place);
    std::vector<ModelLoop> chain_of(const NestLevel &level) const;
    void add_body(const FuncNest &f, size_t stage);
    ModelAccess access_of(const ModelBody &body, const Access &read, bool is_store) const;
    void add_terms(ModelAccess::Dim &dim, const FuncNest &f, const StageNest &stage, const std::string &loop,
                   double coefficient, int depth) const;
};

} // namespace kiln::search
