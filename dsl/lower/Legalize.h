/** \file
 * Makes a pipeline mean the same on every target before it is scheduled: math that follows IEEE arithmetic
 * where Halide's own does not (legalize_math), and 16-bit floats where the target has none
 * (legalize_storage). Both are one rebuild of the Func graph (Rebuild.h).
 *
 * Order of work for a library: build the generator's pipeline, legalize() it, apply the schedule to
 * LegalizedPipeline::funcs, compile LegalizedPipeline::outputs with LegalizedPipeline::arguments().
 *
 * How arguments map. Names, order, ranks and constraints stay. An input or output of bfloat16 (or float16)
 * that the target does not store becomes, for Halide, a buffer of UInt(16) that holds the same bits; a scalar
 * input likewise. The contract of the library (header, name.json, the call's own checks) goes on saying
 * bfloat16: it is written from `contract_type`, and the entry point hands Halide the same buffer with its
 * type field set to UInt(16).
 */
#pragma once

#include <Halide.h>

#include <map>
#include <string>
#include <vector>

namespace kiln {

/// A Func that compiled code of Kiln's own computes, on the device: it becomes an extern stage `symbol`.
struct StageReplacement {
    std::string symbol;
    /// In the order of the C function, after the user_context: Funcs and buffers of the pipeline as it was, scalar
    /// Exprs. Then come the Func's own buffers.
    std::vector<Halide::ExternFuncArgument> arguments;
};

struct LegalizeOptions {
    bool math = true;    ///< NaN, infinities and signed zero as docs/numerics.md says
    bool storage = true; ///< 16-bit floats as UInt(16) with explicit conversions where the target needs it
    std::map<std::string, StageReplacement> replace = {}; ///< by the Func's name
};

/// One argument of the compiled function. A Tuple output is several of these, named `y.0`, `y.1`.
struct LegalizedArgument {
    std::string name;            ///< without Halide's `$1`
    Halide::Type contract_type;  ///< what the user passes: bfloat16
    Halide::Argument argument;   ///< what Halide compiles: UInt(16) where they differ
    Halide::Parameter parameter; ///< the new one: bind buffers and constraints here
};

struct LegalizedPipeline {
    std::vector<Halide::Func> outputs; ///< in the order given
    /// Every Func by its user-visible name, without Halide's `$1`. The Func of an input buffer stands under
    /// the buffer's name, `x` (Halide calls it `x_im`). Schedule these, not the ones of the original
    /// pipeline.
    std::map<std::string, Halide::Func> funcs;
    std::vector<LegalizedArgument> inputs;      ///< in the order given
    std::vector<LegalizedArgument> output_args; ///< one for each buffer

    /// Inputs only, as Pipeline::compile_to_module takes them.
    std::vector<Halide::Argument> arguments() const;
    /// The type that the user sees of each Func's values, by the names of `funcs`.
    std::map<std::string, std::vector<Halide::Type>> contract_types;
};

/// Rebuilds the pipeline of `outputs` for `target`. `inputs` are its parameters in the order of the call
/// (AbstractGenerator::input_parameter over arginfos()). The original stays as it is. Schedules and estimates
/// that were set on it in C++ are carried over. Throws kiln::Error: K1020 two Funcs of one name; K1021 a
/// 16-bit float handed to an extern stage on a target that has none; K1022 specializations set in C++.
LegalizedPipeline legalize(const std::vector<Halide::Func> &outputs,
                           const std::vector<Halide::Parameter> &inputs, const Halide::Target &target,
                           const LegalizeOptions &options = {});

/// The input parameters that `outputs` read, by name: for pipelines that come from no generator.
std::vector<Halide::Parameter> input_parameters(const std::vector<Halide::Func> &outputs);

/// Whether buffers of `type` stay as they are on `target`; false: they become UInt(16).
bool stores_natively(const Halide::Type &type, const Halide::Target &target);

} // namespace kiln
