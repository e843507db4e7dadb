/** \file
 * The C of a variant's tile kernels: a function each that Halide's code calls as an extern stage. It answers bounds
 * queries, checks what the kernel reads against what it got, evaluates the kernel's parameters and launches it
 * (kiln_tile.h).
 */
#pragma once

#include "dsl/lower/TileStage.h"

namespace kiln {

/// The whole file. It includes SYMBOL.image of each stage by the assembler, so these must lie beside it when it is
/// compiled, and defines `table`, the list of the kernels with a null at its end. Throws Error K1190 where an Expr has
/// no form in C.
std::string tile_shim_text(const std::vector<TileStage> &stages, const std::string &table);

/// The C function that only gives memory to a further output of the stage.
std::string tile_allocate_symbol(const TileStage &stage, const std::string &func);

/// An integer or boolean Expr in C, in int64_t, with Halide's division: `name` gives variables their form. Throws Error
/// K1190. For tests.
std::string shim_expr(const Halide::Expr &e, const std::function<std::string(const std::string &)> &name);

} // namespace kiln
