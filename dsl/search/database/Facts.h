/** \file
 * What a measured result relied on, as named facts. Firm ones are the question itself: where one differs it is another
 * question, and is searched anew. Loose ones may change the answer: where one differs the best few are measured again.
 */
#pragma once

#include "dsl/search/space/Problem.h"

#include <map>
#include <string>

namespace kiln::search {

struct Facts {
    /// algorithm (definitions of all Funcs, hashed, constants by their bits), generator, parameters, extents, scalars,
    /// types, strides (what the contract assumes of them), target, device (name, units, memory, limits), threads.
    std::map<std::string, std::string> firm;
    /// driver, platform, halide, kiln and runtime (their files hashed), nvrtc where the target is CUDA.
    std::map<std::string, std::string> loose;

    std::string key() const;       ///< sha256 of the firm ones
    std::string loose_key() const; ///< sha256 of the loose ones
};

Facts facts_of(const Problem &problem, int threads = 0);

/// The definitions of all Funcs of a pipeline as text: equal texts mean equal algorithms. Floating-point constants are
/// written by their bits, since Halide prints six decimals.
std::string algorithm_text(const std::vector<Halide::Func> &outputs);

/// The names of firm or loose facts in which two sets differ: `types: float32 / bfloat16`.
std::vector<std::string> differences(const std::map<std::string, std::string> &a,
                                     const std::map<std::string, std::string> &b);

} // namespace kiln::search
