/** \file
 * The condition of a `specialize` as a Halide expression over the pipeline's parameters and buffers.
 */
#pragma once

#include "dsl/schedule/Schedule.h"
#include "dsl/schedule/apply/Describe.h"

namespace kiln {

/// The parameters that a pipeline's definitions read, by name.
struct PipelineParameters {
    std::map<std::string, Halide::Parameter> buffers, scalars;
};

PipelineParameters parameters_of(const FuncMap &funcs);

/// Throws kiln::Error K0502 for a name that is neither a parameter nor an output.
Halide::Expr condition_of(const Node &node, const FuncMap &funcs, const PipelineParameters &parameters,
                          const std::string &file);

} // namespace kiln
