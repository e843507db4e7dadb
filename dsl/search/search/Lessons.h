/** \file
 * Measured times on their way into the model: gathered, then learned in one go.
 */
#pragma once

#include "dsl/search/model/Model.h"
#include "dsl/search/space/Problem.h"

#include <vector>

namespace kiln::search {

class Lessons {
public:
    /// Both must outlive it.
    Lessons(const Problem &problem, Model &model) : problem_(problem), model_(model) {}

    /// A candidate of the problem by its features, and its time.
    void add(const Features &features, double ms);
    size_t waiting() const { return samples_.size(); }
    /// Gives the model what waits.
    void learn();

private:
    const Problem &problem_;
    Model &model_;
    std::vector<Sample> samples_;
};

} // namespace kiln::search
