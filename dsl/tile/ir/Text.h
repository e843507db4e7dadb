/** \file
 * Tile IR as text, complete and readable: what `kiln explain --passes` shows, what tests are written in, and what the
 * parser reads back. print(parse_kernel(print(k))) == print(k).
 *
 *     kernel y {
 *       axes k:64, m:128, n:256
 *       input x: bf16 rank 2
 *       output y: bf16 rank 2
 *       grid no: (y.extent.0 + 255)/256, mo: (y.extent.1 + 127)/128
 *       body {
 *         for ko in 0 .. (x.extent.0 + 63)/64 carry acc: f32[m:128, n:256] = 0.0 then acc_next {
 *           xs: bf16[m:128, k:64] of x = copy x[ko*64 + %k, mo*128 + %m]
 *           …
 *
 * A tile is declared where a statement first defines it: type, axes with extents, `of` the Func it comes from, `@` its
 * layout, `at` byte and `ring` of a shared tile, `in` the tile whose registers it shares, `partial`. A statement's Func
 * stands behind `//` where it is not that of the tile it defines. Lines that begin with `#` are comments.
 *
 * Exprs: `%k` is an axis' coordinate, `x[…]` reads a view, `f32(…)` casts. A plain integer is an i32 and a plain
 * decimal an f32; `3:u8`, `1.5:f16`, `name:u32` and `f(x):i64` state another type than the name implies. Intrinsics of
 * Halide are `@shift_left(a, b)`, impure ones `@!…`, impure functions `@@…`.
 */
#pragma once

#include "dsl/tile/ir/Ir.h"

#include <string>

namespace kiln::tile {

std::string print(const Kernel &k);
/// One statement on one line, without the bodies inside: for messages.
std::string print(const Kernel &k, const Stmt &s);
std::string print(const Kernel &k, const Expr &e);
/// `x[ko*64 + %k, mo*128 + %m]`.
std::string print(const Kernel &k, const Region &r);

/// Throws Error K1160 … K1166 with the place in `text`. `file` is for the messages.
Kernel parse_kernel(const std::string &text, const std::string &file = "");

} // namespace kiln::tile
