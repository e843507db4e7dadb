#include "dsl/check/Measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>

namespace kiln {

namespace {

double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double time_of(const Work &work, int repeats) {
    double start = now();
    for (int i = 0; i < repeats; i++) {
        work.queue();
    }
    work.wait();
    return (now() - start) / repeats;
}

int repeats_for(const Work &work, double min_sample_s) {
    for (int repeats = 1;; repeats *= 2) {
        double each = time_of(work, repeats);
        if (each * repeats >= min_sample_s || repeats >= 1 << 16) {
            return std::max(1, static_cast<int>(std::ceil(min_sample_s / std::max(each, 1e-9))));
        }
    }
}

} // namespace

void HostFlush::operator()() {
    for (size_t i = 0; i < memory_.size(); i += 64) {
        memory_[i]++;
    }
    volatile unsigned char seen = memory_[memory_.size() / 2];
    (void)seen;
}

Measurement measure(const Work &candidate, const Work &baseline, const MeasureOptions &options) {
    Measurement m;
    bool has_baseline = static_cast<bool>(baseline.queue);
    m.first = time_of(candidate, 1);
    time_of(candidate, 1);
    if (has_baseline) {
        time_of(baseline, 1);
        m.baseline_repeats = repeats_for(baseline, options.min_sample_s);
    }
    m.repeats = repeats_for(candidate, options.min_sample_s);
    std::mt19937_64 rng(options.seed);
    auto rounds = [&](bool cold, std::vector<double> &ours, std::vector<double> &theirs) {
        double end = now() + options.seconds;
        for (int round = 0; round < options.max_rounds && (round < options.min_rounds || now() < end);
             round++) {
            bool candidate_first = rng() & 1;
            for (int turn = 0; turn < 2; turn++) {
                bool is_candidate = (turn == 0) == candidate_first;
                if (!is_candidate && !has_baseline) {
                    continue;
                }
                if (cold) {
                    options.flush();
                }
                const Work &work = is_candidate ? candidate : baseline;
                int repeats = cold ? 1 : is_candidate ? m.repeats : m.baseline_repeats;
                (is_candidate ? ours : theirs).push_back(time_of(work, repeats));
            }
        }
    };
    rounds(false, m.warm, m.baseline_warm);
    if (options.flush) {
        rounds(true, m.cold, m.baseline_cold);
    }
    return m;
}

} // namespace kiln
