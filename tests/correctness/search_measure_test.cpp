// Trials: each kind of bad kernel ends as one trial with its status, whatever it does to its process; cheats are found.
#include "dsl/check/CheckKernel.h"
#include "dsl/generator/Load.h"
#include "dsl/search/measure/BuildTrial.h"
#include "dsl/search/measure/Freeze.h"
#include "dsl/search/measure/Race.h"
#include "dsl/search/measure/RunTrial.h"
#include "dsl/search/measure/Scan.h"
#include "dsl/search/measure/Worker.h"
#include "dsl/support/Files.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <csignal>
#include <fstream>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

namespace kiln::search {
namespace {

MeasureSetup chain_setup() {
    load_generators({});
    MeasureSetup setup;
    setup.generator = "chain_relu";
    setup.params = {{"type", "float32"}};
    setup.target = Target::parse("cpu avx2");
    setup.workload = find_workload("chain_relu", "n67");
    setup.threads = 1;
    setup.limits.time_s = 0.01;
    setup.limits.call_s = 5;
    setup.limits.reference_s = 0.05;
    return setup;
}

std::string bad(const std::string &fault) {
    return std::string(KILN_BINARY_DIR) + "/lib/check_bad_" + fault + ".so";
}

class SearchTrial : public testing::Test {
protected:
    static TrialRunner &runner() {
        static TrialRunner one(chain_setup(), 0);
        return one;
    }
    Outcome run(const std::string &fault, const std::string &incumbent = "") {
        return runner().run(
            {++number_, bad(fault), incumbent.empty() ? "" : bad(incumbent), 1000u + number_});
    }
    static int number_;
};
int SearchTrial::number_ = 0;

TEST_F(SearchTrial, RightOnesAreTimed) {
    Outcome alone = run("good");
    EXPECT_EQ(alone.status, Status::Ok) << alone.message;
    EXPECT_GT(alone.times.ms, 0);
    EXPECT_LE(alone.times.low, alone.times.ms);
    EXPECT_GE(alone.times.high, alone.times.ms);
    EXPECT_EQ(alone.times.ratio, 0);
    EXPECT_GE(alone.checked, 4 * 67) << "points and whole outputs, before and after";
    EXPECT_GT(alone.bound, 0);
    Outcome raced = run("good", "good");
    EXPECT_EQ(raced.status, Status::Ok) << raced.message;
    EXPECT_GT(raced.times.ratio, 0);
    EXPECT_GT(raced.times.incumbent_ms, 0);
}

TEST_F(SearchTrial, EachFaultCostsOneTrialAndTheNextIsMeasured) {
    const std::map<std::string, Status> expected = {
        {"zeros", Status::Wrong},   {"constant", Status::Wrong},     {"identity", Status::Wrong},
        {"half", Status::Wrong},    {"slightly", Status::Wrong},     {"behind", Status::Wrong},
        {"before", Status::Wrong},  {"input", Status::Wrong},        {"crash", Status::Crashed},
        {"abort", Status::Crashed}, {"status", Status::DeviceFault}, {"unsupported", Status::DeviceFault},
        {"lazy", Status::Wrong},    {"memory", Status::Wrong},       {"late", Status::Wrong}};
    for (const auto &[fault, status] : expected) {
        for (const char *incumbent : {"", "good"}) {
            Outcome bad = run(fault, incumbent);
            EXPECT_STREQ(status_name(bad.status), status_name(status)) << fault << ": " << bad.message;
            EXPECT_NE(bad.message, "") << fault;
            Outcome next = run("good", "good");
            EXPECT_TRUE(next.ok()) << "after " << fault << ": " << next.message;
        }
    }
}

TEST_F(SearchTrial, WhatIsWrongIsNamed) {
    Outcome o = run("half");
    EXPECT_EQ(o.message.find("`y` at ("), 0u) << o.message;
    EXPECT_NE(o.message.find(") was never written, it should be exactly "), std::string::npos) << o.message;
    o = run("input");
    EXPECT_EQ(o.message, "the kernel changed its input `x` at element 33");
    o = run("lazy");
    EXPECT_EQ(o.message.find("right at first, wrong in a timed call: `y` at ("), 0u) << o.message;
    o = run("memory");
    EXPECT_EQ(o.diagnostics.at(0).code, "K0806");
    EXPECT_NE(o.diagnostics[0].notes.at(0).find("with random inputs"), std::string::npos)
        << "it was right for the first inputs";
    o = run("status");
    EXPECT_EQ(o.message, "a call returned 4: the driver reported an error");
}

TEST(SearchTrialLimits, AHangIsStopped) {
    MeasureSetup setup = chain_setup();
    setup.limits.call_s = 0.2;
    TrialRunner runner(setup, 0);
    Outcome o = runner.run({1, bad("hang"), "", 7});
    EXPECT_EQ(o.status, Status::TooLong);
    EXPECT_EQ(o.message, "the kernel did not end in 0.2 s");
    EXPECT_TRUE(runner.run({2, bad("good"), "", 8}).ok());
}

TEST(SearchTrialLimits, TooFastIsNotBelieved) {
    MeasureSetup setup = chain_setup();
    setup.floor_ms = 1000;
    TrialRunner runner(setup, 0);
    Outcome o = runner.run({1, bad("good"), "", 7});
    EXPECT_EQ(o.status, Status::Incredible);
    EXPECT_NE(o.message.find("less than the 1000 ms that the device's measured ceilings allow"),
              std::string::npos);
}

TEST(SearchTrialInputs, AreThoseOfTheSeedWhateverRanBefore) {
    MeasureSetup setup = chain_setup();
    setup.limits.reference_s = 100; // never dear
    Draw draw(setup);
    draw.fill(5);
    std::vector<uint8_t> before(draw.ours().buffer(0)->host, draw.ours().buffer(0)->host + 67 * 4);
    std::fill_n(draw.ours().buffer(0)->host, 67 * 4, 0xff);
    draw.fill(6);
    draw.fill(5);
    EXPECT_EQ(before,
              std::vector<uint8_t>(draw.ours().buffer(0)->host, draw.ours().buffer(0)->host + 67 * 4));
    draw.fill(6);
    EXPECT_NE(before,
              std::vector<uint8_t>(draw.ours().buffer(0)->host, draw.ours().buffer(0)->host + 67 * 4));
}

TEST(SearchTrialInputs, ADearDrawServesSeveralTrialsUnharmed) {
    MeasureSetup setup = chain_setup();
    setup.limits.reference_s = 1e-9;
    Draw draw(setup);
    ASSERT_EQ(draw.fill(5), 5u);
    auto bytes = [&](kiln::Problem &p, int i) {
        return std::vector<uint8_t>(p.buffer(i)->host, p.buffer(i)->host + 67 * 4);
    };
    int output = draw.first().count() - 1;
    std::vector<uint8_t> first = bytes(draw.first(), output), theirs = bytes(draw.theirs(), 0);
    std::fill_n(draw.first().buffer(output)->host, 67 * 4, 0);
    std::fill_n(draw.theirs().buffer(0)->host, 67 * 4, 0);
    EXPECT_EQ(draw.fill(6), 5u) << "the inputs of the first one";
    EXPECT_EQ(bytes(draw.first(), output), first) << "poisoned again";
    EXPECT_EQ(bytes(draw.theirs(), 0), theirs) << "whatever was done to them";
    for (uint64_t seed = 7; seed < 21; seed++) {
        EXPECT_EQ(draw.fill(seed), 5u);
    }
    EXPECT_EQ(draw.fill(21), 21u) << "and in the end there are others";
}

TEST(SearchBuild, FaultsOfSchedulesAreStatuses) {
    MeasureSetup setup = chain_setup();
    TemporaryFolder folder;
    BuiltTrial good =
        build_trial(setup, "schedule a { op chain_relu target cpu\n y.parallel(i, 64); }", {}, folder.path());
    ASSERT_FALSE(good.object.empty()) << good.outcome.message;
    BuiltTrial again =
        build_trial(setup, "schedule a { op chain_relu target cpu\n y.parallel(i, 64); }", {}, folder.path());
    EXPECT_EQ(again.object, good.object);
    BuiltTrial refused =
        build_trial(setup, "schedule a { op chain_relu target cpu\n y.parallel(j); }", {}, folder.path());
    EXPECT_TRUE(refused.object.empty());
    EXPECT_EQ(refused.outcome.status, Status::Refused);
    EXPECT_EQ(refused.outcome.message.substr(0, 5), "K0107");
    setup.limits.build_s = 0.001;
    BuiltTrial slow =
        build_trial(setup, "schedule a { op chain_relu target cpu\n y.vectorize(i, 8); }", {}, folder.path());
    EXPECT_STREQ(status_name(slow.outcome.status), "build too long");
    setup.limits.build_s = 30;
    setup.limits.build_bytes = size_t(64) << 20;
    BuiltTrial large =
        build_trial(setup, "schedule a { op chain_relu target cpu\n y.vectorize(i, 8); }", {}, folder.path());
    EXPECT_TRUE(large.object.empty());
    EXPECT_NE(large.outcome.status, Status::Refused) << large.outcome.message;
}

TEST(SearchBuild, K37RegistersAndSpillsOfTileKernelsAreSeen) {
    load_generators({});
    MeasureSetup setup;
    setup.generator = "gemm";
    setup.params = {{"type", "bfloat16"}};
    setup.target = Target::parse("cuda sm_90a");
    std::ifstream in(KILN_SOURCE_DIR "/schedules/gemm/cuda_sm_90a.sched");
    std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    TemporaryFolder folder;
    BuiltTrial built = build_trial(setup, text, {{"bm", "128"}, {"bn", "128"}}, folder.path());
    ASSERT_FALSE(built.object.empty()) << built.outcome.message;
    EXPECT_GT(built.outcome.registers, 0);
    EXPECT_EQ(built.outcome.spill_bytes, 0);
    EXPECT_GT(built.outcome.shared_bytes, 64 << 10);
}

TEST(SearchMeasurer, BuildsAndTimesAndGoesOnAfterFaults) {
    MeasureSetup setup = chain_setup();
    std::unique_ptr<Measurer> measurer = local_measurer(setup, 2);
    const char *bodies[] = {"y.vectorize(i, 8);", "y.parallel(j);", "y.unroll(i, 4);"};
    for (int n = 0; n < 3; n++) {
        Job job;
        job.number = n + 1;
        job.schedule = std::string("schedule a { op chain_relu target cpu\n ") + bodies[n] + " }";
        job.seed = 77;
        if (n == 2) {
            job.incumbent = std::string("schedule a { op chain_relu target cpu\n ") + bodies[0] + " }";
        }
        measurer->submit(job);
    }
    EXPECT_EQ(measurer->pending(), 3u);
    std::map<int64_t, Outcome> outcomes;
    while (measurer->pending() > 0) {
        if (std::optional<Outcome> o = measurer->next(60)) {
            outcomes[o->number] = *o;
        }
    }
    ASSERT_EQ(outcomes.size(), 3u);
    EXPECT_TRUE(outcomes[1].ok()) << outcomes[1].message;
    EXPECT_EQ(outcomes[2].status, Status::Refused);
    EXPECT_TRUE(outcomes[3].ok()) << outcomes[3].message;
    EXPECT_GT(outcomes[3].times.ratio, 0);
    EXPECT_FALSE(measurer->next(0.01)) << "nothing is under way";
    measurer->cancel();
}

TEST(SearchWorker, ADeadOneIsStartedAgain) {
    MeasureSetup setup = chain_setup();
    Worker worker(setup);
    ASSERT_TRUE(worker.run({1, bad("good"), "", 3}).ok());
    worker.interrupt();
    Outcome lost = worker.run({2, bad("good"), "", 3});
    EXPECT_EQ(lost.status, Status::Lost);
    EXPECT_EQ(lost.message, "the process that measures ended in the middle of the trial");
    EXPECT_TRUE(worker.run({3, bad("good"), "", 3}).ok());
}

TEST(SearchWorker, SaysWhatIsWrongWithTheSetup) {
    MeasureSetup setup = chain_setup();
    setup.workload.extents.erase("x");
    Worker worker(setup);
    try {
        worker.start();
        FAIL();
    } catch (const Error &e) {
        EXPECT_EQ(e.diagnostics.at(0).code, "K0805");
    }
}

char state_of(pid_t pid) {
    std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
    std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    return text.at(text.rfind(')') + 2);
}

TEST(SearchFreeze, StopsBuildsAndLetsThemGo) {
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    auto sleeper = [&] {
        pid_t pid = fork();
        if (pid == 0) {
            [[maybe_unused]] ssize_t n = write(ready[1], "x", 1);
            for (;;) {
                pause();
            }
        }
        char byte;
        EXPECT_EQ(read(ready[0], &byte, 1), 1);
        return pid;
    };
    pid_t build = sleeper(), timing = sleeper();
    auto becomes = [](pid_t pid, bool stopped) {
        for (int i = 0; i < 2000; i++) {
            if ((state_of(pid) == 'T') == stopped) {
                return true;
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        return false;
    };
    {
        Freeze freeze(getpid(), timing);
        EXPECT_TRUE(becomes(build, true));
        EXPECT_TRUE(becomes(timing, false));
    }
    EXPECT_TRUE(becomes(build, false));
    kill(build, SIGSTOP);
    EXPECT_TRUE(becomes(build, true));
    thaw_all(getpid());
    EXPECT_TRUE(becomes(build, false));
    for (pid_t pid : {build, timing}) {
        kill(pid, SIGKILL);
        waitpid(pid, nullptr, 0);
    }
}

/// Work that takes `seconds` of a clock that stands still otherwise.
struct FakeTime {
    double now = 0;
    Work work(double seconds, int *calls = nullptr) {
        Work w;
        w.queue = [this, seconds, calls] {
            now += seconds;
            if (calls) {
                ++*calls;
            }
        };
        return w;
    }
};

TEST(SearchRace, GivesUpOnSlowOnesAndLooksLongAtGoodOnes) {
    FakeTime time;
    RaceOptions options;
    options.seconds = 0.1;
    int slow_calls = 0, surprises = 0;
    options.surprise = [&] { surprises++; };
    Race slow = race(time.work(0.1, &slow_calls), time.work(0.001), options, [&] { return time.now; });
    EXPECT_TRUE(slow.times.stopped);
    EXPECT_LE(slow_calls, 4);
    EXPECT_NEAR(slow.times.ms, 100, 1e-6);
    EXPECT_NEAR(slow.times.ratio, 0.01, 1e-9);
    EXPECT_EQ(surprises, 1) << "also what is given up on must be seen to be right";
    Race near = race(time.work(0.00111), time.work(0.001), options, [&] { return time.now; });
    EXPECT_TRUE(near.times.stopped);
    EXPECT_EQ(near.times.samples, options.min_rounds);
    double start = time.now;
    Race good = race(time.work(0.00095), time.work(0.001), options, [&] { return time.now; });
    EXPECT_FALSE(good.times.stopped);
    EXPECT_GT(time.now - start, 0.09);
    EXPECT_NEAR(good.times.ratio, 1 / 0.95, 1e-9);
    EXPECT_NEAR(good.times.incumbent_ms, 1, 1e-9);
    Race alone = race(time.work(3), Work{}, options, [&] { return time.now; });
    EXPECT_LE(alone.times.samples, 3) << "seconds a call";
    EXPECT_EQ(alone.times.ratio, 0);
}

TEST(SearchRace, ASlowIncumbentCostsAFewCalls) {
    FakeTime time;
    int slow_calls = 0;
    Race r = race(time.work(0.09), time.work(0.9, &slow_calls), {}, [&] { return time.now; });
    EXPECT_LE(slow_calls, 3);
    EXPECT_NEAR(r.times.ratio, 10, 1e-9);
    EXPECT_NEAR(r.times.ratio_low, 10, 1e-9) << "sure enough to take its place";
}

TEST(SearchRace, SeesTheClockDrift) {
    FakeTime time;
    double each = 0.001;
    Work drifting;
    drifting.queue = [&] { time.now += each *= 1.02; };
    RaceOptions options;
    Race r = race(drifting, time.work(0.001), options, [&] { return time.now; });
    // Getting slower against a steady incumbent: either seen as such or given up on.
    EXPECT_TRUE(r.times.stopped || std::count(r.flags.begin(), r.flags.end(), "clock drift"));
}

TEST(SearchScan, FindsWhatDiffersAndWhatWasNeverWritten) {
    Halide::Runtime::Buffer<float> a(100, 30), b(100, 30);
    a.fill(1.0f);
    b.fill(1.0f);
    ScanRequest request;
    request.ours = a.raw_buffer();
    request.theirs = b.raw_buffer();
    request.distance = 0.01;
    EXPECT_EQ(scan_outputs(request).suspicious, 0);
    a(7, 3) = 1.005f;
    EXPECT_EQ(scan_outputs(request).suspicious, 0);
    a(8, 3) = 1.02f;
    a(99, 29) = NAN;
    b(0, 0) = NAN;
    uint32_t poison = 0x7fe5a5a5;
    std::memcpy(&a(50, 20), &poison, 4);
    ScanResult found = scan_outputs(request);
    EXPECT_EQ(found.scanned, 3000);
    EXPECT_EQ(found.suspects, (std::vector<std::vector<int>>{{0, 0}, {8, 3}, {50, 20}, {99, 29}}));
    request.theirs = nullptr;
    EXPECT_EQ(scan_outputs(request).suspects, (std::vector<std::vector<int>>{{50, 20}}));
    // More than it looks at: rows of all parts, and the furthest are kept.
    request.theirs = b.raw_buffer();
    request.most = 1500;
    EXPECT_EQ(scan_outputs(request).scanned, 1500);
    for (auto type : {halide_type_t(halide_type_bfloat, 16), halide_type_t(halide_type_float, 16),
                      halide_type_t(halide_type_int, 8), halide_type_t(halide_type_uint, 32),
                      halide_type_t(halide_type_float, 64)}) {
        Halide::Runtime::Buffer<> x(type, 10), y(type, 10);
        std::memset(x.data(), 0, x.size_in_bytes());
        std::memset(y.data(), 0, y.size_in_bytes());
        x.raw_buffer()->host[type.bytes() * 4 + type.bytes() - 1] = 0x40;
        ScanRequest r;
        r.ours = x.raw_buffer();
        r.theirs = y.raw_buffer();
        EXPECT_EQ(scan_outputs(r).suspects, (std::vector<std::vector<int>>{{4}}));
    }
}

TEST(SearchTrialJson, ComesBackAsItWas) {
    Outcome o;
    o.number = 3;
    o.status = Status::TooLong;
    o.message = "x";
    o.diagnostics = {Diagnostic{"K0806", Severity::Error, "m", "", {}, "", {}, {}}};
    o.times.ms = 1.5;
    o.cool.samples = 4;
    o.flags = {"noisy"};
    o.spill_bytes = 8;
    EXPECT_EQ(to_json(outcome_from_json(to_json(o))), to_json(o));
    Job j;
    j.number = 2;
    j.schedule = "s";
    j.knobs = {{"a", "1"}};
    EXPECT_EQ(to_json(job_from_json(to_json(j))), to_json(j));
    MeasureSetup s = chain_setup();
    EXPECT_EQ(to_json(measure_setup_from_json(to_json(s))), to_json(s));
    for (int i = 0; i <= static_cast<int>(Status::Lost); i++) {
        EXPECT_EQ(status_from_name(status_name(static_cast<Status>(i))), static_cast<Status>(i));
    }
}

} // namespace
} // namespace kiln::search
