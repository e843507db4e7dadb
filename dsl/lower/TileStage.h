/** \file
 * A tile kernel as a stage of a pipeline: what stands between Halide's code, which calls it as an extern stage, and the
 * compiled kernel. Exprs are over `x.min.0`, `x.extent.0` and `x.stride.0` of the views, scalars by name, and the values
 * of `bounds` before them.
 */
#pragma once

#include "dsl/target/Target.h"
#include "dsl/tile/emit/Emit.h"

#include <Halide.h>

#include <string>
#include <utility>
#include <vector>

namespace kiln {

/// First and last coordinate; a last one below the first: none.
struct TileRange {
    Halide::Expr first, last;
};

struct TileStageView {
    enum class Role {
        Input,       ///< an argument of the kernel, or a Func computed before it
        OtherOutput, ///< an output that a stage of its own only allocates
        Output       ///< of the Func that the stage stands for
    };
    std::string name;
    Halide::Type type; ///< of the algorithm
    int rank = 0;
    Role role = Role::Input;
    std::vector<TileRange> reads; ///< of an Input, a dimension each
    /// Dimensions of an Input whose extent the definitions do not mention: the kernel sees no more of it than it
    /// reads, so that what lies past the end of a sum is 0.
    std::vector<bool> clipped;
};

struct TileStage {
    std::string func;   ///< the Func that the schedule marks
    std::string symbol; ///< the C function of the stage
    std::vector<std::pair<std::string, Halide::Expr>> bounds;
    std::vector<TileStageView> views;                          ///< Inputs, OtherOutputs, Outputs
    std::vector<std::pair<std::string, Halide::Type>> scalars; ///< between the two last, in the C function
    std::vector<Halide::Expr> conditions;                      ///< that hold in every call, or it is refused
    Backend backend = Backend::Cuda;
    tile::EmittedKernel kernel;
    tile::CompiledKernel compiled;    ///< `cubin` may be PTX, for targets that are not exact, or OpenCL C
    std::string passes;               ///< what each pass did, as text
    std::vector<std::string> remarks; ///< of the passes
};

} // namespace kiln
