/** \file
 * What the checker must know of an algorithm, taken out of Halide once: Funcs, stages, loops, who calls whom.
 * Plain data, so that the checker, its tests and its fuzzer build without Halide.
 */
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kiln {

/// A loop that a definition starts with: a Var of the Func or an RVar of the update.
struct DimInfo {
    std::string name; ///< as the user wrote it: an RDom "k" of one dimension has `k`, of more `k.x`, `k.y`
    bool is_rvar = false;
    /// Iterations may run in any order without changing the result (always so for Vars).
    bool is_pure = true;
    std::optional<int64_t> min, extent; ///< where they are constants
    std::string extent_text;            ///< the extent as an expression, for messages
};

/// Where a definition reads another Func along one of that Func's dimensions.
struct IndexInfo {
    struct Term {
        std::string loop;
        int64_t coefficient = 1;
        bool operator==(const Term &) const = default;
    };
    std::vector<std::string> loops; ///< loops of the reading stage that the index depends on
    bool from_data = false;         ///< the index depends on a value that another Func or an input holds
    /// The index is offset + Σ coefficient · loop; otherwise `terms` is empty.
    bool is_affine = false;
    std::vector<Term> terms;
    int64_t offset = 0;
    bool operator==(const IndexInfo &) const = default;
};

/// Reads of a Func at one place, as `f(x - 1, y)` has it.
struct ReadInfo {
    std::string func;
    std::vector<IndexInfo> indices; ///< one for each dimension of `func`
    int count = 1;                  ///< how often the definition has it
    bool same_place(const ReadInfo &other) const { return func == other.func && indices == other.indices; }
};

struct StageInfo {
    std::vector<DimInfo> dims;   ///< innermost first, as Halide keeps them
    bool is_associative = false; ///< rfactor and atomic are possible
    bool is_commutative = false; ///< the order in which parts are combined does not matter either
    std::string source;          ///< the definition as text, for messages
    std::vector<ReadInfo> reads; ///< of other Funcs; a Func's reads of itself are left out
};

struct FuncInfo {
    std::string name;               ///< without Halide's `$1` suffix; unique in a pipeline
    std::vector<std::string> args;  ///< the pure Vars, in the order of the definition: the storage dimensions
    std::vector<std::string> types; ///< element types of the Tuple, "float32", "bfloat16"
    std::vector<StageInfo> stages;  ///< stages[0] the pure definition
    bool is_output = false;
    bool is_input = false; ///< the Func of an input buffer: only its wrappers (`in`) can be scheduled
    bool is_extern = false;
    bool can_be_inlined = false;
    std::vector<std::string> callers; ///< Funcs that read it
    std::vector<std::string> callees;
    /// Bytes of one element, all values of the Tuple together.
    int64_t bytes_per_element() const;
};

struct PipelineInfo {
    std::string generator;
    std::vector<FuncInfo> funcs; ///< in topological order, producers first
    std::vector<std::string> outputs;
    std::vector<std::string> scalars; ///< scalar inputs: what a specialize condition can test
    const FuncInfo *find(const std::string &name) const;
    std::vector<std::string> names() const;
};

} // namespace kiln
