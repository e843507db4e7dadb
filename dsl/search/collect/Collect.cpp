#include "dsl/search/collect/Collect.h"

#include "dsl/schedule/Canonical.h"
#include "dsl/search/space/Space.h"
#include "dsl/support/Diagnostic.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <set>

namespace kiln::search {

namespace {

struct Measured {
    Candidate candidate;
    double ms = 0;
};

/// Candidates of one problem.
class Sampler {
public:
    Sampler(const CollectWork &work, const CollectOptions &options, uint64_t seed)
        : work_(work), options_(options), problem_(make(work, options)), space_(pipeline_space(problem_)),
          rng_(seed) {
        setup_.generator = work.generator;
        setup_.params = problem_.parameters;
        setup_.workload = work.workload;
        setup_.target = options.target;
        setup_.threads = options.threads;
        setup_.jobs = options.jobs;
    }

    std::vector<Timing> run(std::map<std::string, size_t> &failed) {
        std::vector<Candidate> first = {space_->plain()};
        for (Candidate &c : space_->seeds()) {
            first.push_back(std::move(c));
        }
        size_t third = std::max<size_t>(1, options_.of_problem / 3);
        thin(first, third);
        // What seeds lack, chance makes up for.
        for (size_t tries = 0; first.size() < 2 * third && tries < 4 * third; tries++) {
            if (std::optional<Candidate> c = space_->random(rng_)) {
                first.push_back(std::move(*c));
            }
        }
        measure(first, failed);
        std::vector<Candidate> second;
        std::sort(measured_.begin(), measured_.end(),
                  [](const Measured &a, const Measured &b) { return a.ms < b.ms; });
        for (size_t tries = 0; !measured_.empty() && second.size() < third && tries < 6 * third; tries++) {
            size_t from = rng_() % std::min<size_t>(measured_.size(), 6);
            std::optional<Candidate> c = space_->mutate(measured_[from].candidate, rng_);
            // A second step every other time, so that not all are next to each other.
            if (c && tries % 2) {
                if (std::optional<Candidate> further = space_->mutate(*c, rng_)) {
                    c = std::move(further);
                }
            }
            if (c) {
                second.push_back(std::move(*c));
            }
        }
        measure(second, failed);
        return std::move(timings_);
    }

    const Problem &problem() const { return problem_; }

private:
    const CollectWork &work_;
    const CollectOptions &options_;
    Problem problem_;
    std::unique_ptr<Space> space_;
    Rng rng_;
    TimeSetup setup_;
    std::set<std::string> seen_;
    std::vector<Measured> measured_;
    std::vector<Timing> timings_;

    static Problem make(const CollectWork &work, const CollectOptions &options) {
        return problem_of(work.generator, work.params, work.workload, options.target, options.device);
    }

    /// Keeps the first and an even choice of the others.
    static void thin(std::vector<Candidate> &all, size_t most) {
        std::vector<Candidate> kept;
        for (size_t i = 0; i < std::min(most, all.size()); i++) {
            kept.push_back(all[i * all.size() / std::min(most, all.size())]);
        }
        all = std::move(kept);
    }

    void measure(const std::vector<Candidate> &candidates, std::map<std::string, size_t> &failed) {
        std::vector<Schedule> schedules;
        std::vector<const Candidate *> kept;
        for (const Candidate &c : candidates) {
            if (!seen_.insert(c.text()).second) {
                continue;
            }
            schedules.push_back(canonical(c.schedule, c.knobs));
            kept.push_back(&c);
        }
        std::vector<Timed> times = time_candidates(setup_, schedules);
        for (size_t i = 0; i < kept.size(); i++) {
            if (times[i].ms == 0) {
                failed[times[i].fault]++;
                continue;
            }
            measured_.push_back({*kept[i], times[i].ms});
            Timing t;
            t.device = device_label(options_.device, options_.threads);
            t.generator = work_.generator;
            t.params = problem_.parameters;
            t.extents = work_.workload.extents;
            t.scalars = work_.workload.scalars;
            t.operation = work_.operation;
            t.schedule = kept[i]->text();
            t.origin = kept[i]->origin;
            t.ms = times[i].ms;
            timings_.push_back(std::move(t));
        }
    }
};

/// Problems that the file holds of this device.
std::set<std::string> known_problems(const std::filesystem::path &path, const std::string &label) {
    std::set<std::string> known;
    if (std::filesystem::exists(path)) {
        for (const Timing &t : read_timings({path}).timings) {
            if (t.device == label) {
                known.insert(t.problem_key());
            }
        }
    }
    return known;
}

Timing key_of(const CollectWork &work) {
    Timing t;
    t.generator = work.generator;
    t.params = work.params;
    for (const auto &[name, value] : work.workload.params) {
        t.params[name] = value;
    }
    t.extents = work.workload.extents;
    t.scalars = work.workload.scalars;
    return t;
}

} // namespace

std::string device_label(const Device &device, int threads) {
    return device.target.backend == Backend::Cpu
               ? fmt::format("{}, {}, {} thread{}", device.name, device.target.str(), threads,
                             threads == 1 ? "" : "s")
               : device.name;
}

CollectReport collect(const std::vector<CollectWork> &work, const CollectOptions &options) {
    auto start = std::chrono::steady_clock::now();
    CollectReport report;
    std::string label = device_label(options.device, options.threads);
    std::set<std::string> known = known_problems(options.output, label);
    bool is_over = false;
    for (size_t i = 0; i < work.size(); i++) {
        std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
        is_over = is_over || (options.budget_s > 0 && spent.count() > options.budget_s);
        std::string name = fmt::format("{} {}", work[i].operation, work[i].workload.name);
        if (options.progress) {
            options.progress(i, work.size(), name);
        }
        try {
            if (!known.insert(key_of(work[i]).problem_key()).second) {
                continue;
            }
            if (is_over) {
                report.left++;
                continue;
            }
            Sampler sampler(work[i], options, options.seed * 1000 + i);
            std::vector<Timing> timings = sampler.run(report.failed);
            append_timings(options.output, label, options.device, timings);
            report.samples += timings.size();
            report.problems++;
            if (timings.empty()) {
                report.notes.push_back(name + ": no candidate gave a time");
            }
        } catch (const Error &e) {
            report.notes.push_back(fmt::format("{}: {}", name, e.diagnostics.front().message));
        } catch (const Halide::Error &e) {
            report.notes.push_back(fmt::format("{}: {}", name, e.what()));
        }
    }
    return report;
}

} // namespace kiln::search
