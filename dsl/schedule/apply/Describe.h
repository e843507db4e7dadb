/** \file
 * Reads out of Halide, once, what the checker must know of a pipeline, and keeps its Funcs at hand by the names
 * that schedules use.
 */
#pragma once

#include "dsl/schedule/PipelineInfo.h"

#include <Halide.h>

#include <map>
#include <string>
#include <vector>

namespace kiln {

/// Funcs by the name that a schedule uses. An input buffer `x` stands for the Func that Halide calls `x_im`.
using FuncMap = std::map<std::string, Halide::Func>;

/// Halide's name without the number that makes it unique in a process (`acc$2` is `acc`) and without the `_im` of
/// an input's Func.
std::string schedule_name(const Halide::Internal::Function &function);

/// An RVar's name in schedules: `k$x` of a one-dimensional RDom is `k`, of others `k.x`.
std::string schedule_name_of_rvar(const std::string &rvar,
                                  const std::vector<Halide::Internal::ReductionVariable> &domain);

/// All Funcs that `outputs` need. Throws kiln::Error K0113 where two of them share a name.
FuncMap funcs_of(const std::vector<Halide::Func> &outputs);

/// The pipeline as plain data. Call it before any schedule is applied. Throws as funcs_of does.
PipelineInfo describe_pipeline(const std::vector<Halide::Func> &outputs, std::string generator);

} // namespace kiln
