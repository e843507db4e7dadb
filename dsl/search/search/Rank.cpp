#include "dsl/search/search/Rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

namespace kiln::search {

namespace {

double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void sort_by_key(std::vector<Ranked> &all) {
    std::stable_sort(all.begin(), all.end(), [](const Ranked &a, const Ranked &b) { return a.key < b.key; });
}

} // namespace

std::string identity(const Candidate &candidate) {
    std::string text = candidate.text();
    if (!candidate.schedule.knobs.empty()) {
        for (const auto &[name, value] : candidate.knobs) {
            text += fmt::format("{}={}\n", name, value);
        }
    }
    return text;
}

bool Ranker::rate(Ranked &ranked) {
    try {
        ranked.features = options_.features(problem_, ranked.candidate.schedule);
        ranked.estimate_ms = estimate_ms(ranked.features);
        ranked.has_features = true;
        ranked.key = ranked.estimate_ms;
    } catch (const Error &e) {
        const Diagnostic &d = e.diagnostics.at(0);
        failed_[fmt::format("{} {}", d.code, d.message)]++;
    }
    return ranked.has_features;
}

void Ranker::predict(std::vector<Ranked> &candidates) const {
    std::vector<Features> features;
    for (const Ranked &r : candidates) {
        if (r.has_features) {
            features.push_back(r.features);
        }
    }
    std::vector<Prediction> predictions = model_.predict(features);
    size_t i = 0;
    for (Ranked &r : candidates) {
        if (r.has_features) {
            r.prediction = predictions[i++];
            r.key = std::log(std::max(r.prediction.ms, 1e-9)) - options_.explore * r.prediction.spread;
        } else {
            r.key = -INFINITY; // from elsewhere: somebody believed in it
        }
    }
}

std::vector<Ranked> Ranker::choose(std::vector<Ranked> drafts, size_t count, Rng &rng) const {
    std::stable_sort(drafts.begin(), drafts.end(),
                     [](const Ranked &a, const Ranked &b) { return a.estimate_ms < b.estimate_ms; });
    if (drafts.size() > options_.survivors) {
        // One in eight survives by luck: the roofline is rough.
        size_t lucky = options_.survivors / 8, best = options_.survivors - lucky;
        std::shuffle(drafts.begin() + static_cast<long>(best), drafts.end(), rng);
        drafts.resize(options_.survivors);
    }
    predict(drafts);
    sort_by_key(drafts);
    size_t by_chance = static_cast<size_t>(std::lround(options_.chance * static_cast<double>(count)));
    size_t sure = count - std::min(by_chance, count);
    if (drafts.size() > count) {
        std::shuffle(drafts.begin() + static_cast<long>(sure), drafts.end(), rng);
        drafts.resize(count);
    }
    return drafts;
}

std::vector<Ranked> beam(Space &space, Ranker &ranker, const std::vector<Candidate> &start,
                         const SearchOptions &options, double seconds, size_t most) {
    double end = now() + seconds;
    std::set<std::string> seen;
    std::vector<Ranked> level, all;
    for (const Candidate &c : start) {
        Ranked r;
        r.candidate = c;
        if (seen.insert(identity(c)).second && ranker.rate(r)) {
            level.push_back(std::move(r));
        }
    }
    ranker.predict(level);
    sort_by_key(level);
    level.resize(std::min(level.size(), options.beam_width));
    for (size_t depth = 0; depth < options.beam_depth && !level.empty() && now() < end; depth++) {
        std::vector<Ranked> next;
        for (const Ranked &from : level) {
            if (now() > end) {
                break;
            }
            for (Candidate &c : space.expand(from.candidate, 96)) {
                Ranked r;
                r.candidate = std::move(c);
                if (seen.insert(identity(r.candidate)).second && ranker.rate(r)) {
                    r.candidate.origin = "beam";
                    next.push_back(std::move(r));
                }
                if (now() > end) {
                    break;
                }
            }
        }
        ranker.predict(next);
        sort_by_key(next);
        next.resize(std::min(next.size(), options.beam_width));
        all.insert(all.end(), next.begin(), next.end());
        // The old level competes: a step must not be forced where all of them are worse.
        level.insert(level.end(), next.begin(), next.end());
        sort_by_key(level);
        level.resize(std::min(level.size(), options.beam_width));
        if (next.empty()) {
            break;
        }
    }
    sort_by_key(all);
    all.resize(std::min(all.size(), most));
    return all;
}

std::vector<Ranked> breed(Space &space, Ranker &ranker, const std::vector<Candidate> &parents,
                          const std::set<std::string> &seen, size_t count, double seconds, Rng &rng) {
    double end = now() + seconds;
    std::vector<Ranked> drafts;
    std::set<std::string> here;
    // The better, the likelier: each next one half as likely as four places before.
    auto parent = [&]() -> const Candidate & {
        std::uniform_real_distribution<double> unit(1e-9, 1);
        auto at = static_cast<size_t>(-4 * std::log2(unit(rng)));
        return parents[at % parents.size()];
    };
    for (size_t tries = 0; tries < 6 * count && drafts.size() < count && now() < end; tries++) {
        std::optional<Candidate> made;
        uint64_t how = rng() % 20;
        if (parents.empty() || how < 3) {
            made = space.random(rng);
        } else if (how < 6 && parents.size() > 1) {
            made = space.cross(parent(), parent(), rng);
        } else {
            made = space.mutate(parent(), rng);
            // Some go two or three steps at once.
            for (uint64_t more = how >= 15 ? 1 + rng() % 2 : 0; made && more > 0; more--) {
                if (std::optional<Candidate> further = space.mutate(*made, rng)) {
                    made = std::move(further);
                }
            }
        }
        if (!made) {
            continue;
        }
        std::string id = identity(*made);
        if (seen.count(id) || !here.insert(id).second) {
            continue;
        }
        Ranked r;
        r.candidate = std::move(*made);
        if (ranker.rate(r)) {
            drafts.push_back(std::move(r));
        }
    }
    return drafts;
}

} // namespace kiln::search
