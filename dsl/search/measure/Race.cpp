#include "dsl/search/measure/Race.h"

#include "dsl/check/Statistics.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>
#include <thread>

namespace kiln::search {

namespace {

double steady_seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class Racer {
public:
    Racer(const Work &candidate, const Work &incumbent, const RaceOptions &options,
          const std::function<double()> &clock)
        : candidate_(candidate), incumbent_(incumbent), options_(options),
          clock_(clock ? clock : std::function<double()>(steady_seconds)), rng_(options.seed) {}

    Race run() {
        bool alone = !incumbent_.queue;
        // Warm-up: caches, thread pools, clocks. Also how often a sample repeats its work.
        double theirs = alone ? 0 : warm(incumbent_);
        double ours = warm(candidate_);
        if (!alone && ours > options_.give_up * 2 * theirs && ours > 2e-3) {
            return stopped(ours, theirs);
        }
        // Kernels of seconds, on either side: fewer rounds, or one trial would take a search's whole time.
        const double slower = std::max({ours, theirs, 1e-9});
        min_rounds_ = std::clamp(static_cast<int>(4 * options_.seconds / slower), 2, options_.min_rounds);
        repeats_ = repeats_for(ours);
        their_repeats_ = alone ? 1 : repeats_for(theirs);
        double start = clock_();
        int surprise = 1 + static_cast<int>(rng_() % static_cast<uint64_t>(min_rounds_ - 1));
        for (int round = 0; round < options_.max_rounds; round++) {
            double spent = clock_() - start;
            bool enough = static_cast<int>(race_.ours.size()) >= min_rounds_;
            if (enough && !alone && clearly_slower()) {
                race_.times.stopped = true;
                break;
            }
            double budget = options_.seconds * (!alone && enough && may_be_faster() ? 3 : 1);
            if (enough && spent > budget) {
                break;
            }
            one_round(alone, round == surprise);
        }
        summarize(alone);
        return race_;
    }

private:
    const Work &candidate_, &incumbent_;
    const RaceOptions &options_;
    std::function<double()> clock_;
    std::mt19937_64 rng_;
    int repeats_ = 1, their_repeats_ = 1, min_rounds_ = 2;
    Race race_;

    double sample(const Work &work, int repeats) {
        if (options_.idle_s > 0) {
            std::this_thread::sleep_for(std::chrono::duration<double>(options_.idle_s));
        }
        double start = clock_();
        for (int i = 0; i < repeats; i++) {
            work.queue();
        }
        work.wait();
        return (clock_() - start) / repeats;
    }

    /// A second call tells more than the first, where it is affordable.
    double warm(const Work &work) {
        double first = sample(work, 1);
        return first > options_.seconds ? first : std::min(first, sample(work, 1));
    }

    int repeats_for(double seconds) const {
        double most = options_.idle_s > 0 ? 200e-6 : options_.min_sample_s;
        return std::clamp(static_cast<int>(std::ceil(most / std::max(seconds, 1e-8))), 1, 1 << 16);
    }

    void one_round(bool alone, bool surprise) {
        if (surprise) {
            options_.surprise();
            sample(candidate_, 1); // it also carries the poison to a GPU
        }
        bool first = alone || (rng_() & 1);
        double ours = first ? sample(candidate_, repeats_) : 0;
        double theirs = alone ? 0 : sample(incumbent_, their_repeats_);
        if (!first) {
            ours = sample(candidate_, repeats_);
        }
        race_.ours.push_back(ours);
        race_.theirs.push_back(theirs);
    }

    std::vector<double> ratios() const {
        std::vector<double> r;
        for (size_t i = 0; i < race_.ours.size(); i++) {
            r.push_back(race_.theirs[i] / race_.ours[i]);
        }
        return r;
    }
    bool clearly_slower() const {
        std::vector<double> r = ratios();
        return *std::max_element(r.begin(), r.end()) < 0.92;
    }
    bool may_be_faster() const { return median(ratios()) > 0.98; }

    Race stopped(double ours, double theirs) {
        // The second call is timed again, with poison under it, so that what it wrote can be checked.
        options_.surprise();
        sample(candidate_, 1);
        race_.ours = {ours};
        race_.theirs = {theirs};
        race_.times.stopped = true;
        summarize(false);
        return race_;
    }

    void summarize(bool alone) {
        Times &t = race_.times;
        Interval i = median_interval(race_.ours);
        t.ms = i.value * 1e3;
        t.low = i.low * 1e3;
        t.high = i.high * 1e3;
        t.samples = static_cast<int>(race_.ours.size());
        if (!alone) {
            Interval r = paired_ratio(race_.ours, race_.theirs, options_.seed, 400);
            t.incumbent_ms = median(race_.theirs) * 1e3;
            t.ratio = r.value;
            t.ratio_low = r.low;
            t.ratio_high = r.high;
        }
        double moved = std::max(drift(race_.ours), alone ? 0 : drift(race_.theirs));
        if (moved > 0.1) {
            race_.flags.emplace_back("clock drift");
        }
        if (spread(race_.ours) > 0.2) {
            race_.flags.emplace_back("noisy");
        }
    }
};

} // namespace

Race race(const Work &candidate, const Work &incumbent, const RaceOptions &options,
          const std::function<double()> &clock) {
    return Racer(candidate, incumbent, options, clock).run();
}

} // namespace kiln::search
