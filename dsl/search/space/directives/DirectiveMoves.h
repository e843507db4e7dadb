/** \file
 * Steps on a schedule itself, one directive at a time, for schedules that carry no plan: those written by hand, also with
 * specializations, tile kernels and whatever else the language has. Every directive is proposed by one of these moves, so
 * that any schedule can be reached from the plain one.
 */
#pragma once

#include "dsl/search/space/Candidate.h"
#include "dsl/search/space/Problem.h"

#include <functional>
#include <optional>
#include <vector>

namespace kiln::search {

/// One more directive, or one fewer.
struct DirectiveStep {
    std::string move;      ///< "split", "place", "tile kernel", …
    StageRef stage;        ///< that it schedules
    std::string condition; ///< of the specialization that it schedules, as text; "" for the stage itself
    DirectiveCall call;
    std::string binding; ///< of the Func that an rfactor makes
    bool remove = false;
    Schedule apply(const Schedule &schedule) const;
};

struct Proposals;

/// A kind of step.
struct DirectiveMove {
    const char *name;
    double weight; ///< how often random changes take it
    void (*propose)(Proposals &);
};
const std::vector<DirectiveMove> &directive_moves();

/// What may be done next by one move, as far as the loop nest tells; the checker judges. Deterministic. With `only`: to that
/// Func and its wrappers.
std::vector<DirectiveStep> directive_steps(const Problem &problem, const Schedule &schedule,
                                           const DirectiveMove &move, const std::string &only = "");

/// One number of the schedule (a factor, with all of its kind that are equal in the same Func's statements) replaced by a
/// neighbour, or nothing where there is none.
std::optional<Schedule> change_number(const Schedule &schedule, Rng &rng);

} // namespace kiln::search
