/** \file
 * The members of a family: one schedule text with knobs, those that `require` allows. Only the knobs vary. A knob that bears
 * the name of one of the generator's parameters chooses the algorithm too: it stays a knob, of one value, in each member.
 */
#pragma once

#include "dsl/search/space/Candidate.h"
#include "dsl/search/space/Problem.h"

#include <optional>

namespace kiln::search {

class Family {
public:
    /// `problem` must outlive it.
    Family(const Problem &problem, std::shared_ptr<const Schedule> family);

    struct Domain {
        std::string knob;
        std::vector<std::string> values;
    };
    const std::vector<Domain> &domains() const { return domains_; }
    const std::string &name() const { return family_->name; }
    const Schedule &schedule() const { return *family_; }
    /// Members before `require`; at most 2^40 are told apart.
    int64_t size() const { return size_; }
    /// Counted with the first knob fastest: index 0 is what the file names first.
    KnobValues at(int64_t index) const;
    KnobValues random(Rng &rng) const;
    /// One knob changed, three times out of four to a neighbour in its domain. The same values where there is no other.
    KnobValues neighbour(const KnobValues &values, Rng &rng) const;
    /// Each knob's value from one of the two, by chance. It may be one of them again.
    KnobValues crossed(const KnobValues &one, const KnobValues &other, Rng &rng) const;

    /// The member, with `reason` in a few words where it is not legal for the problem.
    std::optional<Candidate> member(const KnobValues &values, const std::string &origin,
                                    std::string &reason) const;
    /// The values that a member stands for, where the schedule is one that `member` made and nobody changed.
    std::optional<KnobValues> values_of(const Schedule &schedule) const;

private:
    const Problem &problem_;
    std::shared_ptr<const Schedule> family_;
    std::vector<Domain> domains_;
    int64_t size_ = 1;

    Schedule filled_in(const KnobValues &values) const;
};

} // namespace kiln::search
