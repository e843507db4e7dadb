#include "dsl/search/plugin/BestPredicted.h"
#include "dsl/support/Diagnostic.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>

namespace kiln::search {

namespace {

struct Scored {
    Candidate candidate;
    Prediction prediction;
    double cost = 0;
};

class Finder {
public:
    Finder(const Problem &problem, Space &space, const Model &model, const PredictOptions &options)
        : problem_(problem), space_(space), model_(model), options_(options) {}

    BestPredicted run() {
        BestPredicted result;
        Candidate plain = space_.plain();
        take({plain});
        if (known_.empty()) { // the plain schedule has no features: it is all there is
            result.candidate = plain;
            return result;
        }
        result.plain = known_.front().prediction;
        take(space_.seeds());
        beam();
        evolve();
        result.candidate = known_.front().candidate;
        result.prediction = known_.front().prediction;
        result.looked_at = looked_at_;
        return result;
    }

private:
    static constexpr size_t kept = 64; ///< of all that were looked at, the best

    const Problem &problem_;
    Space &space_;
    const Model &model_;
    const PredictOptions &options_;
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
    std::set<std::string> seen_;
    std::vector<Scored> known_; ///< the best first
    int64_t looked_at_ = 0;

    bool over() const {
        std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start_;
        return spent.count() > options_.seconds || looked_at_ >= options_.candidates;
    }

    /// Looks at those that are new. Returns the best of them, at most `options_.beam`.
    std::vector<Scored> take(const std::vector<Candidate> &candidates) {
        std::vector<Scored> fresh;
        std::vector<Features> rows;
        for (const Candidate &c : candidates) {
            if (looked_at_ > 0 && over()) {
                break;
            }
            if (!seen_.insert(c.text()).second) {
                continue;
            }
            looked_at_++;
            try {
                rows.push_back(features(problem_, c.schedule));
            } catch (const Error &) {
                continue; // a family's member that its compiler refuses
            }
            fresh.push_back({c, {}, 0});
        }
        std::vector<Prediction> predictions = model_.predict(rows);
        for (size_t i = 0; i < fresh.size(); i++) {
            fresh[i].prediction = predictions[i];
            fresh[i].cost = std::log(predictions[i].ms) + options_.caution * predictions[i].spread;
        }
        auto cheaper = [](const Scored &a, const Scored &b) { return a.cost < b.cost; };
        std::stable_sort(fresh.begin(), fresh.end(), cheaper);
        known_.insert(known_.end(), fresh.begin(), fresh.end());
        std::stable_sort(known_.begin(), known_.end(), cheaper);
        known_.resize(std::min(known_.size(), kept));
        fresh.resize(std::min(fresh.size(), options_.beam));
        return fresh;
    }

    void beam() {
        std::vector<Scored> front(known_.begin(),
                                  known_.begin() + static_cast<long>(std::min(options_.beam, known_.size())));
        for (size_t step = 0; step < options_.depth && !front.empty(); step++) {
            std::vector<Candidate> next;
            for (const Scored &s : front) {
                if (looked_at_ >= options_.candidates / 2 || over()) {
                    return;
                }
                std::vector<Candidate> steps = space_.expand(s.candidate, options_.expand);
                next.insert(next.end(), steps.begin(), steps.end());
            }
            double before = known_.front().cost;
            front = take(next);
            if (!front.empty() && front.front().cost > before + 0.7) {
                return; // twice as slow as the best: these steps lead away
            }
        }
    }

    void evolve() {
        Rng rng(options_.seed);
        constexpr size_t generation = 64;
        int idle = 0;
        while (!over() && idle < 4) {
            std::vector<Candidate> next;
            for (size_t i = 0; i < generation; i++) {
                // The better half of what is known is drawn more often: the smaller of two draws.
                auto draw = [&] { return std::min(rng() % known_.size(), rng() % known_.size()); };
                std::optional<Candidate> child;
                if (rng() % 4 == 0) {
                    child = space_.cross(known_[draw()].candidate, known_[draw()].candidate, rng);
                } else {
                    child = space_.mutate(known_[draw()].candidate, rng);
                }
                if (child) {
                    next.push_back(std::move(*child));
                }
            }
            double before = known_.front().cost;
            take(next);
            idle = known_.front().cost < before - 1e-3 ? 0 : idle + 1;
        }
    }
};

} // namespace

BestPredicted best_predicted(const Problem &problem, Space &space, const Model &model,
                             const PredictOptions &options) {
    return Finder(problem, space, model, options).run();
}

} // namespace kiln::search
