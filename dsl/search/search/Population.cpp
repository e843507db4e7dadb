#include "dsl/search/search/Population.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln::search {

std::string identity_of(const Job &job) {
    std::string text = job.schedule;
    for (const auto &[name, value] : job.knobs) {
        text += fmt::format("{}={}\n", name, value);
    }
    return text;
}

std::vector<Candidate> Population::parents(size_t most) const {
    std::vector<Candidate> out;
    for (size_t i = 0; i < std::min(most, members_.size()); i++) {
        out.push_back(members_[i].candidate);
    }
    return out;
}

double Population::score(const StoredTrial &trial) const {
    double score = trial.score(regime_);
    return score > 0 ? score : trial.score_ms;
}

void Population::join(const Candidate &candidate, const StoredTrial &trial) {
    remove(trial.job);
    auto at = std::find_if(members_.begin(), members_.end(),
                           [&](const Member &m) { return score(m.trial) > score(trial); });
    members_.insert(at, {candidate, trial});
}

void Population::leave(const StoredTrial &trial) {
    if (trial.outcome.status == Status::Wrong || trial.outcome.status == Status::Incredible) {
        remove(trial.job);
    }
}

void Population::remove(const Job &job) {
    const std::string id = identity_of(job);
    std::erase_if(members_, [&](const Member &m) { return identity_of(m.trial.job) == id; });
}

} // namespace kiln::search
