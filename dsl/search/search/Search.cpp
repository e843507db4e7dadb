#include "dsl/search/search/Search.h"

#include "dsl/check/Statistics.h"
#include "dsl/schedule/Parser.h"
#include "dsl/search/search/Lessons.h"
#include "dsl/search/search/Population.h"
#include "dsl/search/search/Rank.h"
#include "dsl/target/CalibrateCpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>

namespace kiln::search {

namespace {

double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

uint64_t mix(uint64_t a, uint64_t b) {
    a += b * 0x9e3779b97f4a7c15ull;
    a = (a ^ (a >> 30)) * 0xbf58476d1ce4e5b9ull;
    a = (a ^ (a >> 27)) * 0x94d049bb133111ebull;
    return (a ^ (a >> 31)) >> 16; // short enough to type
}

KnobValues knobs_of(const Candidate &candidate) {
    return candidate.schedule.knobs.empty() ? KnobValues{} : candidate.knobs;
}

Diagnostic all_are_lost(const StoredTrial &trial, int lost) {
    Diagnostic d;
    d.code = "K1316";
    d.message = fmt::format("{} trials in a row were lost: {}", lost, trial.outcome.message);
    for (const Diagnostic &cause : trial.outcome.diagnostics) {
        d.notes.push_back(cause.message);
    }
    d.helps = {"what was measured before is kept: `--resume` goes on from there"};
    return d;
}

Diagnostic nothing_measured(const Problem &problem, int64_t trials,
                            const std::map<std::string, int64_t> &failed,
                            const std::vector<Diagnostic> &plain_faults) {
    Diagnostic d;
    d.code = "K1315";
    d.message = fmt::format("none of {} schedules for `{}` could be measured on `{}`", trials, problem.name(),
                            problem.target.str());
    for (const auto &[status, count] : failed) {
        d.notes.push_back(fmt::format("{} {}", count, status));
    }
    for (const Diagnostic &cause : plain_faults) {
        d.notes.push_back(fmt::format("the default schedule: {} {}", cause.code, cause.message));
    }
    d.helps = {"`kiln check` says what is wrong with the default schedule"};
    return d;
}

class Searcher {
public:
    Searcher(const Problem &problem, Space &space, Model &model, Measurer &measurer, Database &database,
             const SearchOptions &options, const SearchObserver &observer)
        : problem_(problem), space_(space), model_(model), measurer_(measurer), database_(database),
          options_(options), observer_(observer), ranker_(problem, model_, options), rng_(options.seed),
          population_(options.regime), lessons_(problem, model_) {}

    SearchResult run() {
        start_ = now();
        begin();
        while (true) {
            feed();
            if (measurer_.pending() == 0 && queue_.empty()) {
                break;
            }
            if (std::optional<Outcome> outcome = measurer_.next(0.1)) {
                record(std::move(*outcome));
            }
            tell("measuring");
            if (out_of_time()) {
                measurer_.cancel();
                break;
            }
        }
        return finish();
    }

private:
    struct Flying {
        Job job;
        Ranked ranked;
        double incumbent_score = 0, incumbent_cool_score = 0;
    };

    const Problem &problem_;
    Space &space_;
    Model &model_;
    Measurer &measurer_;
    Database &database_;
    const SearchOptions &options_;
    const SearchObserver &observer_;
    Ranker ranker_;
    Rng rng_;

    double start_ = 0, before_s_ = 0;
    Entry entry_;
    Run run_;
    std::string loose_key_;
    int64_t number_ = 0, done_ = 0;
    std::deque<Ranked> queue_;
    std::map<int64_t, Flying> flying_;
    std::set<std::string> seen_;
    Population population_;
    Lessons lessons_; ///< what trials taught
    StoredTrial plain_;
    std::string plain_id_;
    std::vector<Diagnostic> plain_faults_;
    std::map<std::string, int64_t> failed_;
    std::vector<double> surprises_;
    int lost_ = 0, barren_ = 0;
    bool exhausted_ = false, confirming_ = false, stopped_ = false;
    std::set<std::string> confirmed_;

    double spent() const { return before_s_ + now() - start_; }
    /// Not by number: what was under way when a search was killed has a number and was never measured.
    bool trials_are_over() const {
        return options_.trials > 0 && done_ + static_cast<int64_t>(flying_.size()) >= options_.trials;
    }
    bool out_of_time() {
        stopped_ = stopped_ || observer_.stop();
        return stopped_ || (options_.budget_s > 0 && spent() >= options_.budget_s);
    }
    /// The last part of the budget is for measuring the best ones against each other.
    bool draft_time_is_over() const { return options_.budget_s > 0 && spent() >= 0.9 * options_.budget_s; }

    void begin() {
        Facts facts = facts_of(problem_, options_.threads);
        loose_key_ = facts.loose_key();
        entry_ = database_.entry_for(facts, problem_.name());
        std::optional<Run> old;
        if (options_.resume) {
            old = database_.open_run(entry_.id, options_.space);
        }
        if (old) {
            run_ = *old;
            before_s_ = run_.spent_s;
            rng_.seed(mix(options_.seed, static_cast<uint64_t>(run_.trials) + 1));
        } else {
            run_.entry = entry_.id;
            run_.space = options_.space;
            run_.budget_s = options_.budget_s;
            run_.trial_limit = options_.trials;
            run_.seed = options_.seed;
            run_ = database_.begin_run(run_);
        }
        model_.focus(problem_.name(), problem_.device.key());
        remember();
        seed_queue();
    }

    /// What the database knows of this question.
    void remember() {
        for (StoredTrial &trial : database_.trials(entry_.id)) {
            bool of_this_run = trial.run == run_.id;
            if (of_this_run) {
                number_ = std::max(number_, trial.job.number);
                done_++;
            }
            if (!of_this_run && trial.loose_key != loose_key_) {
                continue;
            }
            std::optional<Candidate> candidate = candidate_of(trial);
            if (!candidate) {
                continue;
            }
            if (of_this_run) {
                seen_.insert(identity_of(trial.job));
                if (!trial.outcome.ok()) {
                    failed_[status_name(trial.outcome.status)]++;
                }
            }
            if (trial.outcome.ok()) {
                learn(*candidate, trial.score_ms);
                if (of_this_run) {
                    if (trial.job.origin == "plain" && plain_.id == 0) {
                        plain_ = trial;
                    }
                    population_.join(*candidate, trial);
                }
            }
        }
        lessons_.learn();
    }

    void learn(const Candidate &candidate, double ms) {
        Ranked r;
        r.candidate = candidate;
        if (ms > 0 && ranker_.rate(r)) {
            lessons_.add(r.features, ms);
        }
    }

    std::optional<Candidate> candidate_of(const StoredTrial &trial) {
        ParseResult parsed = parse_schedules(trial.job.schedule, "database");
        if (!parsed.ok() || parsed.schedules.empty()) {
            return std::nullopt;
        }
        Candidate c;
        c.schedule = parsed.schedules.front();
        c.origin = trial.job.origin;
        c.knobs = trial.job.knobs;
        return c;
    }

    void seed_queue() {
        Candidate plain = space_.plain();
        plain_id_ = identity(plain);
        add_seed(plain);
        // The best of earlier runs: measured again, since they carry this run's scale, and where driver or compiler
        // changed also because they may have lost their places.
        for (const StoredTrial &trial : database_.best(entry_.id, 4, options_.regime)) {
            if (std::optional<Candidate> c = candidate_of(trial)) {
                if (c->origin != "plain") {
                    c->origin = "database";
                }
                if (std::optional<Candidate> legal = space_.adopt(c->schedule, c->origin)) {
                    add_seed(*c);
                }
            }
        }
        for (const Candidate &c : options_.hand) {
            add_seed(c);
        }
        std::vector<Ranked> drafts;
        for (Candidate &c : space_.seeds()) {
            if (seen_.count(identity(c))) {
                continue;
            }
            Ranked r;
            r.candidate = std::move(c);
            if (ranker_.rate(r)) {
                drafts.push_back(std::move(r));
            }
        }
        std::vector<Candidate> start = {plain};
        for (const Ranked &r : drafts) {
            start.push_back(r.candidate);
        }
        for (const Candidate &c : options_.hand) {
            start.push_back(c);
        }
        tell("drafting");
        double seconds = options_.budget_s > 0 ? std::clamp(0.08 * options_.budget_s, 0.2, 8.0) : 4;
        for (Ranked &r :
             beam(space_, ranker_, start, options_, seconds, static_cast<size_t>(options_.batch))) {
            drafts.push_back(std::move(r));
        }
        // Two batches of what looks best before anything was learned.
        for (Ranked &r : ranker_.choose(std::move(drafts), 2 * static_cast<size_t>(options_.batch), rng_)) {
            add(std::move(r));
        }
    }

    void add_seed(const Candidate &candidate) {
        Ranked r;
        r.candidate = candidate;
        // What the tile compiler refuses at these sizes needs no trial; the plain schedule gets one in any case.
        if (!ranker_.rate(r) && candidate.origin != "plain") {
            return;
        }
        std::vector<Ranked> one = {std::move(r)};
        ranker_.predict(one);
        add(std::move(one[0]));
    }

    void add(Ranked ranked) {
        if (seen_.insert(identity(ranked.candidate)).second) {
            queue_.push_back(std::move(ranked));
        }
    }

    void feed() {
        if (queue_.size() < measurer_.depth() && !exhausted_ && !draft_time_is_over() && !trials_are_over() &&
            !confirming_ && !waits_for_first()) {
            propose();
        }
        if ((queue_.empty() || draft_time_is_over()) && !confirming_ && measurer_.pending() == 0 &&
            !trials_are_over()) {
            confirm();
        }
        while (!queue_.empty() && measurer_.pending() < measurer_.depth() && !trials_are_over() &&
               (confirming_ || !draft_time_is_over()) && !waits_for_first()) {
            submit(std::move(queue_.front()));
            queue_.pop_front();
        }
        if (trials_are_over()) {
            queue_.clear();
        }
    }

    /// Until something is right there is nothing to race against: what follows would be timed alone, and slow ones long.
    bool waits_for_first() const { return population_.empty() && !flying_.empty() && flying_.size() >= 2; }

    void submit(Ranked ranked) {
        Flying flying;
        flying.job.number = ++number_;
        flying.job.schedule = ranked.candidate.text();
        flying.job.knobs = knobs_of(ranked.candidate);
        flying.job.origin = ranked.candidate.origin;
        flying.job.seed = mix(run_.seed, static_cast<uint64_t>(number_));
        if (!population_.empty()) {
            const StoredTrial &best = population_.best().trial;
            // A schedule does not race against itself, but where it is measured again.
            flying.job.incumbent = best.job.schedule;
            flying.job.incumbent_knobs = best.job.knobs;
            flying.incumbent_score = best.score_ms;
            flying.incumbent_cool_score = best.cool_score_ms;
        }
        flying.ranked = std::move(ranked);
        Job job = flying.job;
        flying_[number_] = std::move(flying);
        measurer_.submit(std::move(job));
    }

    void propose() {
        tell("drafting");
        std::vector<Candidate> parents = population_.parents(16);
        if (parents.empty()) {
            parents.push_back(space_.plain());
        }
        double seconds = options_.budget_s > 0 ? std::clamp(0.02 * options_.budget_s, 0.1, 1.5) : 1;
        std::vector<Ranked> drafts = breed(space_, ranker_, parents, seen_, options_.drafts, seconds, rng_);
        // Three times nothing new, or the space is simply large and its moves unlucky.
        barren_ = drafts.empty() ? barren_ + 1 : 0;
        exhausted_ = barren_ >= 3;
        for (Ranked &r : ranker_.choose(std::move(drafts), static_cast<size_t>(options_.batch), rng_)) {
            add(std::move(r));
        }
    }

    /// The best ones once more, against the first of them: a lucky sample must not win.
    void confirm() {
        confirming_ = true;
        queue_.clear();
        if (population_.size() < 2 || done_ < 8) {
            return;
        }
        for (size_t i = 1; i < std::min<size_t>(4, population_.size()); i++) {
            Ranked r;
            r.candidate = population_[i].candidate;
            queue_.push_back(std::move(r));
        }
    }

    void record(Outcome outcome) {
        auto it = flying_.find(outcome.number);
        if (it == flying_.end()) {
            return;
        }
        Flying flying = std::move(it->second);
        flying_.erase(it);
        StoredTrial trial;
        trial.entry = entry_.id;
        trial.run = run_.id;
        trial.job = flying.job;
        trial.outcome = std::move(outcome);
        trial.loose_key = loose_key_;
        trial.date = utc_now();
        trial.at_s = spent();
        if (flying.ranked.has_features) {
            trial.predicted_ms = flying.ranked.prediction.ms;
            trial.predicted_sigma = flying.ranked.prediction.sigma;
        }
        if (trial.outcome.ok()) {
            // Faster than the incumbent only where the interval says so: on a busy machine a lucky ratio must not take its
            // place, and the next ones race against it.
            auto score = [](const Times &t, double incumbent) {
                if (t.ratio <= 0 || incumbent <= 0) {
                    return t.ms;
                }
                return incumbent / (t.ratio > 1 && t.ratio_low <= 1 ? 1 : t.ratio);
            };
            trial.score_ms = score(trial.outcome.times, flying.incumbent_score);
            trial.cool_score_ms = score(trial.outcome.cool, flying.incumbent_cool_score);
        }
        trial.id = database_.add(trial); // before all else
        done_++;
        lost_ = trial.outcome.status == Status::Lost ? lost_ + 1 : 0;
        if (lost_ >= 5) {
            measurer_.cancel();
            throw Error(all_are_lost(trial, lost_));
        }
        bool is_plain = identity_of(trial.job) == plain_id_;
        if (trial.outcome.ok()) {
            if (trial.predicted_ms > 0) {
                surprises_.push_back(std::abs(std::log(trial.predicted_ms / trial.score_ms)));
            }
            if (flying.ranked.has_features) {
                lessons_.add(flying.ranked.features, trial.score_ms);
            }
            if (is_plain && plain_.id == 0) {
                plain_ = trial;
            }
            population_.join(flying.ranked.candidate, trial);
            barren_ = 0, exhausted_ = false; // another parent: there may be more to try than it seemed
            if (lessons_.waiting() >= static_cast<size_t>(options_.batch)) {
                lessons_.learn();
                rank_queue_again();
            }
        } else {
            failed_[status_name(trial.outcome.status)]++;
            if (is_plain) {
                plain_faults_ = trial.outcome.diagnostics;
            }
            population_.leave(trial);
        }
        observer_.trial(trial);
    }

    void rank_queue_again() {
        std::vector<Ranked> all(std::make_move_iterator(queue_.begin()),
                                std::make_move_iterator(queue_.end()));
        ranker_.predict(all);
        std::stable_sort(all.begin(), all.end(),
                         [](const Ranked &a, const Ranked &b) { return a.key < b.key; });
        queue_.assign(std::make_move_iterator(all.begin()), std::make_move_iterator(all.end()));
    }

    SearchProgress progress(const std::string &doing) const {
        SearchProgress p;
        p.done = done_;
        p.left = options_.trials > 0 ? std::max<int64_t>(0, options_.trials - done_) : -1;
        p.spent_s = spent();
        p.left_s = options_.budget_s > 0 ? std::max(0.0, options_.budget_s - p.spent_s) : -1;
        if (!population_.empty()) {
            const StoredTrial &best = population_.best().trial;
            p.best_ms = population_.score(best);
            p.best_origin = best.job.origin;
        }
        p.baseline_ms = population_.score(plain_);
        p.roofline_ms = options_.roofline_ms;
        p.rejected = space_.rejected();
        for (const auto &[reason, count] : ranker_.failed()) {
            p.rejected[reason] += count;
        }
        p.failed = failed_;
        p.doing = doing;
        return p;
    }

    void tell(const std::string &doing) { observer_.progress(progress(doing)); }

    SearchResult finish() {
        SearchResult result;
        result.run = run_;
        result.run.trials = done_;
        result.run.spent_s = spent();
        result.plain = plain_;
        for (size_t i = 0; i < std::min<size_t>(4, population_.size()); i++) {
            result.best.push_back(population_[i].trial);
        }
        result.progress = progress("done");
        result.model_error = median(surprises_);
        result.ended = stopped_                                                      ? "stopped"
                       : options_.trials > 0 && done_ >= options_.trials             ? "trials"
                       : options_.budget_s > 0 && spent() >= 0.9 * options_.budget_s ? "budget"
                                                                                     : "space exhausted";
        if (!stopped_) {
            database_.end_run(run_.id);
            result.run.state = "done";
        }
        result.entry = *database_.find(entry_.facts);
        if (population_.empty() && done_ > 0 && !stopped_) {
            throw Error(nothing_measured(problem_, done_, failed_, plain_faults_));
        }
        return result;
    }
};

} // namespace

SearchResult search(const Problem &problem, Space &space, Model model, Measurer &measurer, Database &database,
                    const SearchOptions &options, const SearchObserver &observer) {
    return Searcher(problem, space, model, measurer, database, options, observer).run();
}

} // namespace kiln::search
