/** \file
 * Exprs of maps and reductions as C: coordinates are a thread's offset plus digits of the register loop.
 */
#pragma once

#include "dsl/tile/emit/ExprC.h"
#include "dsl/tile/emit/Printer.h"

namespace kiln::tile {

class ElementC : public ExprC {
public:
    /// `digits` null: an Expr that is the same for all threads.
    ElementC(Printer &p, const Digits *digits) : ExprC(p.dialect_), p_(p), digits_(digits) {}

    /// Opens the loops over all digits but the first. What is read from memory is loaded as soon as the loops that it
    /// depends on are open, neighbours along the first digit in few accesses; returns the Expr over what was loaded.
    Halide::Expr open_loops(const Halide::Expr &e);
    void name(const std::string &variable, const std::string &c) { named_[variable] = c; }
    bool nonnegative(const Halide::Expr &e) const override;

    /// "" where every index is inside the view.
    std::string inside(const std::string &view, const std::vector<Halide::Expr> &index, size_t from_dim);

protected:
    std::string variable(const Halide::Internal::Variable *v) override;
    std::string view(const Halide::Internal::Call *c) override;
    std::string fresh() override { return p_.fresh("x"); }

private:
    Printer &p_;
    const Digits *digits_;
    std::map<std::string, std::string> named_;

    std::string load_view(const Halide::Internal::Call *c);
    std::string load_tile(const Tile &t);
    std::string part(Halide::Type t, const std::string &words) const; ///< element e of what was loaded
    int run_of(const Halide::Expr &read) const;                       ///< neighbours that one access takes
    void load_run(const Halide::Expr &read, int count, const std::string &words);
};

} // namespace kiln::tile
