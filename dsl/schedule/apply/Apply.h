/** \file
 * A canonical schedule turned into Halide calls, and what Halide itself still finds wrong with it.
 */
#pragma once

#include "dsl/schedule/Schedule.h"
#include "dsl/schedule/apply/Describe.h"
#include "dsl/target/Target.h"

#include <functional>

namespace kiln {

/// Makes every call of `canonical` on the Funcs of `funcs`, in order; wrappers and the Funcs that rfactor makes are
/// added to `funcs` under their names in the schedule (`x.in(acc)`, the binding). A split without a tail gets
/// GuardWithIf, whatever the Func: Halide's own choice computes more than was asked for where an extent is smaller than
/// the factor, and then reads outside the inputs. Call check_schedule first: this throws kiln::Error with K0501 at the
/// directive that Halide refuses and K0502 where a Func is not in `funcs`.
void apply_schedule(const Schedule &canonical, FuncMap &funcs, const Target &target);

/// The pipeline lowered for the target, as text. Halide numbers names per process, so only texts of fresh processes
/// compare: there, equal texts mean equal code. Throws Halide::Error.
std::string lowered_text(const std::vector<Halide::Func> &outputs, const Target &target);

/// Makes the pipeline afresh, without a schedule.
using BuildPipeline = std::function<std::vector<Halide::Func>()>;

/// Applies the schedule to a fresh pipeline and lowers it. An error of Halide's becomes K0501 or K0503, at the
/// directive without which it goes away (found by leaving out one at a time); a warning becomes K0504 likewise. Empty
/// when Halide has nothing to say.
std::vector<Diagnostic> halide_faults(const BuildPipeline &build, const Schedule &canonical,
                                      const Target &target);

} // namespace kiln
