/** \file
 * One point of the space: an ordinary schedule, and where it came from.
 */
#pragma once

#include "dsl/schedule/Knobs.h"
#include "dsl/schedule/Schedule.h"

#include <random>
#include <string>

namespace kiln::search {

using Rng = std::mt19937_64;

struct Candidate {
    Schedule schedule;  ///< in full: it prints, parses and builds alone
    std::string origin; ///< "plain", "hand", "seed:tiles", "beam", "mutate:place", "cross", "family:NAME"
    KnobValues knobs;   ///< of a family's member: the values that it stands for
    std::string text() const;
};

} // namespace kiln::search
