/** \file
 * Axes while a kernel is built. Each Var and RVar that runs inside a tile starts as an axis of its own; where a tile is
 * read that exists already, the reader's axes and the tile's become one. `resolve` gives each class one name.
 */
#pragma once

#include "dsl/tile/ir/Ir.h"

namespace kiln::tile {

class AxisTable {
public:
    explicit AxisTable(Kernel &k) : k_(k) {}

    /// A new axis of `extent` coordinates.
    std::string make(const std::string &base, int extent);
    int extent(const std::string &axis) const;
    /// The axis that stands for the class of `axis`.
    std::string find(std::string axis) const;
    /// Axes of one tile are different however much they look alike: x·xᵀ is no vector of squares.
    void keep_apart(const std::vector<std::string> &axes);
    bool can_unify(const std::string &a, const std::string &b) const;
    void unify(const std::string &a, const std::string &b);

    /// The axes that the value depends on, the first made first.
    std::vector<std::string> axes_of(const Expr &e) const;
    std::vector<std::string> in_order(const std::set<std::string> &axes) const;
    Expr var(const std::string &axis) const { return k_.axis_var(axis); }
    /// Integers: simplified, knowing the range of every axis.
    Expr simplify(const Expr &e) const;
    /// `index` as base + axis, or nothing.
    std::optional<ViewDim> dim_of(const Expr &index) const;

    /// Writes the names of the classes into the kernel and its table of axes.
    void resolve();

private:
    Kernel &k_;
    std::vector<std::string> order_;
    std::map<std::string, std::string> up_;
    std::map<std::string, std::set<std::string>> apart_; ///< of class heads
};

} // namespace kiln::tile
