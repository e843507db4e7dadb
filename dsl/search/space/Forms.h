/** \file
 * What a problem remembers of the forms of its algorithm (Alternatives.h).
 */
#pragma once

#include "dsl/search/space/Problem.h"

#include <mutex>
#include <optional>
#include <set>

namespace kiln::search {

struct ProblemForms {
    std::mutex mutex;
    std::optional<std::set<std::string>> parameters;                ///< of the generator
    std::map<std::string, std::shared_ptr<const Problem>> problems; ///< by what was chosen
};

} // namespace kiln::search
