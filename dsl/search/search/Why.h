/** \file
 * A schedule's time taken apart, for people: which loops it goes to, and what bounds them.
 */
#pragma once

#include "dsl/search/features/Features.h"

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace kiln::search {

/// A line a loop nest or kernel: its share of the estimate, its terms, and the one that bounds it.
std::string explain_terms(const Features &features);

/// The same beside the plain schedule's: what got smaller and by how much. "" where nothing did.
std::string explain_gain(const Features &plain, const Features &best);

nlohmann::json terms_json(const Features &features);

} // namespace kiln::search
