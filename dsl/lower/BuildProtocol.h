/** \file
 * What build_library and its child, `kiln-build`, say to each other: one variant to compile, and what came of it.
 */
#pragma once

#include "dsl/lower/BuildLibrary.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kiln {

/// A request for one variant. Its function is called `symbol`.
struct CompileJob {
    std::string generator;
    std::vector<std::filesystem::path> load;
    std::map<std::string, std::string> params;
    VariantRequest variant;
    std::string symbol;
    std::filesystem::path object; ///< to be written
    std::filesystem::path reply;  ///< to be written: the standard output belongs to users' generators
};

/// One argument of the kernel as its caller sees it.
struct CompiledArgument {
    struct Dimension {
        std::string name; ///< the Var of an output, or ""
        int64_t min = 0, extent = 0, stride = 0;
        bool has_min = false, has_extent = false, has_stride = false;
        /// The constraint where it is no constant: "x.extent.1".
        std::string min_text, extent_text, stride_text;
        bool operator==(const Dimension &) const = default;
    };
    std::string name;
    std::string kind;                 ///< "scalar", "input" or "output"
    int type_code = 0, type_bits = 0; ///< as halide_type_t
    std::string type;                 ///< "bfloat16"
    int alignment = 1;                ///< bytes
    std::vector<Dimension> dimensions;
    std::string scalar_min, scalar_max, scalar_default; ///< "" where there is none
    bool operator==(const CompiledArgument &) const = default;
};

/// A tile kernel of a variant, as compiled.
struct CompiledTile {
    std::string func;     ///< that it computes
    std::string symbol;   ///< SYMBOL.image lies beside the object
    std::string function; ///< in the image
    int registers = 0, spill_bytes = 0, shared_bytes = 0, threads = 0, cluster = 1;
    bool persistent = false, launch_ahead = false;
    std::string text;   ///< CUDA C++
    std::string passes; ///< what each pass did
    std::vector<std::string> remarks;
};

struct CompileReply {
    std::vector<Diagnostic> diagnostics; ///< with an error: nothing else counts
    std::vector<CompiledArgument> arguments;
    std::string schedule_name, schedule_text; ///< canonical, knobs filled in
    std::string halide_target;
    std::vector<uint64_t> cpu_features;        ///< bits by halide_target_feature_t
    std::map<std::string, std::string> params; ///< all of the generator's, with their values
    bool deterministic = true;                 ///< the same bits at every call, on any number of threads
    /// For intermediate values, where every call takes the same; NAME_workspace tells the others.
    std::optional<int64_t> host_bytes, device_bytes;
    std::map<std::string, int>
        device_alignment; ///< bytes, of arguments that CUDA kernels access by more than an element
    std::vector<CompiledTile> tiles;
    std::string tile_shim;                    ///< C of their stages; defines SYMBOL_tiles
    std::vector<VariantCondition> conditions; ///< that the tiles add to the variant's
};

nlohmann::json to_json(const CompiledTile &tile);
CompiledTile compiled_tile_from_json(const nlohmann::json &json);
nlohmann::json to_json(const CompileJob &job);
CompileJob compile_job_from_json(const nlohmann::json &json);
nlohmann::json to_json(const CompileReply &reply);
CompileReply compile_reply_from_json(const nlohmann::json &json);

/// The name of a condition in JSON: "extent_at_least".
const char *condition_name(VariantCondition::What what);

} // namespace kiln
