/** \file
 * A Halide Expr as a C expression. Names and views are answered by whoever prints: they know where an element lies.
 */
#pragma once

#include "dsl/tile/emit/Dialect.h"

#include <functional>
#include <map>

namespace kiln::tile {

class ExprC {
public:
    explicit ExprC(Dialect &dialect) : dialect_(dialect) {}
    virtual ~ExprC() = default;

    /// In brackets where it is more than a name, a number or a call.
    std::string print(const Halide::Expr &e);

    /// Shared parts become variables of their own, declared by `declare("const float t3", "…")`; returns the rest.
    std::string print_shared(const Halide::Expr &e,
                             const std::function<void(const std::string &, const std::string &)> &declare);

    /// `value` of `from` as a value of type `to`, as Halide's cast has it.
    std::string cast(Halide::Type to, Halide::Type from, const std::string &value);
    std::string literal(Halide::Type type, double value) const;

    /// Whether `e` cannot be negative, given that coordinates, loops and extents are not.
    virtual bool nonnegative(const Halide::Expr &e) const;

protected:
    virtual std::string variable(const Halide::Internal::Variable *v) = 0;
    /// The pure call `view:x`.
    virtual std::string view(const Halide::Internal::Call *c) = 0;
    /// A name that the text does not have yet.
    virtual std::string fresh() = 0;

    Dialect &dialect_;

private:
    std::map<std::string, std::string> lets_;

    std::string binary(const Halide::Expr &whole, const Halide::Expr &a, const char *op,
                       const Halide::Expr &b);
    std::string compare(const Halide::Expr &a, const char *op, const Halide::Expr &b);
    std::string divide(const Halide::Internal::Div *d);
    std::string modulo(const Halide::Internal::Mod *m);
    std::string extremum(Halide::Type type, bool max, const Halide::Expr &a, const Halide::Expr &b);
    std::string call(const Halide::Internal::Call *c);
    /// As f32 (16-bit floats widened) for arithmetic.
    std::string wide(const Halide::Expr &e);
};

} // namespace kiln::tile
