/** \file
 * The state while a kernel is built, and its steps. Inside dsl/tile/build only.
 */
#pragma once

#include "dsl/tile/build/Axes.h"
#include "dsl/tile/build/Clamps.h"
#include "dsl/tile/build/Depends.h"

namespace kiln::tile {

struct ProductForm;

class Builder {
public:
    Builder(Kernel &k, const TilePlan &plan);

    // ---- Build.cpp
    void make_outputs(const std::vector<Halide::Func> &outputs);
    void finish();

private:
    using Function = Halide::Internal::Function;
    using Definition = Halide::Internal::Definition;
    using Values = std::vector<Expr>;

    /// What a read of the same region gives again.
    struct Memo {
        std::string tile;
        std::vector<ViewDim> dims;
    };
    /// A body under construction; what it defines is seen in the bodies inside it.
    struct Scope {
        Body *out = nullptr;
        std::map<std::string, std::vector<Memo>> memo; ///< by Func and component, or by view
    };
    /// What reads of a Func by its own update mean.
    struct Self {
        std::string func;
        Values args, values;
    };

    const std::string *output_axis(const BlockDim &block);
    std::vector<ViewDim> output_region(const Halide::Func &f);
    void add_grid_loop(const std::string &func, int dimension, const BlockDim &block);

    // ---- Reads.cpp
    /// The value with every read replaced by a tile, a view call or the inlined definition.
    Expr value(const Expr &e);
    Expr read_view(const std::string &name, Halide::Type type, const std::vector<Expr> &args);
    Expr read_func(Function f, int component, const std::vector<Expr> &args);
    Expr inlined(const Function &f, int component, const std::vector<Expr> &args);
    /// The tile of component `c` of `f` over the region, made if there is none.
    std::string func_tile(const Function &f, int component, const std::vector<ViewDim> &region);
    /// A copy of the region that a view call reads, or "" where its indices are not base + axis.
    std::string copy_tile(const Halide::Internal::Call *view);
    const Memo *recall(const std::string &key, const std::vector<ViewDim> &dims);
    void remember(const std::string &key, const std::vector<ViewDim> &dims, const std::string &tile);
    friend class ReadMutator;

    // ---- statements
    void put(Stmt s);
    std::string new_tile(const std::string &base, Halide::Type type, const std::vector<std::string> &axes,
                         const std::string &func);
    std::string map_tile(const std::string &base, const Expr &e, const std::string &func);
    std::string map_tile(const std::string &base, const Expr &e, const std::string &func,
                         const std::vector<std::string> &axes);
    Expr coordinate(const ViewDim &d) const;

    // ---- Updates.cpp
    struct TileRVar {
        std::string axis;
        Expr limit; ///< coordinates that count; undefined: all
    };
    struct SerialRVar {
        std::string loop;
        Expr trips;
    };
    struct Update {
        Function f;
        std::string func; ///< as the schedule names it
        Values at;        ///< coordinates of the element
        Values values;    ///< new values, not yet read
        Expr predicate;   ///< undefined: always
        std::vector<TileRVar> in_tile;
        std::vector<SerialRVar> loops; ///< the outermost first
        std::vector<std::vector<std::string>> carried_axes;
    };
    std::vector<std::string> make_tiles(const Function &f, const std::vector<ViewDim> &region);
    Update read_update(const Function &f, int index, const std::vector<ViewDim> &region, const Values &at);
    void read_rvar(Update &u, const Halide::Internal::ReductionVariable &rv, const std::string &name,
                   std::map<std::string, Expr> &replace);
    bool becomes_limit(Update &u, const Expr &condition);
    Values run_update(const Update &u, size_t level, const Values &start);
    Values one_step(const Update &u, const Values &start);

    // ---- Products.cpp
    /// Reduction of `e` over the update's axes; a sum of products becomes Mma.
    Expr reduce_in_tile(const Update &u, ReduceOp op, const Expr &e);
    Expr emit_product(const Update &u, const TileRVar &over, const ProductForm &form);
    std::string operand(const Expr &e, const std::string &base, const std::string &func);

    Kernel &k_;
    const TilePlan &plan_;
    AxisTable axes_;
    Dependence depends_;
    std::vector<Scope> scopes_;
    std::vector<Self> selfs_;
    std::vector<ClampedRead> clamped_;
    std::map<std::string, std::string> output_axes_; ///< Var -> axis
};

/// Factors of a product, or terms of a sum.
std::vector<Expr> factors_of(const Expr &e);
std::vector<Expr> terms_of(const Expr &e);

} // namespace kiln::tile
