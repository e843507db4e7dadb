/** \file
 * What the rewriting passes know of arithmetic: sums and products as lists, exponentials, running maxima, and a prover of
 * `<=` that reads the definitions of tiles. Every answer holds for numbers and infinities; where a NaN takes part, both
 * sides of a rewriting that rests on it give NaN.
 */
#pragma once

#include "dsl/tile/ir/Ir.h"

#include <optional>

namespace kiln::tile {

/// One addend of a sum.
struct Term {
    bool negative = false;
    Expr value;
};
/// The addends of nested sums and differences, in order.
std::vector<Term> terms(const Expr &e);
/// Their sum; those that are subtracted last. Zero of float32 where there are none.
Expr sum_of(const std::vector<Term> &terms);
/// The factors of nested products, in order.
std::vector<Expr> factors(const Expr &e);
/// Their product; undefined where there are none.
Expr product_of(const std::vector<Expr> &factors);

/// Structural equality; false where one is undefined.
bool same(const Expr &a, const Expr &b);
/// The value of a constant of floating point.
std::optional<double> number(const Expr &e);
bool is_number(const Expr &e, double value);
/// x where `e` is e^x, else undefined.
Expr exponent(const Expr &e);
/// b where `e` is `b`, but 0 where b is -inf: what a running maximum subtracts. Else undefined.
Expr guarded_from_minus_inf(const Expr &e);
/// Whether `e` is the same for a whole launch: constants and extents of views, and what is computed of them.
bool is_uniform(const Expr &e);
/// Whether the uniform number `e` is proved to be greater than 0: constants, 1/√x and the like.
bool is_positive(const Expr &e);
/// The positive uniform number c and z where `e` is c·z, also inside select(…, c·z, -inf), for which c·-inf = -inf.
struct Scaled {
    Expr factor;
    Expr value;
};
std::optional<Scaled> positive_factor(const Expr &e);

/// `f` for every subexpression, operands first.
Expr rewrite(const Expr &e, const std::function<Expr(const Expr &)> &f);
/// Whether `f` holds for some subexpression.
bool contains(const Expr &e, const std::function<bool(const Expr &)> &f);
/// `by` in place of every subexpression that is the same as `what`.
Expr replace_same(const Expr &e, const Expr &what, const Expr &by);

/// Proves a <= b, at every coordinate and in the same iteration, from maxima, selects and the definitions of tiles. An
/// answer of no means that it knows no proof.
class Prover {
public:
    /// Within a sum over `axis` whose coordinates stay below `limit`, where that is defined.
    explicit Prover(const Kernel &k, std::string axis = "", Expr limit = Expr());

    bool at_most(const Expr &a, const Expr &b) const { return at_most(a, b, 0); }
    /// e <= 0: a difference of two things, or a constant.
    bool not_positive(const Expr &e) const;
    /// Whether `b` is the maximum of `e` over the axis of this prover, so that some element equals it.
    bool is_maximum(const Expr &b, const Expr &e) const;
    /// Whether e = -inf has z = -inf at all coordinates: e is the maximum of z, perhaps scaled, and of other things.
    bool bounds_from_above(const Expr &e, const Expr &z) const;

    /// e^x · e^y as e^(x + y), where both are at most 1; else undefined. b - guarded(b) goes where b is the maximum of
    /// another term: where b = +inf the sum over the axis is NaN either way, where b = -inf that term is too.
    Expr merge_exponents(const Expr &x, const Expr &y) const;

private:
    bool at_most(const Expr &a, const Expr &b, int depth) const;
    /// What a tile is defined as, where that is a map.
    Expr definition(const Expr &tile) const;
    const Reduce *maximum(const Expr &tile) const;

    std::map<std::string, const Stmt *> definitions_;
    std::string axis_;
    Expr limit_;
};

} // namespace kiln::tile
