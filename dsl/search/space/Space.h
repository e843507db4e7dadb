/** \file
 * The schedules that a search may try. Whatever a space gives has passed the checker for all sizes and the limits of the
 * device; what did not is counted by reason.
 */
#pragma once

#include "dsl/search/space/Candidate.h"
#include "dsl/search/space/Problem.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kiln::search {

class Space {
public:
    virtual ~Space() = default;

    /// The default schedule: right for any sizes. Always there.
    virtual Candidate plain() = 0;
    /// Schedules of the known good shapes (tiles fused with their consumers, rows, vectors) at a few sizes each: where a
    /// search starts. Distinct, the more promising first; a few dozen at most.
    virtual std::vector<Candidate> seeds() = 0;
    /// All single steps from `from`, at most `most`: for beams. Deterministic.
    virtual std::vector<Candidate> expand(const Candidate &from, size_t most = 256) = 0;
    /// One legal neighbour, or nothing where a number of tries gave none.
    virtual std::optional<Candidate> mutate(const Candidate &from, Rng &rng) = 0;
    /// Parts of both, or nothing where they do not go together.
    virtual std::optional<Candidate> cross(const Candidate &a, const Candidate &b, Rng &rng) = 0;
    /// Anywhere in the space.
    virtual std::optional<Candidate> random(Rng &rng) = 0;

    /// A schedule from elsewhere (a hand schedule, the database) as a candidate, where it is legal here; for a family
    /// its first legal member, whose knobs mutate() then changes too.
    virtual std::optional<Candidate> adopt(const Schedule &schedule, const std::string &origin) = 0;

    /// How many candidates were made and dropped, by reason: `K0411 more shared memory than the device has`.
    const std::map<std::string, int64_t> &rejected() const { return rejected_; }
    int64_t accepted() const { return accepted_; }

protected:
    std::map<std::string, int64_t> rejected_;
    int64_t accepted_ = 0;
};

/// All schedules of the pipeline on the problem's target. `problem` must outlive it.
std::unique_ptr<Space> pipeline_space(const Problem &problem);

/// The members of a `.sched` family: only its knobs vary. Throws Error K1303 where the family has no member that is
/// legal here, with the reasons.
std::unique_ptr<Space> family_space(const Problem &problem, const Schedule &family);

} // namespace kiln::search
