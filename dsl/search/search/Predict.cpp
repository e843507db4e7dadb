// The best schedule as far as roofline and model can tell: nothing is measured.
#include "dsl/search/search/Rank.h"

#include <algorithm>
#include <chrono>

namespace kiln::search {

namespace {

double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

} // namespace

Candidate predict_best(const Problem &problem, Space &space, const Model &model, const SearchOptions &options,
                       double seconds, Prediction *predicted) {
    double end = now() + seconds;
    Rng rng(options.seed);
    SearchOptions greedy = options;
    greedy.explore = 0;
    Ranker ranker(problem, model, greedy);
    std::vector<Candidate> start = {space.plain()};
    for (const Candidate &c : space.seeds()) {
        start.push_back(c);
    }
    for (const Candidate &c : options.hand) {
        start.push_back(c);
    }
    std::vector<Ranked> pool = beam(space, ranker, start, greedy, 0.5 * seconds, 16);
    std::set<std::string> seen;
    for (const Candidate &c : start) {
        Ranked r;
        r.candidate = c;
        if (ranker.rate(r)) {
            pool.push_back(std::move(r));
        }
    }
    for (int generation = 0; generation < 8 && now() < end; generation++) {
        ranker.predict(pool);
        std::stable_sort(pool.begin(), pool.end(),
                         [](const Ranked &a, const Ranked &b) { return a.key < b.key; });
        pool.resize(std::min<size_t>(pool.size(), 16));
        std::vector<Candidate> parents;
        for (const Ranked &r : pool) {
            parents.push_back(r.candidate);
        }
        std::vector<Ranked> next = breed(space, ranker, parents, seen, 96, end - now(), rng);
        for (Ranked &r : next) {
            seen.insert(identity(r.candidate));
            pool.push_back(std::move(r));
        }
    }
    if (pool.empty()) {
        return start.front();
    }
    ranker.predict(pool);
    auto best = std::min_element(pool.begin(), pool.end(),
                                 [](const Ranked &a, const Ranked &b) { return a.key < b.key; });
    if (predicted) {
        *predicted = best->prediction;
    }
    return best->candidate;
}

} // namespace kiln::search
