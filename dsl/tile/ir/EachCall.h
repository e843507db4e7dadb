/** \file
 * Walks over the calls of an expression: reads of views and tiles, and functions.
 */
#pragma once

#include <Halide.h>

#include <functional>

namespace kiln::tile {

/// Calls `f` for every call in `e`, each node once.
void each_call(const Halide::Expr &e, const std::function<void(const Halide::Internal::Call &)> &f);

} // namespace kiln::tile
