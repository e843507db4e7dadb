/** \file
 * Tile kernels of a variant: from what its schedule marks `tile_kernel` to extern stages with compiled code. The
 * definitions are taken as the generator wrote them, with their 16-bit floats; the rest of the pipeline is legalized
 * and scheduled as loops, and sees such a stage as a Func like any other.
 */
#pragma once

#include "dsl/lower/BuildLibrary.h"
#include "dsl/lower/Legalize.h"
#include "dsl/lower/TileStage.h"
#include "dsl/schedule/Schedule.h"
#include "dsl/schedule/TileGroup.h"
#include "dsl/schedule/apply/Describe.h"

namespace kiln {

/// The pipeline that a generator made, untouched.
struct PipelineSource {
    std::vector<Halide::Func> outputs;
    std::vector<Halide::Parameter> inputs; ///< in the order of the call
};

/// Compiles the kernel of `group`. `symbol` becomes the C function of its stage. Throws Error: K11xx what the tile
/// compiler refuses, K1192 an output that another Func reads, K1193 a view that is read below 0.
TileStage make_tile_stage(const TileGroup &group, const PipelineSource &source, const Target &target,
                          const std::string &symbol);

/// The same from a plan; `outputs` begin with the kernel's own. For tests.
TileStage make_tile_stage(const tile::TilePlan &plan, const std::vector<Halide::Func> &outputs,
                          const PipelineSource &source, const Target &target, const std::string &symbol);

/// How legalize() puts the stages into the pipeline, by Func.
std::map<std::string, StageReplacement> stage_replacements(const std::vector<TileStage> &stages,
                                                           const PipelineSource &source);

/// What the stages ask of the Funcs around them, once these are legalized: computed at root, rows aligned for TMA.
void place_stages(const std::vector<TileStage> &stages, LegalizedPipeline &pipeline);

/// What the stages need of a call beyond the contract, as far as a variant can ask for it.
std::vector<VariantCondition> stage_conditions(const std::vector<TileStage> &stages,
                                               const LegalizedPipeline &pipeline);

/// The schedule without what it says of Funcs that the stages compute.
Schedule without_stages(const Schedule &canonical, const std::vector<TileGroup> &groups,
                        const LegalizedPipeline &pipeline);

} // namespace kiln
