// The search over a small space with a known best, measured by a stand-in whose faults and times are known: it finds the
// best, survives whatever trials do, and loses nothing when it is stopped.
#include "dsl/generator/Load.h"
#include "dsl/schedule/Parser.h"
#include "dsl/schedule/Print.h"
#include "dsl/search/search/Rank.h"
#include "dsl/search/search/Search.h"
#include "dsl/search/search/Tuned.h"
#include "dsl/support/Files.h"

#include <Halide.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <deque>
#include <set>

#include <sys/wait.h>
#include <unistd.h>

namespace kiln::search {
namespace {

Problem small_problem(const std::string &driver = "1") {
    Halide::ImageParam x(Halide::Float(32), 1, "x");
    Halide::Func y("y");
    Halide::Var i("i");
    y(i) = x(i) + 1.0f;
    Problem p;
    p.outputs = {y};
    p.generator = "small";
    p.extents = {{"x", {1000}}, {"y", {1000}}};
    p.target = Target::parse("cpu avx2");
    p.device = nominal_device(p.target, 2);
    p.device.driver = driver;
    return make_problem(p);
}

/// Points (a, b) of a 16 x 16 grid as schedules; neighbours differ by one step.
class GridSpace : public Space {
public:
    static constexpr int side = 16;
    static Candidate at(int a, int b, const std::string &origin) {
        Candidate c;
        std::string text = fmt::format(
            "schedule p{}_{} {{\n  op small\n  target cpu\n\n  y.split(i, io, ii, {}).split(io, ioo, "
            "ioi, {});\n}}\n",
            a, b, a + 1, b + 1);
        c.schedule = parse_schedules(text, "").schedules.at(0);
        c.origin = origin;
        return c;
    }
    static std::pair<int, int> point(const std::string &schedule) {
        int a = 0, b = 0;
        sscanf(schedule.c_str() + schedule.find("schedule p"), "schedule p%d_%d", &a, &b);
        return {a, b};
    }
    Candidate plain() override { return at(0, 0, "plain"); }
    std::vector<Candidate> seeds() override { return {at(4, 4, "seed"), at(12, 4, "seed")}; }
    std::vector<Candidate> expand(const Candidate &from, size_t most) override {
        auto [a, b] = point(from.text());
        std::vector<Candidate> out;
        for (auto [da, db] : {std::pair(1, 0), {-1, 0}, {0, 1}, {0, -1}}) {
            if (a + da >= 0 && a + da < side && b + db >= 0 && b + db < side && out.size() < most) {
                out.push_back(at(a + da, b + db, "step"));
            }
        }
        return out;
    }
    std::optional<Candidate> mutate(const Candidate &from, Rng &rng) override {
        std::vector<Candidate> all = expand(from, 9);
        rejected_["K0000 by the grid"]++;
        return all[rng() % all.size()];
    }
    std::optional<Candidate> cross(const Candidate &x, const Candidate &y, Rng &) override {
        return at(point(x.text()).first, point(y.text()).second, "cross");
    }
    std::optional<Candidate> random(Rng &rng) override {
        return at(static_cast<int>(rng() % side), static_cast<int>(rng() % side), "random");
    }
    std::optional<Candidate> adopt(const Schedule &schedule, const std::string &origin) override {
        Candidate c;
        c.schedule = schedule;
        c.origin = origin;
        return c;
    }
};

/// The best is (11, 6).
double truth(std::pair<int, int> p) {
    return 1 + 0.1 * std::abs(p.first - 11) + 0.07 * std::abs(p.second - 6);
}

/// What a roofline would say: near the truth, with its best elsewhere.
Features rough(const Problem &, const Schedule &s) {
    std::pair<int, int> p = GridSpace::point(print_text(s));
    Features f;
    f.rows.resize(1);
    f.rows[0].stage = "y";
    f.rows[0].estimate_ms = 1 + 0.1 * std::abs(p.first - 9) + 0.05 * std::abs(p.second - 9);
    f.rows[0][Feature::points] = static_cast<float>(1 + p.first);
    f.rows[0][Feature::tasks] = static_cast<float>(1 + p.second);
    return f;
}

class FakeMeasurer : public Measurer {
public:
    std::function<Status(std::pair<int, int>)> judge = [](std::pair<int, int>) { return Status::Ok; };
    std::vector<Job> jobs; ///< all that were measured
    size_t cancelled = 0;
    std::function<void(size_t)> before = [](size_t) {};

    size_t depth() const override { return 4; }
    void submit(Job job) override { waiting_.push_back(std::move(job)); }
    std::optional<Outcome> next(double) override {
        if (waiting_.empty()) {
            return std::nullopt;
        }
        Job job = waiting_.front();
        waiting_.pop_front();
        before(jobs.size());
        jobs.push_back(job);
        Outcome o;
        o.number = job.number;
        o.status = judge(GridSpace::point(job.schedule));
        if (o.ok()) {
            o.times.ms = truth(GridSpace::point(job.schedule));
            if (!job.incumbent.empty()) {
                o.times.incumbent_ms = truth(GridSpace::point(job.incumbent));
                o.times.ratio = o.times.ratio_low = o.times.ratio_high = o.times.incumbent_ms / o.times.ms;
            }
        } else {
            o.message = "planted";
        }
        return o;
    }
    size_t pending() const override { return waiting_.size(); }
    void cancel() override {
        cancelled += waiting_.size();
        waiting_.clear();
    }

private:
    std::deque<Job> waiting_;
};

SearchOptions options(int64_t trials) {
    SearchOptions o;
    o.budget_s = 0;
    o.trials = trials;
    o.batch = 8;
    o.features = rough;
    return o;
}

struct SearchTest : testing::Test {
    TemporaryFolder folder;
    std::filesystem::path path = folder.path() / "tune.db";
    Problem problem = small_problem();
    GridSpace space;
    FakeMeasurer measurer;
};

TEST_F(SearchTest, FindsTheBestOfASmallSpace) {
    Database db(path);
    SearchResult r = search(problem, space, Model::analytic(), measurer, db, options(100));
    ASSERT_FALSE(r.best.empty());
    EXPECT_EQ(GridSpace::point(r.best[0].job.schedule), std::pair(11, 6));
    EXPECT_NEAR(r.best[0].score_ms, 1, 1e-9);
    EXPECT_EQ(r.ended, "trials");
    EXPECT_EQ(r.progress.done, 100);
    EXPECT_EQ(measurer.jobs.size(), 100u);
    EXPECT_NEAR(r.progress.baseline_ms, truth({0, 0}), 1e-9);
    EXPECT_EQ(r.plain.job.origin, "plain");
    EXPECT_GT(r.progress.rejected.at("K0000 by the grid"), 0);
    EXPECT_EQ(db.entries().at(0).trials, 100);
    std::set<std::string> distinct;
    std::set<uint64_t> seeds;
    for (const Job &j : measurer.jobs) {
        distinct.insert(j.schedule);
        seeds.insert(j.seed);
    }
    EXPECT_EQ(distinct.size(), 100u) << "no schedule twice in one search";
    EXPECT_EQ(seeds.size(), 100u) << "fresh inputs for each";
}

TEST_F(SearchTest, IsTheSameForTheSameSeed) {
    Database a(path), b(folder.path() / "b.db");
    FakeMeasurer again;
    SearchOptions o = options(30);
    search(problem, space, Model::analytic(), measurer, a, o);
    search(problem, space, Model::analytic(), again, b, o);
    for (size_t i = 0; i < 30; i++) {
        EXPECT_EQ(measurer.jobs[i].schedule, again.jobs[i].schedule) << i;
        EXPECT_EQ(measurer.jobs[i].seed, again.jobs[i].seed) << i;
    }
}

TEST_F(SearchTest, BadTrialsCostATrialEachAndNoMore) {
    Database db(path);
    const Status kinds[] = {Status::Wrong,    Status::Crashed,     Status::TooLong,
                            Status::NotBuilt, Status::DeviceFault, Status::OutOfMemory,
                            Status::Refused,  Status::Incredible,  Status::BuildTooLong};
    measurer.judge = [&](std::pair<int, int> p) {
        // Every third point is bad, the best one's neighbour among them.
        return (p.first * 7 + p.second) % 3 == 0 ? kinds[static_cast<size_t>(p.first + p.second) % 9]
                                                 : Status::Ok;
    };
    SearchResult r = search(problem, space, Model::analytic(), measurer, db, options(150));
    EXPECT_EQ(measurer.jobs.size(), 150u);
    EXPECT_EQ(GridSpace::point(r.best.at(0).job.schedule), std::pair(11, 6));
    int64_t failed = 0;
    for (const auto &[status, count] : r.progress.failed) {
        failed += count;
    }
    EXPECT_GT(failed, 10);
    EXPECT_EQ(db.entries()[0].ok, 150 - failed);
    for (const StoredTrial &t : r.best) {
        EXPECT_TRUE(t.outcome.ok());
    }
}

TEST_F(SearchTest, ThePlainScheduleMayBeTheOnlyOneThatWorks) {
    Database db(path);
    measurer.judge = [](std::pair<int, int> p) { return p == std::pair(0, 0) ? Status::Ok : Status::Wrong; };
    SearchResult r = search(problem, space, Model::analytic(), measurer, db, options(20));
    ASSERT_EQ(r.best.size(), 1u);
    EXPECT_EQ(r.best[0].job.origin, "plain");
}

TEST_F(SearchTest, K1315NothingWorks) {
    Database db(path);
    measurer.judge = [](std::pair<int, int>) { return Status::Crashed; };
    try {
        search(problem, space, Model::analytic(), measurer, db, options(6));
        FAIL();
    } catch (const Error &e) {
        EXPECT_EQ(
            render(e.diagnostics.at(0), ""),
            "error[K1315]: none of 6 schedules for `small x=1000 y=1000` could be measured on `cpu avx2`\n"
            "   = note: 6 crashed\n"
            "   = help: `kiln check` says what is wrong with the default schedule\n");
    }
}

TEST_F(SearchTest, K1316WhoeverMeasuresIsGone) {
    Database db(path);
    measurer.judge = [](std::pair<int, int> p) { return p == std::pair(0, 0) ? Status::Ok : Status::Lost; };
    try {
        search(problem, space, Model::analytic(), measurer, db, options(50));
        FAIL();
    } catch (const Error &e) {
        EXPECT_EQ(render(e.diagnostics.at(0), ""),
                  "error[K1316]: 5 trials in a row were lost: planted\n"
                  "   = help: what was measured before is kept: `--resume` goes on from there\n");
    }
    EXPECT_LE(measurer.jobs.size(), 8u);
}

TEST_F(SearchTest, StoppedItGoesOnWhereItWas) {
    SearchOptions o = options(60);
    std::set<std::string> first;
    {
        Database db(path);
        SearchObserver observer;
        observer.stop = [&] { return measurer.jobs.size() >= 25; };
        SearchResult r = search(problem, space, Model::analytic(), measurer, db, o, observer);
        EXPECT_EQ(r.ended, "stopped");
        EXPECT_EQ(r.progress.done, 25);
        for (const Job &j : measurer.jobs) {
            first.insert(j.schedule);
        }
    }
    Database db(path);
    FakeMeasurer after;
    o.resume = true;
    SearchResult r = search(problem, space, Model::analytic(), after, db, o);
    EXPECT_EQ(after.jobs.size(), 35u) << "60 in all";
    EXPECT_EQ(r.progress.done, 60);
    EXPECT_GT(r.progress.baseline_ms, 0) << "the plain schedule's time of the first part";
    for (const Job &j : after.jobs) {
        EXPECT_FALSE(first.count(j.schedule)) << "measured twice: " << j.schedule;
    }
    EXPECT_EQ(db.entries()[0].trials, 60);
    // A finished search is not gone on with: another one begins, from what is known.
    FakeMeasurer third;
    SearchResult again = search(problem, space, Model::analytic(), third, db, o);
    EXPECT_EQ(third.jobs.size(), 60u);
    EXPECT_NE(again.run.id, r.run.id);
    EXPECT_EQ(third.jobs.at(0).origin, "plain");
    EXPECT_EQ(third.jobs.at(1).origin, "database");
    EXPECT_EQ(third.jobs.at(1).schedule, r.best[0].job.schedule);
}

TEST_F(SearchTest, KilledAtAnyPointItGoesOn) {
    for (size_t point : {0, 1, 2, 7, 19}) {
        std::filesystem::path file = folder.path() / fmt::format("k{}.db", point);
        pid_t pid = fork();
        if (pid == 0) {
            Database db(file);
            FakeMeasurer mine;
            mine.before = [&](size_t n) {
                if (n == point) {
                    kill(getpid(), SIGKILL);
                }
            };
            search(problem, space, Model::analytic(), mine, db, options(40));
            _exit(0);
        }
        int status = 0;
        waitpid(pid, &status, 0);
        ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        Database db(file);
        EXPECT_EQ(db.entries().at(0).trials, static_cast<int64_t>(point)) << "none is lost";
        FakeMeasurer after;
        SearchOptions o = options(40);
        o.resume = true;
        SearchResult r = search(problem, space, Model::analytic(), after, db, o);
        EXPECT_EQ(after.jobs.size(), 40 - point);
        EXPECT_EQ(db.entries()[0].trials, 40);
        EXPECT_EQ(r.progress.done, 40);
    }
}

TEST_F(SearchTest, AnotherDriverMeasuresTheBestFourAgain) {
    Database db(path);
    SearchResult old = search(problem, space, Model::analytic(), measurer, db, options(40));
    Problem changed = small_problem("2");
    ASSERT_EQ(facts_of(changed).key(), facts_of(problem).key());
    FakeMeasurer after;
    search(changed, space, Model::analytic(), after, db, options(12));
    ASSERT_GE(after.jobs.size(), 5u);
    std::set<std::string> again, best;
    for (size_t i = 0; i < 4; i++) {
        best.insert(old.best.at(i).job.schedule);
    }
    for (const Job &j : after.jobs) {
        if (j.origin == "database" || j.origin == "plain") {
            again.insert(j.schedule);
        }
    }
    for (const std::string &s : best) {
        EXPECT_TRUE(again.count(s)) << s;
    }
    // Another shape is another question: nothing of the old one is there.
    Problem other = small_problem();
    other.extents["x"] = other.extents["y"] = {2000};
    other = make_problem(other);
    FakeMeasurer anew;
    search(other, space, Model::analytic(), anew, db, options(12));
    for (const Job &j : anew.jobs) {
        EXPECT_NE(j.origin, "database");
    }
}

TEST_F(SearchTest, ALuckySampleDoesNotWin) {
    // When (4, 4) is measured first it seems the fastest by far. All that follow race against it, and win.
    class Lucky : public FakeMeasurer {
    public:
        std::optional<Outcome> next(double s) override {
            std::optional<Outcome> o = FakeMeasurer::next(s);
            if (o && GridSpace::point(jobs.back().schedule) == std::pair(4, 4) && seen_++ == 0) {
                o->times.ms = 0.5;
                o->times.ratio = o->times.ratio_low = o->times.incumbent_ms / 0.5;
            }
            return o;
        }
        int seen_ = 0;
    } lucky;
    Database db(path);
    SearchResult r = search(problem, space, Model::analytic(), lucky, db, options(0));
    ASSERT_FALSE(r.best.empty());
    EXPECT_EQ(GridSpace::point(r.best[0].job.schedule), std::pair(11, 6));
    EXPECT_EQ(r.ended, "space exhausted") << "and a space that has no more ends the search";
    EXPECT_GT(r.progress.done, 200);
}

TEST_F(SearchTest, WhatMayBeNoiseIsNotFaster) {
    // All seem twice as fast as the incumbent, with intervals that hold 1: the first one stays the best.
    class Noisy : public FakeMeasurer {
    public:
        std::optional<Outcome> next(double s) override {
            std::optional<Outcome> o = FakeMeasurer::next(s);
            if (o && o->times.ratio > 0) {
                o->times.ratio = 2;
                o->times.ratio_low = 0.7;
            } else if (o) {
                o->times.ms = 10; // the first ones, with nothing to race against
            }
            return o;
        }
    } noisy;
    Database db(path);
    SearchResult r = search(problem, space, Model::analytic(), noisy, db, options(6));
    ASSERT_FALSE(r.best.empty());
    EXPECT_EQ(r.best[0].job.origin, "plain");
    EXPECT_NEAR(r.best[0].score_ms, 10, 1e-9);
}

TEST_F(SearchTest, TheBudgetIsKept) {
    Database db(path);
    SearchOptions o = options(0);
    o.budget_s = 0.3;
    measurer.before = [](size_t) { usleep(20000); };
    SearchResult r = search(problem, space, Model::analytic(), measurer, db, o);
    EXPECT_EQ(r.ended, "budget");
    EXPECT_FALSE(r.best.empty());
    EXPECT_LT(r.progress.done, 60);
}

TEST_F(SearchTest, PredictsWithoutMeasuring) {
    SearchOptions o = options(0);
    Prediction p;
    Candidate best = predict_best(problem, space, Model::analytic(), o, 2, &p);
    EXPECT_EQ(GridSpace::point(best.text()), std::pair(9, 9)) << "the roofline's best";
    EXPECT_GT(p.ms, 0);
}

TEST_F(SearchTest, TheTunedScheduleIsTheBestThatWasMeasured) {
    {
        Database db(path);
        search(problem, space, Model::analytic(), measurer, db, options(60));
    }
    TunedSchedule t = tuned_schedule(problem, "kiln tune small", path);
    EXPECT_TRUE(t.measured);
    EXPECT_TRUE(t.warnings.empty());
    EXPECT_EQ(t.source.find("the best of 60 trials for small x=1000 y=1000, "), 0u) << t.source;
    EXPECT_NE(t.text.find("split(i, io, ii, 12, "), std::string::npos) << "canonical: " << t.text;
    TunedSchedule old = tuned_schedule(small_problem("2"), "kiln tune small", path);
    EXPECT_TRUE(old.measured);
    EXPECT_EQ(old.text, t.text);
    ASSERT_EQ(old.warnings.size(), 1u);
    EXPECT_EQ(
        render(old.warnings[0], ""),
        "warning[K1335]: the tuned schedule of `small x=1000 y=1000` was measured under other conditions\n"
        "   = note: driver: 1 / 2\n"
        "   = help: `kiln tune small` measures the best four again\n");
    Problem other = small_problem();
    other.extents["x"] = other.extents["y"] = {2000};
    TunedSchedule predicted = tuned_schedule(make_problem(other), "kiln tune small", path, 0, 0.2);
    EXPECT_FALSE(predicted.measured);
    EXPECT_GT(predicted.ms, 0);
    ASSERT_EQ(predicted.warnings.size(), 1u);
    std::string text = render(predicted.warnings[0], "");
    EXPECT_EQ(
        text.find(
            "warning[K1336]: no schedule of `small x=2000 y=2000` was measured on this device: the cost "
            "model chose one\n   = note: weights "),
        0u)
        << text;
    EXPECT_NE(text.find("   = help: `kiln tune small` measures, and finds a better one\n"),
              std::string::npos);
}

TEST_F(SearchTest, ALibraryIsRightForAllCallsWhateverTheTails) {
    auto conditions = [&](const std::string &statements) {
        std::string out;
        std::vector<VariantRequest> all =
            variants_of(problem, "schedule a {\n  op small\n  target cpu\n\n  " + statements + "\n}\n");
        for (const VariantCondition &c : all.at(0).conditions) {
            out += fmt::format("{}({}) >= {} ", c.argument, c.dimension, c.value);
        }
        EXPECT_EQ(all.size(), out.empty() ? 1u : 2u);
        return out;
    };
    EXPECT_EQ(conditions("y.split(i, io, ii, 8);"), "") << "guarded";
    EXPECT_EQ(conditions("y.split(i, io, ii, 8, ShiftInwards);"), "y(0) >= 8 ");
    EXPECT_EQ(conditions("y.split(i, io, ii, 8, ShiftInwards).split(io, a, b, 4, ShiftInwards);"),
              "y(0) >= 32 ");
    EXPECT_EQ(conditions("y.split(i, io, ii, 8, ShiftInwards).split(ii, a, b, 4, ShiftInwards);"),
              "y(0) >= 8 ");
    EXPECT_EQ(conditions("y.split(i, io, ii, 8).split(io, a, b, 4, RoundUp);"), "y(0) >= 32 ");
}

TEST_F(SearchTest, HandSchedulesAreMeasuredFirst) {
    Database db(path);
    SearchOptions o = options(8);
    o.hand = {GridSpace::at(15, 15, "hand")};
    search(problem, space, Model::analytic(), measurer, db, o);
    EXPECT_EQ(measurer.jobs.at(0).origin, "plain");
    EXPECT_EQ(measurer.jobs.at(1).origin, "hand");
    EXPECT_EQ(measurer.jobs.at(3).incumbent.empty(), false) << "races against the best so far";
}

} // namespace
} // namespace kiln::search
