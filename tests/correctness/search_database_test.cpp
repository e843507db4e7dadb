// The database: nothing is lost by a kill, the key holds every fact, and what is exported comes back.
#include "dsl/search/database/Database.h"
#include "dsl/search/database/Sqlite.h"
#include "dsl/support/Files.h"

#include <Halide.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <csignal>
#include <fstream>
#include <functional>

#include <sys/wait.h>
#include <unistd.h>

namespace kiln::search {
namespace {

using namespace Halide;

Facts facts(const std::string &name) {
    Facts f;
    f.firm = {{"algorithm", name}, {"device", "a"}, {"target", "cpu"}};
    f.loose = {{"driver", "1"}};
    return f;
}

StoredTrial trial(const Entry &entry, int64_t number, double ms, const std::string &schedule,
                  Status status = Status::Ok) {
    StoredTrial t;
    t.entry = entry.id;
    t.job.number = number;
    t.job.schedule = schedule;
    t.job.origin = "test";
    t.outcome.number = number;
    t.outcome.status = status;
    t.outcome.times.ms = ms;
    t.score_ms = status == Status::Ok ? ms : 0;
    t.loose_key = entry.facts.loose_key();
    t.date = "2026-12-01T00:00:00Z";
    t.at_s = static_cast<double>(number);
    return t;
}

std::string fault_of(const std::function<void()> &work) {
    try {
        work();
    } catch (const Error &e) {
        return render(e.diagnostics.at(0), "");
    }
    return "no fault";
}

TEST(SearchDatabase, KeepsTrialsAndGivesTheBest) {
    TemporaryFolder folder;
    std::filesystem::path path = folder.path() / "a" / "tune.db";
    int64_t run_id = 0;
    {
        Database db(path);
        EXPECT_TRUE(db.entries().empty());
        Entry e = db.entry_for(facts("gemm"), "gemm 64");
        EXPECT_EQ(db.entry_for(facts("gemm"), "gemm 64").id, e.id);
        EXPECT_NE(db.entry_for(facts("softmax"), "softmax").id, e.id);
        search::Run run;
        run.entry = e.id;
        run.space = "pipeline";
        run.budget_s = 5;
        run.seed = uint64_t(1) << 40;
        run_id = db.begin_run(run).id;
        for (const auto &[number, ms] : {std::pair(1, 3.0), {2, 1.0}, {3, 2.0}}) {
            StoredTrial t = trial(e, number, ms, "s" + std::to_string(number));
            t.run = run_id;
            t.cool_score_ms = 10 - ms;
            db.add(t);
        }
        db.add(trial(e, 4, 0.1, "s4", Status::Wrong));
    }
    Database db(path);
    Entry e = db.entry_by_name(facts("gemm").key().substr(0, 10));
    EXPECT_EQ(e.work, "gemm 64");
    EXPECT_EQ(e.trials, 4);
    EXPECT_EQ(e.ok, 3);
    EXPECT_EQ(e.best_ms, 1);
    EXPECT_EQ(db.entry_by_name(std::to_string(e.id)).key, e.key);
    std::vector<StoredTrial> best = db.best(e.id, 2);
    ASSERT_EQ(best.size(), 2u);
    EXPECT_EQ(best[0].job.schedule, "s2");
    EXPECT_EQ(best[1].job.schedule, "s3");
    EXPECT_EQ(db.best(e.id, 1, Regime::Cool)[0].job.schedule, "s1") << "each regime has its own";
    std::optional<search::Run> open = db.open_run(e.id, "pipeline");
    ASSERT_TRUE(open);
    EXPECT_EQ(open->id, run_id);
    EXPECT_EQ(open->trials, 3);
    EXPECT_EQ(open->spent_s, 3);
    EXPECT_EQ(open->seed, uint64_t(1) << 40);
    EXPECT_FALSE(db.open_run(e.id, "family x")) << "another space is another search";
    db.end_run(run_id);
    EXPECT_FALSE(db.open_run(e.id, "pipeline"));
    // The last measurement of a schedule counts, and what was found wrong later is out.
    db.add(trial(e, 5, 9.0, "s2"));
    EXPECT_EQ(db.best(e.id, 1)[0].job.schedule, "s3");
    db.add(trial(e, 6, 0, "s3", Status::Wrong));
    EXPECT_EQ(db.best(e.id, 1)[0].job.schedule, "s1");
    EXPECT_TRUE(db.best(e.id, 4, Regime::Sustained, "another driver's").empty());
    EXPECT_EQ(db.trial(best[0].id).job.schedule, "s2");
}

TEST(SearchDatabase, ExportedElsewhereAndBack) {
    TemporaryFolder folder;
    Database a(folder.path() / "a.db"), b(folder.path() / "b.db");
    Entry e = a.entry_for(facts("gemm"), "gemm");
    Entry other = a.entry_for(facts("other"), "other");
    for (int n = 1; n <= 5; n++) {
        a.add(trial(e, n, n, "s" + std::to_string(n)));
    }
    a.add(trial(other, 1, 1, "s"));
    nlohmann::json document = a.export_json({e.id});
    EXPECT_EQ(b.import_json(document), 5);
    EXPECT_EQ(b.import_json(document), 0) << "what is there already stays one";
    EXPECT_EQ(b.entries().size(), 1u);
    EXPECT_EQ(b.export_json(), document);
    EXPECT_EQ(b.prune({}, 2), 3);
    EXPECT_EQ(b.entries().at(0).trials, 2);
    EXPECT_EQ(b.best(b.entries()[0].id, 9).at(0).job.schedule, "s1");
    EXPECT_EQ(b.prune({b.entries()[0].id}, 0), 2);
    EXPECT_TRUE(b.entries().empty());
    EXPECT_EQ(fault_of([&] {
                  b.import_json({{"no", 1}});
              }).substr(0, 60),
              "error[K1313]: the document is no export of a tuning database");
    EXPECT_TRUE(b.entries().empty());
    std::string text = document.dump();
    for (const nlohmann::json &other :
         {nlohmann::json::parse(text.substr(0, text.size() / 2), nullptr, false),
          nlohmann::json::array({1})}) {
        EXPECT_EQ(fault_of([&] { b.import_json(other); }),
                  "error[K1313]: the document is no export of a tuning database\n"
                  "   = note: it does not hold one JSON object: another file, or one that was cut short\n"
                  "   = help: `kiln db export` writes one\n");
    }
    document["kiln_tuning_database"] = 99;
    EXPECT_EQ(fault_of([&] { b.import_json(document); }),
              "error[K1313]: the document was written by a later Kiln\n   = help: update Kiln\n");
}

TEST(SearchDatabase, Faults) {
    TemporaryFolder folder;
    std::filesystem::path text = folder.path() / "text", later = folder.path() / "later",
                          foreign = folder.path() / "foreign";
    std::ofstream(text) << std::string(5000, 'x');
    EXPECT_EQ(
        fault_of([&] { Database db(text); }),
        "error[K1311]: `" + text.string() +
            "` is no database of Kiln's\n   = help: name another file by `--database` or KILN_DATABASE\n");
    { Database db(later); }
    {
        Sqlite raw(later);
        raw.run("PRAGMA user_version = 7");
        Sqlite other(foreign);
        other.run("CREATE TABLE t (x)");
    }
    EXPECT_EQ(fault_of([&] { Database db(later); }), "error[K1311]: `" + later.string() +
                                                         "` was written by a later Kiln: its form is 7, this "
                                                         "one reads up to 1\n   = help: update Kiln, or "
                                                         "name another file by `--database`\n");
    EXPECT_EQ(fault_of([&] { Database db(foreign); }).substr(0, 13), "error[K1311]:");
    EXPECT_EQ(
        fault_of([&] { Database db(folder.path()); }),
        "error[K1310]: the database `" + folder.path().string() +
            "` cannot be used: unable to open database file\n   = help: name another file by `--database` or "
            "KILN_DATABASE\n");
    Database db(folder.path() / "db");
    db.entry_for(facts("a"), "first");
    db.entry_for(facts("b"), "second");
    EXPECT_EQ(
        fault_of([&] { db.entry_by_name("nothing"); }),
        "error[K1312]: the database has no entry `nothing`\n   = help: `kiln db list` shows all entries\n");
    EXPECT_EQ(fault_of([&] { db.entry_by_name(""); }).substr(0, 43),
              "error[K1312]: the database has no entry ``\n");
    EXPECT_EQ(fault_of([&] { db.trial(17); }), "error[K1312]: the database has no trial 17\n   = help: `kiln "
                                               "db show ENTRY` lists an entry's trials\n");
}

/// A child adds trials and says so after each; it is killed when it has said `after`.
int64_t killed_after(const std::filesystem::path &path, int64_t after) {
    int said[2];
    EXPECT_EQ(pipe(said), 0);
    pid_t pid = fork();
    if (pid == 0) {
        Database db(path);
        Entry e = db.entry_for(facts("gemm"), "gemm");
        for (int64_t n = 1;; n++) {
            db.add(trial(e, n, 1, "schedule " + std::to_string(n) + std::string(3000, 'x')));
            if (write(said[1], "x", 1) != 1) {
                _exit(1);
            }
        }
    }
    close(said[1]);
    int64_t heard = 0;
    char byte;
    while (heard < after && read(said[0], &byte, 1) == 1) {
        heard++;
    }
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    while (read(said[0], &byte, 1) == 1) {
        heard++; // said before it died
    }
    close(said[0]);
    return heard;
}

TEST(SearchDatabase, KilledAtAnyPointItLosesNothing) {
    for (int64_t after : {0, 1, 2, 3, 5, 8, 13, 40}) {
        TemporaryFolder folder;
        std::filesystem::path path = folder.path() / "tune.db";
        int64_t heard = killed_after(path, after);
        Database db(path);
        Sqlite raw(path);
        Query check(raw, "PRAGMA integrity_check");
        ASSERT_TRUE(check.step());
        EXPECT_EQ(check.text(0), "ok");
        if (heard > 0) {
            std::vector<StoredTrial> trials = db.trials(db.entry_for(facts("gemm"), "gemm").id);
            EXPECT_GE(static_cast<int64_t>(trials.size()), heard);
            EXPECT_LE(static_cast<int64_t>(trials.size()), heard + 1) << "the one after, or none of it";
            for (size_t i = 0; i < trials.size(); i++) {
                EXPECT_EQ(trials[i].job.number, static_cast<int64_t>(i) + 1);
                EXPECT_EQ(trials[i].job.schedule.size(), 3009 + std::to_string(i + 1).size());
            }
        }
        // And it can be written again.
        Entry e = db.entry_for(facts("gemm"), "gemm");
        EXPECT_GT(db.add(trial(e, 1000, 1, "more")), 0);
    }
}

TEST(SearchDatabase, ServesSeveralProgramsAtOnce) {
    TemporaryFolder folder;
    std::filesystem::path path = folder.path() / "tune.db";
    std::vector<pid_t> children;
    for (int c = 0; c < 4; c++) {
        pid_t pid = fork();
        if (pid == 0) {
            int status = 0;
            try {
                Database db(path);
                Entry e = db.entry_for(facts("gemm"), "gemm");
                for (int n = 0; n < 25; n++) {
                    db.add(trial(e, 100 * c + n, 1, "s"));
                }
            } catch (const std::exception &) {
                status = 1;
            }
            _exit(status);
        }
        children.push_back(pid);
    }
    for (pid_t pid : children) {
        int status = 0;
        waitpid(pid, &status, 0);
        EXPECT_EQ(status, 0);
    }
    Database db(path);
    ASSERT_EQ(db.entries().size(), 1u);
    EXPECT_EQ(db.entries()[0].trials, 100);
}

/// y = relu(x * scale + 1) at a size, with what a case changes.
struct Case {
    double scale = 0.1;
    Type type = Float(32);
    int extent = 100, alignment = 0, stride = 0;
    std::string target = "cpu avx2", device = "a CPU", driver = "1";
    int64_t memory = 1000;
    std::map<std::string, std::string> params = {};
};

Facts facts_of_case(const Case &c) {
    ImageParam x(c.type, 2, "x");
    if (c.alignment) {
        x.set_host_alignment(c.alignment);
    }
    if (c.stride) {
        x.dim(1).set_stride(c.stride);
    }
    Var i("i"), j("j");
    Func t("t"), y("y");
    t(i, j) = x(i, j) * cast(c.type, Expr(c.scale)) + cast(c.type, 1);
    y(i, j) = max(t(i, j), cast(c.type, 0));
    Problem p;
    p.outputs = {y};
    p.generator = "case";
    p.parameters = c.params;
    p.extents = {{"x", {c.extent, 10}}, {"y", {c.extent, 10}}};
    p.target = Target::parse(c.target);
    p.device.name = c.device;
    p.device.driver = c.driver;
    p.device.memory_bytes = c.memory;
    return facts_of(make_problem(p));
}

TEST(SearchKey, IsTheSameForTheSameQuestion) {
    // In one process Halide numbers the names of the second pipeline otherwise.
    EXPECT_EQ(facts_of_case({}).firm, facts_of_case({}).firm);
    EXPECT_EQ(facts_of_case({}).key(), facts_of_case({}).key());
}

TEST(SearchKey, ChangesWithEachFact) {
    Facts base = facts_of_case({});
    const std::vector<std::pair<const char *, std::function<void(Case &)>>> changes = {
        {"algorithm", [](Case &c) { c.scale = 0.1000001; }}, // which Halide would print alike
        {"types", [](Case &c) { c.type = BFloat(16); }},
        {"extents", [](Case &c) { c.extent = 101; }},
        {"strides", [](Case &c) { c.alignment = 64; }},
        {"strides", [](Case &c) { c.stride = 128; }},
        {"target", [](Case &c) { c.target = "cpu avx512"; }},
        {"device", [](Case &c) { c.device = "another CPU"; }},
        {"memory", [](Case &c) { c.memory = 2000; }},
        {"parameters",
         [](Case &c) {
             c.params = {{"p", "1"}};
         }},
    };
    for (const auto &[name, change] : changes) {
        Case c;
        change(c);
        Facts other = facts_of_case(c);
        EXPECT_NE(other.key(), base.key()) << name;
        bool named = false;
        for (const std::string &d : differences(base.firm, other.firm)) {
            named = named || d.rfind(std::string(name) + ": ", 0) == 0;
        }
        EXPECT_TRUE(named) << name << " is not among the differences";
    }
    Case driver;
    driver.driver = "2";
    Facts other = facts_of_case(driver);
    EXPECT_EQ(other.key(), base.key()) << "the question is the same";
    EXPECT_NE(other.loose_key(), base.loose_key()) << "the best few are measured again";
    EXPECT_EQ(differences(base.loose, other.loose), (std::vector<std::string>{"driver: 1 / 2"}));
    EXPECT_TRUE(base.loose.count("kiln") && base.loose.count("halide"));
}

TEST(SearchKey, TellsAlgorithmsApart) {
    Var i("i"), j("j");
    ImageParam x(Float(32), 2, "x");
    auto text = [&](const std::function<void(Func &)> &define) {
        Func y("y");
        define(y);
        return algorithm_text({y});
    };
    RDom k(0, 8, "k"), longer(0, 9, "k"), moved(1, 8, "k"), trimmed(0, 8, "k");
    trimmed.where(trimmed != 3);
    std::vector<std::string> texts = {
        text([&](Func &y) { y(i) = x(i, 0); }),
        text([&](Func &y) { y(i) = x(i, 1); }),
        text([&](Func &y) { y(i) = x(0, i); }),
        text([&](Func &y) { y(i) = x(i, 0) + 1e-7f; }),
        text([&](Func &y) { y(i) = x(i, 0) + 2e-7f; }),
        text([&](Func &y) {
            y(i) = Expr(0.0f);
            y(i) += x(i, k);
        }),
        text([&](Func &y) {
            y(i) = Expr(0.0f);
            y(i) += x(i, longer);
        }),
        text([&](Func &y) {
            y(i) = Expr(0.0f);
            y(i) += x(i, moved);
        }),
        text([&](Func &y) {
            y(i) = Expr(0.0f);
            y(i) += x(i, trimmed);
        }),
        text([&](Func &y) {
            y(i) = Expr(0.0f);
            y(i) = max(y(i), x(i, k));
        }),
        text([&](Func &y) { y(i) = Tuple(x(i, 0), x(i, 1)); }),
        text([&](Func &y) { y(i) = Tuple(x(i, 1), x(i, 0)); }),
        text([&](Func &y) { y(i) = cast<double>(x(i, 0)); }),
        text([&](Func &y) { y(i) = cast<int>(x(i, 0)); }),
    };
    for (size_t a = 0; a < texts.size(); a++) {
        for (size_t b = 0; b < a; b++) {
            EXPECT_NE(texts[a], texts[b]) << a << " and " << b;
        }
    }
}

} // namespace
} // namespace kiln::search
