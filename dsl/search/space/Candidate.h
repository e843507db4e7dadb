/** \file
 * One point of the space: an ordinary schedule, and where it came from.
 */
#pragma once

#include "dsl/schedule/Knobs.h"
#include "dsl/schedule/Schedule.h"

#include <memory>
#include <random>
#include <string>

namespace kiln::search {

using Rng = std::mt19937_64;

struct Candidate {
    Schedule schedule;  ///< in full: it prints, parses and builds alone
    std::string origin; ///< "plain", "hand", "seed:tiles", "beam", "mutate:place", "cross", "family:NAME"
    /// Of the knobs that `schedule` still has: those that choose the algorithm (Alternatives.h).
    KnobValues knobs = {};
    std::shared_ptr<const Schedule> family = {}; ///< of which it is a member; null where it is of none
    std::string text() const;
};

} // namespace kiln::search
