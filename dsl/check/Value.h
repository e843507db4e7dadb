/** \file
 * A number with its running error: what the formula gives in double, and how far a right kernel may be from it.
 *
 * Sums are kept open while terms are being added: `terms_error` is the error of the terms, `magnitude` their
 * Σ|t|, `adds` how many additions there were. The error of adding them in whatever order is put on when
 * something else uses the sum (settle). Terms that are exact and multiples of one power of two, with a Σ|t| that
 * the type's significant bits can count, have an exact sum in every order: integer probes then allow no error.
 *
 * A maximum that is used as a shift (softmax) has an error, but what is shifted by it does not suffer: errors are
 * correlated. So a maximum's error is not propagated; it moves two shadow copies of the value by random signs,
 * the same copies everywhere the maximum is used, and what the shadows differ by in the end is the sensitivity.
 */
#pragma once

#include <Halide.h>

#include <cstdint>

namespace kiln {

struct Value {
    double v = 0;           ///< floats; unused for integers
    int64_t i = 0;          ///< integers, wrapped to their type; uint64 as its bits
    double terms_error = 0; ///< infinity: any result is right (the formula leaves it open)
    double magnitude = 0;
    double shadow[2] = {0, 0};
    int32_t adds = 0;
    int16_t grid = 4096; ///< exponent of the lowest set bit of all terms; meaningless unless terms_error is 0
    /// If the value is 0: compilers may give either zero (they drop `0 + x`, and max(-0, 0) is either).
    bool zero_sign_is_open : 1 = false;
    /// A 0 that the formula writes, as padding does. Algebra on the text makes 0 of its product with anything, so that
    /// with NaN or infinity the result is open (docs/numerics.md).
    bool is_written_zero : 1 = false;
    /// An integer that is the bits of a float with an error: v and the shadows are the float, magnitude its error. It
    /// survives masks of all ones, so that formulas may choose between floats by their bits.
    bool carries_float : 1 = false;
};

/// An exact number of a float type.
Value float_value(double v);
/// An integer, wrapped to `type`.
Value int_value(const Halide::Type &type, int64_t i);

/// Error of the value itself, without its shadows.
double settled_error(const Value &a, const Halide::Type &type);
/// The whole tolerance: settled error and what the shadows say.
double full_error(const Value &a, const Halide::Type &type);
/// The same value as one term.
Value settle(const Value &a, const Halide::Type &type);

Value add(const Value &a, const Value &b, const Halide::Type &type);
Value subtract(const Value &a, const Value &b, const Halide::Type &type);
Value multiply(const Value &a, const Value &b, const Halide::Type &type);
/// Halide's division: integers round so that the remainder is not negative, and x / 0 is 0.
Value divide(const Value &a, const Value &b, const Halide::Type &type);
Value modulo(const Value &a, const Value &b, const Halide::Type &type);
/// A NaN operand gives NaN (docs/numerics.md), except in an update that folds a value into its own Func, where
/// the result is left open.
Value maximum(const Value &a, const Value &b, const Halide::Type &type, bool folds_itself = false);
Value minimum(const Value &a, const Value &b, const Halide::Type &type, bool folds_itself = false);

enum class Compare { EQ, NE, LT, LE, GT, GE };
/// A UInt(1): its error is above 0 where the operands' errors leave the answer open.
Value compare(Compare op, const Value &a, const Value &b, const Halide::Type &type);
/// `condition` is UInt(1); where it is open, the error covers both branches.
Value select(const Value &condition, const Value &a, const Value &b, const Halide::Type &type);

Value cast(const Value &a, const Halide::Type &from, const Halide::Type &to);
Value reinterpret(const Value &a, const Halide::Type &from, const Halide::Type &to);

/// Functions of one float: `exp`, `log`, `sqrt`, `tanh`, `erf`, `floor`, `is_nan` … Returns false for a name that
/// is not known.
bool known_function(const char *name);
Value apply_function(const char *name, const Value &a, const Halide::Type &type);
Value power(const Value &a, const Value &b, const Halide::Type &type);
Value arctangent2(const Value &a, const Value &b, const Halide::Type &type);

/// Integers: and, or, xor, shifts and the other operations by Halide's intrinsic names. `type` is the operands'.
bool known_integer_op(const char *name);
Value integer_op(const char *name, const Value &a, const Value &b, const Halide::Type &type,
                 const Halide::Type &result_type);

/// Rounds to a float type as IEEE does (ties to even), subnormals kept.
double round_to(double v, const Halide::Type &type);

/// Elements of buffers, exactly as stored.
Value load_element(const void *data, int64_t index, const Halide::Type &type);

} // namespace kiln
