/** \file
 * 16-bit floats on targets that have none: values are computed in float32 and stored as UInt(16) with the
 * same bits. Every operation that the user wrote on 16-bit floats is rounded to that type, so results are
 * those of a machine that has it (float32 has more than twice the digits: rounding twice changes no sum,
 * product, quotient or root).
 */
#pragma once

#include "dsl/lower/Rebuild.h"

#include <functional>

namespace kiln {

/// float32 from the bits (UInt(16)) of `type`, exact; NaN stays NaN.
Halide::Expr float_from_bits(const Halide::Expr &bits, const Halide::Type &type);
/// The bits (UInt(16)) of float32 `value` as `type`: nearest, ties to even; overflow to infinity; NaN stays
/// NaN.
Halide::Expr bits_from_float(const Halide::Expr &value, const Halide::Type &type);

/// Conversions of float16 by the device's own instruction, for targets that have one but should not store it.
Halide::Expr float_from_bits_native(const Halide::Expr &bits, const Halide::Type &type);
Halide::Expr bits_from_float_native(const Halide::Expr &value, const Halide::Type &type);

/// Rebuilds a graph with UInt(16) in place of every 16-bit float type that the target does not store.
class LegalizeStorage : public GraphRebuild {
public:
    /// The Expr change that follows storage in the same rebuild; see GraphRebuild::finish.
    using Finish =
        std::function<Halide::Expr(const Halide::Expr &, const Halide::Internal::Function &in_update_of)>;
    LegalizeStorage(const Halide::Target &target, bool storage, Finish finish);

    Halide::Expr mutate(const Halide::Expr &e) override;
    using GraphRebuild::mutate;

protected:
    Halide::Type stored(const Halide::Type &type) override;
    Halide::Expr load(const Halide::Expr &element, const Halide::Type &type) override;
    Halide::Expr store(const Halide::Expr &value, const Halide::Type &type) override;
    Halide::Expr finish(const Halide::Expr &e, const Halide::Internal::Function &in_update_of) override;

    using GraphRebuild::visit;
    Halide::Expr visit(const Halide::Internal::FloatImm *op) override;
    Halide::Expr visit(const Halide::Internal::Cast *op) override;
    Halide::Expr visit(const Halide::Internal::Reinterpret *op) override;
    Halide::Expr visit(const Halide::Internal::Variable *op) override;
    Halide::Expr visit(const Halide::Internal::Call *op) override;

private:
    bool replaced(const Halide::Type &type);
    Halide::Expr rounded(const Halide::Expr &value, const Halide::Type &type);

    Halide::Target target_;
    bool storage_;
    Finish finish_;
    /// Values that came from stored bits or are rounded already, by node, with those bits: storing one
    /// converts nothing.
    struct Bits {
        Halide::Expr value, bits;
    };
    std::map<const void *, Bits> bits_of_;
};

} // namespace kiln
