// The engine of `kiln watch` with a scripted editor and a runner that builds nothing.
#include "apps/kiln/watch/Engine.h"
#include "dsl/support/Files.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

using namespace kiln;
using namespace kiln::cli;
namespace fs = std::filesystem;

namespace {

/// Passes a text that holds `parallel`, in a time that it names: `// 2.5 ms`. Everything else fails.
class FakeRunner : public TrialRunner {
public:
    int runs = 0;
    TrialResult run(const std::string &file, const std::string &text) override {
        runs++;
        TrialResult result;
        if (text.find("parallel") == std::string::npos) {
            Diagnostic d;
            d.code = "K0101";
            d.message = "no loop `xo`";
            result.diagnostics = {d};
            result.failed_at = "check";
            return result;
        }
        size_t at = text.find("// ");
        TrialRow row;
        row.work = "1024";
        row.ms = at == std::string::npos ? 1 : std::atof(text.c_str() + at + 3);
        row.ms_low = row.ms * 0.99;
        row.ms_high = row.ms * 1.01;
        row.roofline = 0.5;
        result.rows = {row};
        return result;
    }
};

class WatchEngineTest : public ::testing::Test {
protected:
    WatchEngineTest() {
        setenv("KILN_CACHE_DIR", (folder.path() / "cache").c_str(), 1);
        file = folder.path() / "a.sched";
    }
    static std::string schedule(const std::string &body) {
        return "schedule a {\n  op chain_relu\n  target cpu\n\n  " + body + "\n}\n";
    }
    /// As editors save: a new file moved over the old one.
    void save(const std::string &text) {
        std::ofstream(folder.path() / "a.sched~") << text;
        fs::rename(folder.path() / "a.sched~", file);
    }
    /// Looks until there is something to tell; the engine takes a content only when it sees it twice.
    std::optional<WatchEvent> next(WatchEngine &engine) {
        for (int i = 0; i < 4; i++) {
            if (auto event = engine.look()) {
                return event;
            }
        }
        return std::nullopt;
    }

    TemporaryFolder folder;
    fs::path file;
    FakeRunner runner;
};

TEST_F(WatchEngineTest, FollowsAnEditor) {
    History history(file, "chain_relu");
    WatchEngine engine(file, runner, history);

    save(schedule("y.parallel(i); // 2 ms"));
    auto event = next(engine);
    ASSERT_TRUE(event);
    EXPECT_TRUE(event->result.ok());
    EXPECT_EQ(event->entry.number, 1);
    EXPECT_EQ(event->compared_with, 0);
    EXPECT_EQ(event->versus_previous, 0);
    EXPECT_FALSE(next(engine)) << "nothing new";

    // A better one.
    save(schedule("y.split(i, io, ii, 8).vectorize(ii).parallel(io); // 1 ms"));
    event = next(engine);
    ASSERT_TRUE(event);
    EXPECT_EQ(event->entry.number, 2);
    EXPECT_NEAR(event->versus_previous, 2.0, 1e-9);
    EXPECT_NEAR(event->versus_best, 2.0, 1e-9);
    EXPECT_FALSE(event->changes.empty());
    std::string text = render(*event, file.string());
    EXPECT_NE(text.find("2.000 times as fast as #1: the best so far"), std::string::npos) << text;
    EXPECT_NE(text.find("50 % of the roofline"), std::string::npos) << text;
    EXPECT_NE(text.find("parallel(io)"), std::string::npos) << text;

    // A syntax error, then one that the checker refuses.
    save("schedule a { op");
    event = next(engine);
    ASSERT_TRUE(event);
    EXPECT_EQ(event->result.failed_at, "check");
    EXPECT_EQ(event->versus_previous, 0);
    text = render(*event, file.string());
    EXPECT_NE(text.find("#3 did not pass: check; #2 is the last that did"), std::string::npos) << text;
    EXPECT_NE(text.find("error[K0101]: no loop `xo`"), std::string::npos) << text;

    // A loss, against #2 and not against the one that failed.
    save(schedule("y.parallel(i); // 4 ms"));
    event = next(engine);
    ASSERT_TRUE(event);
    EXPECT_EQ(event->previous, 2);
    EXPECT_EQ(event->best, 2);
    EXPECT_NEAR(event->versus_previous, 0.25, 1e-9);
    EXPECT_EQ(runner.runs, 4);
}

TEST_F(WatchEngineTest, OnlyLayoutChanged) {
    History history(file, "chain_relu");
    WatchEngine engine(file, runner, history);
    save(schedule("y.parallel(i);"));
    ASSERT_TRUE(next(engine));
    save("// a fact\n" + schedule("y  .parallel( i ) ;"));
    auto event = next(engine);
    ASSERT_TRUE(event);
    EXPECT_TRUE(event->changes.empty()) << event->changes.front();
    EXPECT_NE(render(*event, "a").find("only layout or comments changed"), std::string::npos);
}

TEST_F(WatchEngineTest, WaitsForAHalfWrittenFile) {
    History history(file, "chain_relu");
    WatchEngine engine(file, runner, history);
    // An editor that truncates and writes in two steps, a look between them.
    std::ofstream(file) << "";
    EXPECT_FALSE(engine.look());
    std::ofstream(file) << schedule("y.parallel(i);");
    EXPECT_FALSE(engine.look());
    auto event = engine.look();
    ASSERT_TRUE(event);
    EXPECT_TRUE(event->result.ok());
    EXPECT_EQ(runner.runs, 1);
}

TEST_F(WatchEngineTest, SurvivesADeletedFile) {
    History history(file, "chain_relu");
    WatchEngine engine(file, runner, history);
    save(schedule("y.parallel(i);"));
    ASSERT_TRUE(next(engine));
    fs::remove(file);
    auto event = next(engine);
    ASSERT_TRUE(event);
    EXPECT_EQ(event->kind, WatchEvent::Kind::Gone);
    EXPECT_EQ(render(*event, "a.sched"),
              "error[K0930]: no file `" + file.string() + "`\nwaiting for `a.sched`\n");
    EXPECT_FALSE(next(engine)) << "said once";
    // The same content again is not tried again, another is.
    save(schedule("y.parallel(i);"));
    event = next(engine);
    ASSERT_TRUE(event);
    EXPECT_EQ(event->kind, WatchEvent::Kind::Back);
    fs::remove(file);
    ASSERT_TRUE(next(engine));
    fs::create_directory(file);
    event = next(engine);
    ASSERT_TRUE(event) << "another reason is said too";
    EXPECT_EQ(render(*event, "a.sched"), "error[K0931]: `" + file.string() +
                                             "` is a folder, not a schedule file\nwaiting for `a.sched`\n");
    EXPECT_FALSE(next(engine)) << "once";
    fs::remove(file);
    save(schedule("y.parallel(i); // 3 ms"));
    event = next(engine);
    ASSERT_TRUE(event);
    EXPECT_TRUE(event->result.ok());
    EXPECT_EQ(runner.runs, 2);
    // Bytes that are no text.
    save(std::string("\0\xff", 2));
    event = next(engine);
    ASSERT_TRUE(event);
    EXPECT_EQ(event->kind, WatchEvent::Kind::Gone);
}

TEST_F(WatchEngineTest, HistoryOutlivesTheProgram) {
    std::string first = schedule("y.parallel(i); // 1 ms");
    {
        History history(file, "chain_relu");
        WatchEngine engine(file, runner, history);
        save(first);
        ASSERT_TRUE(next(engine));
        save(schedule("y.vectorize(i, 8);"));
        ASSERT_TRUE(next(engine));
    }
    History again(file, "chain_relu");
    ASSERT_EQ(again.entries().size(), 2u);
    EXPECT_EQ(again.text_of(1), first);
    EXPECT_EQ(again.best()->number, 1);
    EXPECT_EQ(again.entries()[1].fault, "K0101: no loop `xo`");
    std::string text = render(again);
    EXPECT_NE(text.find("1024 1.000 ms  (best)"), std::string::npos) << text;
    EXPECT_NE(text.find("did not pass: check (K0101: no loop `xo`)"), std::string::npos) << text;
    EXPECT_TRUE(History(file, "another target").entries().empty());
    // A reverted text is recognised.
    WatchEngine engine(file, runner, again);
    save(first);
    auto event = next(engine);
    ASSERT_TRUE(event);
    EXPECT_EQ(event->entry.number, 3);
    EXPECT_EQ(event->same_text_as, 1);
}

} // namespace
