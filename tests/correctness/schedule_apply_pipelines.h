/** \file
 * Small integer pipelines for tests of schedules: results are exact, so that any legal schedule must give the same.
 */
#pragma once

#include "dsl/schedule/apply/Apply.h"

#include <functional>
#include <string>
#include <vector>

namespace kiln::test {

/// An algorithm without inputs: sources are computed from coordinates, so that it runs anywhere at any size.
struct TestPipeline {
    std::string name;
    /// Fresh Funcs on each call.
    BuildPipeline build;
    std::vector<int> sizes; ///< of the outputs, odd and small
};

/// pointwise, stencil chain, matmul with an update, softmax-like, Tuple reduction, two outputs.
std::vector<TestPipeline> small_pipelines();

/// The one of that name, among these and some that only the checker sees (`brighten`, `ordered`, `fixed_size`).
const TestPipeline &small_pipeline(const std::string &name);

/// Realizes all outputs (of equal sizes, or 0-dimensional) and returns their values, one after another.
/// `opencl`: through the first OpenCL platform, else on the CPU.
std::vector<int32_t> run(const std::vector<Halide::Func> &outputs, const std::vector<int> &sizes,
                         bool opencl = false);

} // namespace kiln::test
