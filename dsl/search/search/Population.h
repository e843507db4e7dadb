/** \file
 * What a search found right so far, each schedule once, the fastest first.
 */
#pragma once

#include "dsl/search/database/Database.h"
#include "dsl/search/space/Candidate.h"

#include <string>
#include <vector>

namespace kiln::search {

/// What tells one job's schedule from another's: its text and knobs.
std::string identity_of(const Job &job);

class Population {
public:
    struct Member {
        Candidate candidate;
        StoredTrial trial;
    };

    /// Ordered by the scores of this regime.
    explicit Population(Regime regime) : regime_(regime) {}

    bool empty() const { return members_.empty(); }
    size_t size() const { return members_.size(); }
    const Member &operator[](size_t i) const { return members_[i]; }
    const Member &best() const { return members_.front(); }
    /// The best ones' candidates.
    std::vector<Candidate> parents(size_t most) const;
    /// In ms, of the regime; the sustained one where the other was not measured.
    double score(const StoredTrial &trial) const;

    /// A schedule's last measurement counts.
    void join(const Candidate &candidate, const StoredTrial &trial);
    /// A trial that failed: what was right once and is wrong now is not to be used.
    void leave(const StoredTrial &trial);

private:
    Regime regime_;
    std::vector<Member> members_;

    void remove(const Job &job);
};

} // namespace kiln::search
