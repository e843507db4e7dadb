/** \file
 * The rules of tile IR that can be checked without running it. The interpreter (interpret/Interpret.h) finds what
 * depends on the order of events.
 */
#pragma once

#include "dsl/tile/passes/Passes.h"

#include <vector>

namespace kiln::tile {

/// Faults of the kernel as it stands, each rule as soon as the IR has what it speaks of:
///   K1190 a tile is read before it is defined, or defined twice in one body
///   K1191 an axis: not of the kernel, not of the tile that a statement defines, or with two meanings in one region
///   K1192 a layout: elements missing or twice, or operands of a statement that lie in other threads than it needs
///   K1193 a ring: bytes of its slot, its tiles, its barriers
///   K1194 a copy by TMA: box, swizzle, alignment
///   K1195 shared memory: two things at one place, or more than the device has
///   K1196 registers and threads beyond what the device has
///   K1197 roles: warpgroups, and who fills and empties each ring
///   K1198 an output that is not stored, or more than once
///   K1199 a product: shapes, operands and types that its instruction does not take
std::vector<Diagnostic> verify(const Kernel &k, const DeviceLimits &limits);

} // namespace kiln::tile
