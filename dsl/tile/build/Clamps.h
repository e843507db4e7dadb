/** \file
 * Reads clamped to a view's last element. A copy engine does not clamp: past the end of the view it gives zeros. That
 * stands for the clamped read where everything past the last element is proved to be left out by whoever reads it.
 */
#pragma once

#include "dsl/tile/ir/Ir.h"

namespace kiln::tile {

/// An index without its clamp: the value of `index` is that of the clamped one where it is at most `last`.
struct Unclamped {
    Expr index;
    Expr last; ///< undefined: everywhere
};
/// Takes min(index, last), promises and likely() off; max(index, 0) where that is proved to change nothing. `varies`: what an
/// axis runs along.
Unclamped unclamped(const Expr &e, const std::function<bool(const Expr &)> &varies);

/// A copy that is not what the definition reads where the coordinate of `axis` is at least `limit`.
struct ClampedRead {
    std::string tile, view, axis;
    Expr limit;
    Span span;
};
/// Refuses (K1205) a kernel in which such an element may reach an output. Looks at the kernel as `build` leaves it.
void prove_clamped_reads(const Kernel &k, const std::vector<ClampedRead> &reads);

} // namespace kiln::tile
