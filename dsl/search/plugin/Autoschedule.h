/** \file
 * Kiln as one of Halide's autoschedulers: `autoscheduler=Kiln` in any generator, or
 * `pipeline.apply_autoscheduler(target, {"Kiln"})`.
 */
#pragma once

#include <Halide.h>

namespace kiln::search {

/// Finds a schedule for the pipeline at its estimates by space and model, without measuring, and applies it. CPU, CUDA and
/// OpenCL targets; loops only, since a plain Halide build has no place for tile kernels. Where the best candidate does not
/// lower, the next best is taken, at worst the plain schedule.
///
/// Throws Halide::CompileError with rendered diagnostics, as Halide's searchers do: K1354, K1355 (parameters), K1356 (a target
/// that Kiln does not know), K1357 (a Func that is scheduled already), K1302 (no estimates), K1350, K1351 (weights).
void autoschedule(const Halide::Pipeline &pipeline, const Halide::Target &target,
                  const Halide::AutoschedulerParams &params, Halide::AutoSchedulerResults *results);

} // namespace kiln::search
