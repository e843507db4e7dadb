/** \file
 * Evaluates an Expr at many places at once: one column of values a node, so that a whole tile costs a few passes over
 * memory. Arithmetic is that of the Expr's types: 32-bit and 16-bit floats are rounded after every operation, integers wrap,
 * division rounds as Halide's does.
 */
#pragma once

#include "dsl/tile/ir/Ir.h"

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace kiln::tile {

/// Values at all places, or one value that holds at all of them (size 1). Floats in `real`, all else in `whole`.
struct Column {
    std::vector<double> real;
    std::vector<int64_t> whole;
    bool is_real = false;

    static Column of(double v);
    static Column of(int64_t v);
    static Column sized(Halide::Type type, size_t n);
    size_t size() const { return is_real ? real.size() : whole.size(); }
    double number(size_t i) const {
        return is_real ? real[size() == 1 ? 0 : i] : static_cast<double>(whole[size() == 1 ? 0 : i]);
    }
    int64_t integer(size_t i) const { return whole[whole.size() == 1 ? 0 : i]; }
};
using ColumnPtr = std::shared_ptr<const Column>;

/// Which places take part; none: all.
using Mask = std::shared_ptr<const std::vector<uint8_t>>;

/// As it would be stored in the type.
double round_to(Halide::Type type, double v);
int64_t wrap_to(Halide::Type type, int64_t v);

/// Bytes of one element, as in memory.
double load_element(Halide::Type type, const uint8_t *at);
int64_t load_integer(Halide::Type type, const uint8_t *at);
void store_element(Halide::Type type, uint8_t *at, double v);
void store_integer(Halide::Type type, uint8_t *at, int64_t v);

double combine(ReduceOp op, Halide::Type type, double a, double b);
double identity_of(ReduceOp op, Halide::Type type);

/// Gives the values of variables and views at the places.
class Places {
public:
    virtual ~Places() = default;
    virtual size_t count() const = 0;
    virtual ColumnPtr variable(const std::string &name) = 0;
    /// `at`: a column for each dimension. Only places in `mask` are read.
    virtual ColumnPtr view(const std::string &name, const std::vector<ColumnPtr> &at, const Mask &mask) = 0;
};

class Evaluator {
public:
    explicit Evaluator(Places &places) : places_(places) {}
    ColumnPtr operator()(const Expr &e, const Mask &mask = nullptr);

private:
    Places &places_;
    /// Shared nodes are computed once for each mask. Masks are kept so that no address is used twice.
    std::map<std::pair<const void *, const void *>, ColumnPtr> known_;
    std::vector<Mask> masks_;
    std::vector<Expr> kept_;
    std::map<std::string, ColumnPtr> lets_;
    std::unordered_map<const void *, bool> reads_view_;

    ColumnPtr compute(const Expr &e, const Mask &mask);
    ColumnPtr select(const Expr &condition, const Expr &yes, const Expr &no, const Mask &mask);
    ColumnPtr logical(const Expr &a, const Expr &b, bool is_and, const Mask &mask);
    ColumnPtr call(const Halide::Internal::Call *c, const Mask &mask);
    bool reads_view(const Expr &e);
    Mask narrowed(const Mask &mask, const Column &condition, bool when);
};

} // namespace kiln::tile
