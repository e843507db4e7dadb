// clang-format off
/** \file
 * Text macros: composite directives and statements written over primitives.
 *
 *     macro register_tile(x, y, xi, yi, bx, by) {
 *       .split(x, x, xi, bx).split(y, y, yi, by).reorder(xi, yi, x, y).vectorize(xi).unroll(yi);
 *     }
 *     macro stage_input(f, consumer, loop) {
 *       f.in(consumer).compute_at(consumer, loop).store_in(GPUShared);
 *     }
 *     …
 *     y.register_tile(n, m, ni, mi, 16, 4).parallel(m);
 *     stage_input(x, acc, ko);
 *
 * A parameter is replaced wherever its name stands: in arguments by any expression, as a Func, consumer or binding by
 * a name, in `k.x` before the dot by a name. Other names are those of the place of use. A macro may use those defined
 * before it; so none uses itself.
 */
// clang-format on
#pragma once

#include "dsl/schedule/Schedule.h"

#include <set>

namespace kiln {

/// The schedule with its macros replaced by what they stand for, and without them. Reports K0022 (used as the other
/// kind), K0023 (arguments), K0024 (itself or a later one), K0025 (a name is needed), K0026 (size), K0027 (named
/// like a directive). Funcs of statements that had to be left out go to `damaged`.
Schedule expand_macros(const Schedule &schedule, std::vector<Diagnostic> &diagnostics,
                       std::set<std::string> &damaged);

} // namespace kiln
