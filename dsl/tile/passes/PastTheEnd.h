/** \file
 * What values are where the coordinate of an axis is at least a limit: what a reduction over that axis must leave out, or
 * what a clamped read repeats there. Answers hold for numbers and infinities; a NaN that takes part is taken for a number,
 * which leaves a NaN in a row that has one in its exponents already.
 */
#pragma once

#include "dsl/tile/ir/Ir.h"

namespace kiln::tile {

/// Constants through the operators that a masked value meets: e^(-inf - x) = 0. Not Halide's simplifier: that takes no
/// account of infinities. What is no constant is taken for a number, not an infinity or a NaN.
Expr fold_step(const Expr &e);

/// Logic and selects over comparisons that are decided.
Expr fold_logic(const Expr &e);

/// `e` with every comparison decided that `axis` >= `limit` decides, and the selects that follow from it. Comparisons of
/// integers only; `limit` must not use the axis.
Expr where_past(const Expr &e, const std::string &axis, const Expr &limit);

class PastTheEnd {
public:
    /// Keeps references: `k` must not change while this is asked.
    PastTheEnd(const Kernel &k, std::string axis, Expr limit);

    /// The value there if it is one constant, else nothing.
    Expr value(const Expr &e);
    Expr tile(const std::string &name);

    /// Extents of views that the answer rests on: each at most what it is paired with.
    std::vector<Expr> assumed;
    /// Takes on trust what holds for buffers of matching extents.
    bool may_assume = false;

private:
    class Mutator;
    bool is_outside(const Region &r);
    bool starts_outside(const std::string &view, size_t d, const Expr &base);

    const Kernel &k_;
    const std::string axis_;
    const Expr limit_;
    std::map<std::string, const Stmt *> definitions_;
    std::map<std::string, Expr> known_;
};

} // namespace kiln::tile
