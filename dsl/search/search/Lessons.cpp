#include "dsl/search/search/Lessons.h"

namespace kiln::search {

void Lessons::add(const Features &features, double ms) {
    Sample s;
    s.features = features;
    s.ms = ms;
    s.problem = problem_.name();
    s.device = problem_.device.key();
    s.operation = problem_.generator;
    samples_.push_back(std::move(s));
}

void Lessons::learn() {
    if (!samples_.empty()) {
        model_.learn(samples_);
        samples_.clear();
    }
}

} // namespace kiln::search
