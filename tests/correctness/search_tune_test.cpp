// `kiln tune`, `kiln db` and `kiln build --schedule auto` as programs: what they find, keep and lose.
#include "cli_run.h"

#include "apps/kiln/tune/TuneReport.h"
#include "dsl/search/database/Database.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <set>
#include <thread>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace kiln::test;
namespace fs = std::filesystem;

namespace {

using Json = nlohmann::json;
const char *const own = KILN_BINARY_DIR "/lib/kiln_search_generators.so";

class SearchTuneTest : public CliTest {
protected:
    /// A device that is calibrated already: the search is tested, and not three seconds of loops.
    void SetUp() override { calibrate(); }

    std::vector<std::string> tune(std::vector<std::string> more, const std::string &work = "n67") {
        std::vector<std::string> args = {"tune",    "chain_relu",   "--target",  "cpu-avx2",
                                         "--param", "type=float32", "--work",    work,
                                         "--time",  "0.01",         "--threads", "1"};
        args.insert(args.end(), more.begin(), more.end());
        return args;
    }

    int64_t trials_kept() {
        if (!fs::exists(path("cache/tune.db"))) {
            return 0;
        }
        int64_t n = 0;
        for (const kiln::search::Entry &e : kiln::search::Database(path("cache/tune.db")).entries()) {
            n += e.trials;
        }
        return n;
    }

    /// Starts a program, and lets it run until so many trials are kept.
    pid_t start(const std::vector<std::string> &argv, int64_t until) {
        pid_t pid = fork();
        if (pid == 0) {
            setpgid(0, 0);
            [[maybe_unused]] int moved = chdir(folder.path().c_str());
            setenv("KILN_CACHE_DIR", path("cache").c_str(), 1);
            int nothing = open("log", O_WRONLY | O_CREAT | O_TRUNC, 0644);
            dup2(nothing, 1);
            dup2(nothing, 2);
            std::vector<char *> args;
            for (const std::string &a : argv) {
                args.push_back(const_cast<char *>(a.c_str()));
            }
            args.push_back(nullptr);
            execvp(args[0], args.data());
            _exit(127);
        }
        for (int i = 0; i < 6000 && trials_kept() < until && waitpid(pid, nullptr, WNOHANG) == 0; i++) {
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        EXPECT_GE(trials_kept(), until) << read("log");
        return pid;
    }

    void calibrate(const char *target = "cpu") {
        kiln::Device device = kiln::device_for(kiln::Target::parse(target));
        kiln::Ceilings c;
        c.copy_bytes_per_s = 1e12;
        c.flops["float32"] = 1e14;
        c.units = device.units;
        c.date = "2026-12-01";
        const char *before = getenv("KILN_CACHE_DIR");
        std::string kept = before ? before : "";
        setenv("KILN_CACHE_DIR", path("cache").c_str(), 1);
        kiln::store_ceilings(device, c);
        before ? setenv("KILN_CACHE_DIR", kept.c_str(), 1) : unsetenv("KILN_CACHE_DIR");
    }
};

TEST_F(SearchTuneTest, AFamilyFromItsKnobsToALibrary) {
    write("a.sched", good_chain);
    CliRun run = kiln(tune({"--schedule", "a.sched", "--trials", "6", "--json", "-o", "out"}));
    ASSERT_EQ(run.code, 0) << run.out << run.err;
    Json json = run.json();
    EXPECT_EQ(json["ended"], "space exhausted");
    std::set<std::string> lanes;
    for (const Json &t : json["trials"]) {
        EXPECT_EQ(t["status"], "ok") << t["message"];
        std::string text = t["schedule"].get<std::string>() + t["knobs"].dump();
        for (const char *n : {"8", "16"}) {
            if (text.find(std::string("ii, ") + n + ",") != std::string::npos ||
                text.find(std::string("\"lanes\":\"") + n) != std::string::npos) {
                lanes.insert(n);
            }
        }
    }
    EXPECT_EQ(lanes, (std::set<std::string>{"8", "16"})) << "both members";
    EXPECT_GT(json["progress"]["best_ms"], 0);
    EXPECT_GT(json["progress"]["baseline_ms"], 0);
    EXPECT_NE(json["schedule"].get<std::string>().find("op chain_relu"), std::string::npos);
    EXPECT_NE(json["halide"].get<std::string>().find("y"), std::string::npos);
    for (const char *file :
         {"out/chain_relu.a", "out/chain_relu.h", "out/chain_relu.json", "out/chain_relu.sched"}) {
        EXPECT_TRUE(fs::exists(path(file))) << file;
    }
    EXPECT_EQ(kiln({"schedule", "check", "out/chain_relu.sched"}).code, 0);

    // The database, by its commands.
    CliRun list = kiln({"db", "list", "--json"});
    ASSERT_EQ(list.code, 0) << list.err;
    Json entry = list.json()["entries"].at(0);
    EXPECT_EQ(entry["target"], "cpu avx2");
    EXPECT_EQ(entry["trials"], json["trials"].size());
    std::string key = entry["key"].get<std::string>().substr(0, 12);
    Json shown = kiln({"db", "show", key, "--all", "--json"}).json();
    EXPECT_EQ(shown["trials"].size(), json["trials"].size());
    for (const char *fact : {"algorithm", "types", "extents", "strides", "target", "device", "limits"}) {
        EXPECT_TRUE(shown["firm"].contains(fact)) << fact;
    }
    EXPECT_TRUE(shown["loose"].contains("kiln"));
    CliRun text = kiln({"db", "show", "1"});
    EXPECT_NE(text.out.find("kiln db rerun "), std::string::npos) << text.out;
    EXPECT_EQ(kiln({"db", "show", key, "--schedule"}).out, json["schedule"].get<std::string>());
    CliRun again = kiln({"db", "rerun", json["trials"][0]["trial"].dump(), "--json"});
    EXPECT_EQ(again.code, 0) << again.out;
    EXPECT_EQ(again.json()["again"]["status"], "ok");
    EXPECT_EQ(again.json()["again"]["seed"], json["trials"][0]["seed"]) << "with the same inputs";
    ASSERT_EQ(kiln({"db", "export", "-o", "all.json"}).code, 0);
    EXPECT_EQ(kiln({"db", "import", "all.json", "--database", "other.db", "--json"}).json()["added"],
              json["trials"].size());
    EXPECT_EQ(kiln({"db", "import", "all.json", "--database", "other.db", "--json"}).json()["added"], 0);
    EXPECT_GT(kiln({"db", "prune", "--keep", "1", "--database", "other.db", "--json"}).json()["removed"], 0);
    EXPECT_EQ(kiln({"db", "list", "--database", "other.db", "--json"}).json()["entries"][0]["trials"], 1);

    // A build takes what was measured, and says so.
    CliRun build = kiln({"build", "chain_relu", "--target", "cpu-avx2", "--schedule", "auto", "--param",
                         "type=float32", "--work", "n67", "-o", "auto", "--json"});
    // Another number of threads is another question.
    ASSERT_EQ(build.code, 0) << build.out << build.err;
    EXPECT_EQ(build.json()["tuned"][0]["measured"], false);
    EXPECT_EQ(build.json()["diagnostics"][0]["code"], "K1336");
    ASSERT_EQ(kiln({"tune", "chain_relu", "--target", "cpu-avx2", "--param", "type=float32", "--work", "n67",
                    "--time", "0.01", "--schedule", "a.sched", "--trials", "3", "-o", "out"})
                  .code,
              0);
    build = kiln({"build", "chain_relu", "--target", "cpu-avx2", "--schedule", "auto", "--param",
                  "type=float32", "--work", "n67", "-o", "auto", "--quiet"});
    EXPECT_EQ(build.code, 0) << build.err;
    EXPECT_EQ(build.out.find("cpu avx2: the best of "), 0u) << build.out;
    EXPECT_EQ(build.err, "");
}

TEST_F(SearchTuneTest, TheWholeSpaceAndNothingMeasuredTwice) {
    CliRun run = kiln(tune({"--trials", "10", "-o", "out"}));
    ASSERT_EQ(run.code, 0) << run.out << run.err;
    EXPECT_NE(run.out.find("\nbest: "), std::string::npos) << run.out;
    EXPECT_NE(run.out.find("why, by the terms of the roofline"), std::string::npos) << run.out;
    EXPECT_NE(run.out.find("\nas C++:\n"), std::string::npos);
    EXPECT_NE(run.out.find("\nready: out/chain_relu.a\n"), std::string::npos);
    EXPECT_EQ(trials_kept(), 10);
}

TEST_F(SearchTuneTest, KilledItGoesOn) {
    // So large a problem has far more schedules than trials.
    std::vector<std::string> argv = tune({"--trials", "12", "-o", "out", "--quiet"}, "2^20");
    argv.insert(argv.begin(), KILN_BINARY_DIR "/bin/kiln");
    pid_t pid = start(argv, 3);
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    int64_t kept = trials_kept();
    EXPECT_LT(kept, 12);
    CliRun run = kiln(tune({"--trials", "12", "-o", "out", "--resume", "--json"}, "2^20"));
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_EQ(trials_kept(), 12) << run.out;
    EXPECT_EQ(run.json()["ended"], "trials");
    EXPECT_EQ(run.json()["trials"].size(), static_cast<size_t>(12 - kept)) << "only what was missing";
    EXPECT_EQ(run.json()["progress"]["trials"], 12);
}

TEST_F(SearchTuneTest, CtrlCKeepsAll) {
    std::vector<std::string> argv = tune({"--budget", "100", "-o", "out", "--quiet"});
    argv.insert(argv.begin(), KILN_BINARY_DIR "/bin/kiln");
    pid_t pid = start(argv, 2);
    kill(pid, SIGINT);
    int status = 0;
    waitpid(pid, &status, 0);
    EXPECT_EQ(WEXITSTATUS(status), 130);
    EXPECT_GE(trials_kept(), 2);
    EXPECT_FALSE(fs::exists(path("out/chain_relu.a"))) << "nothing half done";
}

TEST_F(SearchTuneTest, K36InPlaceAndScatteredWork) {
    // A kernel may not change its input, and each trial has its own: all that compile are right.
    for (const char *generator : {"search_increment", "search_histogram"}) {
        CliRun run = kiln({"--load", own, "tune", generator, "--target", "cpu-avx2", "--trials", "12",
                           "--time", "0.01", "--threads", "2", "-o", "out", "--json"});
        ASSERT_EQ(run.code, 0) << generator << run.out << run.err;
        for (const Json &t : run.json()["trials"]) {
            EXPECT_TRUE(t["status"] == "ok" || t["status"] == "refused") << generator << t.dump(1);
        }
        EXPECT_EQ(run.json()["progress"]["trials"], 12);
    }
}

TEST_F(SearchTuneTest, K34AlwaysALibraryInTheBudget) {
    // One element, places that only a division tells, a chain of forty stages, and no time at all.
    using Words = std::vector<std::string>;
    const Words few = {"--trials", "2"}, nothing = {"--budget", "0.01"};
    const std::vector<std::tuple<std::string, std::string, std::vector<Words>>> works = {
        {"search_gather", "one", {few, nothing}}, {"search_deep", "n500", {nothing}}};
    for (const auto &[generator, work, limits] : works) {
        for (const Words &limit : limits) {
            std::vector<std::string> args = {"--load",    own,      "tune", generator, "--target",
                                             "cpu-avx2",  "--work", work,   "--time",  "0.01",
                                             "--threads", "1",      "-o",   "out",     "--json"};
            args.insert(args.end(), limit.begin(), limit.end());
            CliRun run = kiln(args);
            ASSERT_EQ(run.code, 0) << generator << " " << work << run.out << run.err;
            Json json = run.json();
            EXPECT_TRUE(fs::exists(path(json["archive"].get<std::string>())));
            EXPECT_EQ(
                kiln({"--load", own, "schedule", "check", json["schedule_file"].get<std::string>()}).code, 0);
            bool said = json["diagnostics"].dump().find("K1318") != std::string::npos;
            EXPECT_EQ(said, json["best"].empty()) << "a schedule that was not measured is named as such";
            fs::remove_all(path("out"));
        }
    }
}

TEST_F(SearchTuneTest, K43AChangedConstantIsAnotherQuestion) {
    auto tuned = [&](const std::string &step) {
        CliRun run = kiln({"--load", own, "tune", "search_increment", "--target", "cpu-avx2", "--trials", "3",
                           "--time", "0.01", "--param", "step=" + step, "-o", "out", "--json"});
        EXPECT_EQ(run.code, 0) << run.err;
        return run.json()["database_entry"].get<std::string>();
    };
    std::string one = tuned("1.0000001"), other = tuned("1.0000002");
    EXPECT_NE(one, other);
    EXPECT_EQ(tuned("1.0000001"), one);
    Json entries = kiln({"db", "list", "--json"}).json()["entries"];
    EXPECT_EQ(entries.size(), 2u);
}

TEST_F(SearchTuneTest, RanksOfMpi) {
    std::string mpirun = KILN_MPIRUN;
    if (mpirun.empty()) {
        GTEST_SKIP() << "no Open MPI here";
    }
    std::vector<std::string> argv = {mpirun, "--allow-run-as-root",      "--oversubscribe", "-n",
                                     "3",    KILN_BINARY_DIR "/bin/kiln"};
    for (const std::string &a : tune({"--trials", "12", "-o", "out", "--quiet"}, "2^20")) {
        argv.push_back(a);
    }
    // A rank that is killed ends the job, and nothing is lost.
    pid_t pid = start(argv, 3);
    std::vector<pid_t> ranks;
    for (const auto &entry : fs::directory_iterator("/proc")) {
        std::string name = entry.path().filename().string();
        if (name.find_first_not_of("0123456789") != std::string::npos) {
            continue;
        }
        std::ifstream in(entry.path() / "environ");
        std::string environment{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
        std::error_code error;
        bool is_kiln = fs::read_symlink(entry.path() / "exe", error).filename() == "kiln";
        if (is_kiln && environment.find("KILN_CACHE_DIR=" + path("cache")) != std::string::npos &&
            environment.find("OMPI_COMM_WORLD_RANK=1") != std::string::npos) {
            ranks.push_back(std::stoi(name));
        }
    }
    ASSERT_EQ(ranks.size(), 1u);
    kill(ranks[0], SIGKILL);
    int status = 0;
    waitpid(pid, &status, 0);
    EXPECT_NE(status, 0) << "the job ended";
    int64_t kept = trials_kept();
    EXPECT_GE(kept, 3);
    EXPECT_LT(kept, 12);
    argv.push_back("--resume");
    argv.push_back("--json");
    kiln::ProcessRequest request;
    request.argv = argv;
    request.cwd = folder.path();
    request.environment = {{"KILN_CACHE_DIR", path("cache")}};
    request.limits.timeout_s = 120;
    kiln::ProcessResult result = kiln::run_process(request);
    EXPECT_TRUE(result.ok()) << result.out << result.err;
    EXPECT_TRUE(fs::exists(path("out/chain_relu.a")));
    Json json = Json::parse(result.out, nullptr, false);
    ASSERT_FALSE(json.is_discarded()) << "rank 0 alone speaks: " << result.out;
    EXPECT_EQ(trials_kept(), 12);
    EXPECT_EQ(json["ended"], "trials");
}

TEST_F(SearchTuneTest, RanksOfMpiOnPocl) {
    std::string mpirun = KILN_MPIRUN;
    if (mpirun.empty()) {
        GTEST_SKIP() << "no Open MPI here";
    }
    try {
        calibrate("opencl");
    } catch (const kiln::Error &e) {
        GTEST_SKIP() << "no OpenCL device: " << e.what();
    }
    kiln::ProcessRequest request;
    request.argv = {mpirun,
                    "--allow-run-as-root",
                    "--oversubscribe",
                    "-n",
                    "3",
                    KILN_BINARY_DIR "/bin/kiln",
                    "tune",
                    "chain_relu",
                    "--target",
                    "opencl",
                    "--param",
                    "type=float32",
                    "--work",
                    "n67",
                    "--time",
                    "0.01",
                    "--trials",
                    "4",
                    "-o",
                    "out",
                    "--json"};
    request.cwd = folder.path();
    request.environment = {{"KILN_CACHE_DIR", path("cache")}};
    request.limits.timeout_s = 120;
    kiln::ProcessResult result = kiln::run_process(request);
    ASSERT_TRUE(result.ok()) << result.out << result.err;
    Json json = Json::parse(result.out, nullptr, false);
    ASSERT_FALSE(json.is_discarded()) << result.out;
    EXPECT_EQ(json["progress"]["trials"], 4);
    EXPECT_GT(json["progress"]["best_ms"], 0) << json["trials"].dump(1);
    EXPECT_TRUE(fs::exists(path("out/chain_relu.a")));
}

class SearchTuneErrors : public SearchTuneTest {
protected:
    void expect(const std::vector<std::string> &args, int code, const std::string &text,
                std::map<std::string, std::string> environment = {}) {
        CliRun run = kiln(args, std::move(environment));
        EXPECT_EQ(run.code, code) << run.err;
        EXPECT_EQ(run.err, text);
    }
};

TEST_F(SearchTuneErrors, Shapes) {
    expect({"tune", "chain_relu", "--target", "cpu", "--shape", "x=10", "--shape", "z=10"}, 1,
           "error[K1330]: `--shape z=10` gives no sizes of a buffer of `chain_relu`\n"
           "   = note: its buffers: x (1 dimensions), y (1 dimensions)\n"
           "   = help: write one for each buffer, the innermost extent first: `--shape x=512x256`\n");
    for (const char *shape : {"x=10x10", "x=", "x=0", "x=10x", "x", "x=ten"}) {
        CliRun run = kiln({"tune", "chain_relu", "--target", "cpu", "--shape", shape});
        EXPECT_EQ(run.err.substr(0, 14), "error[K1330]: ") << shape;
    }
    expect({"tune", "chain_relu", "--target", "cpu", "--shape", "x=10"}, 1,
           "error[K1330]: no sizes of `y`\n"
           "   = note: its buffers: x (1 dimensions), y (1 dimensions)\n"
           "   = help: write one for each buffer, the innermost extent first: `--shape x=512x256`\n");
}

TEST_F(SearchTuneErrors, ABudgetOfNothing) {
    for (const std::string budget : {"0", "-3"}) {
        expect({"tune", "chain_relu", "--target", "cpu", "--budget", budget}, 2,
               "error[K0923]: option `--budget` does not take `" + budget +
                   "`\n"
                   "   = note: it takes SECONDS:POSITIVE\n");
    }
}

TEST_F(SearchTuneErrors, DevicesAndFamilies) {
    CliRun run = kiln({"tune", "chain_relu", "--target", "cpu", "--device", "7"});
    EXPECT_EQ(run.code, 1);
    EXPECT_EQ(run.err.find("error[K1331]: no device 7 for `cpu`\n   = note: there are cpu:0 "), 0u)
        << run.err;
    write("plain.sched", "schedule plain { op chain_relu\n target cpu\n y.parallel(i, 8); }");
    expect({"tune", "chain_relu", "--target", "cpu", "--schedule", "plain.sched"}, 1,
           "error[K1332]: `plain.sched` has no schedule with knobs for `chain_relu` on `cpu`\n"
           "   = note: without knobs: `plain`\n"
           "   = help: write `knob name in {8, 16}`, or start from it: `--start FILE`\n");
    expect({"tune", "chain_relu"}, 2,
           "error[K0922]: `kiln tune` needs `--target TARGET`\n"
           "   = help: --target: Where it runs: cpu-avx2, host (this CPU), opencl, cuda (whatever the device "
           "is)\n");
    run = kiln({"--load", own, "tune", "search_aborts", "--target", "cpu"});
    EXPECT_EQ(run.code, 3) << run.err;
    EXPECT_EQ(run.err.substr(0, 13), "error[K0940]:") << "a generator that dies takes nothing with it";
}

TEST_F(SearchTuneErrors, K1317WhatIsNotDelivered) {
    kiln::search::StoredTrial trial;
    trial.id = 12;
    kiln::Diagnostic cause;
    cause.code = "K0806";
    cause.message = "`y` at (3) is 1, it should be exactly 2";
    EXPECT_EQ(kiln::render(kiln::cli::not_delivered(trial, {cause}), ""),
              "warning[K1317]: the schedule of trial 12 does not pass a full check and is not used\n"
              "   = note: K0806 `y` at (3) is 1, it should be exactly 2\n"
              "   = help: please report it: it was right at the sizes that it was tuned for\n");
}

TEST_F(SearchTuneErrors, K1318NothingMeasured) {
    kiln::search::SearchResult result;
    result.progress.done = 3;
    result.progress.spent_s = 1.25;
    EXPECT_EQ(
        kiln::render(kiln::cli::plain_delivered("chain_relu x=10 y=10", result), ""),
        "warning[K1318]: the library for `chain_relu x=10 y=10` has the default schedule, which was not "
        "measured\n"
        "   = note: 3 trials in 1.2 s, none of them right\n"
        "   = help: more time may find a better one: `--budget SECONDS --resume`\n");
    result.best.resize(1);
    EXPECT_NE(kiln::render(kiln::cli::plain_delivered("x", result), "").find("passes a full check"),
              std::string::npos);
}

TEST_F(SearchTuneErrors, PartsThatAreMissing) {
    CliRun run = kiln(tune({"--trials", "2"}), {{"KILN_MEASURE_TOOL", "/none"}});
    EXPECT_EQ(run.code, 1);
    EXPECT_EQ(
        run.err,
        "error[K1320]: cannot start `/none`: it is not there\n"
        "   = help: it lies beside `kiln-build`: install Kiln whole, or let KILN_MEASURE_TOOL name it\n");
    run = kiln(tune({"--trials", "2"}), {{"KILN_MEASURE_TOOL", "/bin/true"}});
    EXPECT_EQ(run.err.find("error[K1320]: cannot start `/bin/true`: it ended before it was ready\n"), 0u)
        << run.err;
    run = kiln(tune({"--trials", "2"}), {{"OMPI_COMM_WORLD_SIZE", "2"}, {"KILN_MPI_LIBRARY", "/none.so"}});
    EXPECT_EQ(run.code, 1);
    EXPECT_EQ(
        run.err,
        "error[K1321]: `mpirun` started several ranks, and this Kiln cannot join them\n"
        "   = note: /none.so: cannot open shared object file: No such file or directory\n"
        "   = help: install Open MPI (Debian: libopenmpi-dev, openmpi-bin) and build Kiln again, or start it "
        "without mpirun\n");
}

TEST_F(SearchTuneErrors, Databases) {
    std::string nowhere = path("cache/tune.db");
    expect({"db", "list"}, 1,
           "error[K1314]: there is no database `" + nowhere +
               "` yet\n"
               "   = help: `kiln tune GENERATOR --target T` makes it\n");
    write("text.db", std::string(3000, 'x'));
    expect({"db", "list", "--database", "text.db"}, 1,
           "error[K1311]: `text.db` is no database of Kiln's\n"
           "   = help: name another file by `--database` or KILN_DATABASE\n");
    write("no.json", "[1]");
    CliRun run = kiln({"db", "import", "no.json"});
    EXPECT_EQ(run.err,
              "error[K1313]: the document is no export of a tuning database\n"
              "  --> no.json\n"
              "   = note: it does not hold one JSON object: another file, or one that was cut short\n"
              "   = help: `kiln db export` writes one\n");
}

} // namespace
