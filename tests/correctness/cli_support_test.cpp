// What the command line stands on: files, children, progress. Each fault with its full message.
#include "dsl/support/Diagnostic.h"
#include "dsl/support/Files.h"
#include "dsl/support/Interrupt.h"
#include "dsl/support/Process.h"
#include "dsl/support/Progress.h"

#include <nlohmann/json.hpp>

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <thread>

#include <sys/stat.h>
#include <unistd.h>

using namespace kiln;
namespace fs = std::filesystem;

namespace {

template<class F>
std::string message_of(F &&f) {
    try {
        f();
    } catch (const Error &error) {
        return error.what();
    }
    return "no error";
}

class Support : public ::testing::Test {
protected:
    TemporaryFolder folder;
    std::string path(const char *name) const { return (folder.path() / name).string(); }
    void write(const char *name, const std::string &text) { std::ofstream(path(name)) << text; }
};

TEST_F(Support, ReadsTextFiles) {
    write("a.sched", "schedule a {}\n");
    EXPECT_EQ(read_text_file(path("a.sched"), "schedule"), "schedule a {}\n");
}

TEST_F(Support, SaysWhatIsWrongWithAFile) {
    write("gemm.sched", "");
    EXPECT_EQ(message_of([&] { read_text_file(path("gem.sched"), "schedule"); }),
              "error[K0930]: no file `" + path("gem.sched") + "`\n   = help: did you mean `" +
                  path("gemm.sched") + "`?\n");
    EXPECT_EQ(message_of([&] { read_text_file(path("no/where.sched"), "schedule"); }),
              "error[K0930]: no file `" + path("no/where.sched") + "`\n   = help: there is no folder `" +
                  path("no") + "` either\n");
    EXPECT_EQ(message_of([&] { read_text_file(folder.path(), "schedule"); }),
              "error[K0931]: `" + folder.path().string() + "` is a folder, not a schedule file\n");
    EXPECT_EQ(message_of([&] { read_text_file("/dev/null", "schedule"); }),
              "error[K0931]: `/dev/null` is a device or a pipe, not a schedule file\n");
    mkfifo(path("pipe").c_str(), 0600);
    EXPECT_EQ(message_of([&] { read_text_file(path("pipe"), "schedule"); }),
              "error[K0931]: `" + path("pipe") + "` is a device or a pipe, not a schedule file\n");
    write("binary", std::string("ab\0c", 4));
    EXPECT_EQ(message_of([&] { read_text_file(path("binary"), "schedule"); }),
              "error[K0933]: `" + path("binary") +
                  "` is not text: byte 2 is zero\n   = help: a schedule is a text file in UTF-8\n");
    write("large", std::string((size_t(16) << 20) + 1, 'a'));
    EXPECT_EQ(message_of([&] { read_text_file(path("large"), "schedule"); }),
              "error[K0934]: `" + path("large") +
                  "` has 16777217 bytes, more than a schedule may have (16777216)\n");
    fs::create_symlink("loop", path("loop"));
    EXPECT_EQ(message_of([&] { read_text_file(path("loop"), "schedule"); }),
              "error[K0932]: cannot read `" + path("loop") + "`: Too many levels of symbolic links\n");
}

TEST_F(Support, WritesFilesWhole) {
    write("a", "old");
    chmod(path("a").c_str(), 0640);
    fs::create_symlink("a", path("link"));
    write_file_atomic(path("link"), "new");
    EXPECT_EQ(read_text_file(path("a"), "text"), "new");
    EXPECT_TRUE(fs::is_symlink(path("link")));
    struct stat info = {};
    stat(path("a").c_str(), &info);
    EXPECT_EQ(info.st_mode & 0777, 0640u);
    // Nothing else is left.
    EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 2);
    EXPECT_EQ(message_of([&] { write_file_atomic(path("no/where"), "x"); }),
              "error[K0935]: cannot write `" + path("no/where") + "`: No such file or directory\n");
    fs::create_directory(path("folder"));
    EXPECT_EQ(message_of([&] { write_file_atomic(path("folder"), "x"); }),
              "error[K0935]: cannot write `" + path("folder") + "`: it is a folder\n");
}

TEST_F(Support, TemporaryFoldersGo) {
    fs::path where;
    {
        TemporaryFolder inner(folder.path() / "made" / "result");
        where = inner.path();
        EXPECT_EQ(where.parent_path(), folder.path() / "made");
        std::ofstream(where / "file") << "x";
    }
    EXPECT_FALSE(fs::exists(where));
}

TEST_F(Support, WhatAKilledProgramLeftGoesWithTheNextFolder) {
    fs::path parent = folder.path() / "out";
    auto old = fs::file_time_type::clock::now() - std::chrono::hours(2);
    TemporaryFolder running(parent / "result");
    fs::create_directories(parent / ".kiln-killed" / "inner");
    fs::create_directories(parent / ".kiln-recent");
    fs::create_directories(parent / "kept");
    for (const fs::path &path : {running.path(), parent / ".kiln-killed", parent / "kept"}) {
        fs::last_write_time(path, old);
    }
    fs::create_directory_symlink(parent / "kept", parent / ".kiln-linked");
    TemporaryFolder next(parent / "result");
    EXPECT_FALSE(fs::exists(parent / ".kiln-killed"));
    for (const fs::path &path :
         {running.path(), next.path(), parent / ".kiln-recent", parent / "kept", parent / ".kiln-linked"}) {
        EXPECT_TRUE(fs::exists(path)) << path;
    }
}

TEST(Process, RunsPrograms) {
    ProcessRequest request;
    request.argv = {"sh", "-c", "cat; echo $KILN_TEST_VALUE; echo err >&2; exit 3"};
    request.input = "in\n";
    request.environment = {{"KILN_TEST_VALUE", "a=b"}};
    ProcessResult result = run_process(request);
    EXPECT_EQ(result.end, ProcessResult::End::Exited);
    EXPECT_EQ(result.code, 3);
    EXPECT_EQ(result.out, "in\na=b\n");
    EXPECT_EQ(result.err, "err\n");
}

TEST(Process, ManyBytesBothWays) {
    ProcessRequest request;
    request.argv = {"cat"};
    request.input = std::string(900000, 'x');
    EXPECT_EQ(run_process(request).out, request.input);
}

TEST(Process, SaysWhatDidNotEndWell) {
    auto why = [](std::vector<std::string> argv, ProcessLimits limits) {
        ProcessRequest request;
        request.argv = std::move(argv);
        request.limits = limits;
        return render(diagnose(run_process(request), "the tool", limits), "");
    };
    EXPECT_EQ(why({"/no/such/tool"}, {}),
              "error[K0940]: the tool did not start: No such file or directory\n");
    EXPECT_EQ(why({"sh", "-c", "echo last words >&2; kill -SEGV $$"}, {}),
              "error[K0940]: the tool crashed: Segmentation fault\n   = note: last words\n");
    EXPECT_EQ(why({"sh", "-c", "exit 7"}, {}), "error[K0940]: the tool ended the process with status 7\n");
    EXPECT_EQ(why({"sleep", "60"}, {.timeout_s = 0.1, .memory_bytes = 0}),
              "error[K0941]: the tool took longer than its 0.1 s and was stopped\n");
}

TEST(Process, KillsWhatAChildLeavesBehind) {
    ProcessRequest request;
    request.argv = {"sh", "-c", "sleep 60 & echo $!"};
    request.limits.timeout_s = 20;
    ProcessResult result = run_process(request);
    EXPECT_LT(result.seconds, 10);
    pid_t left = std::atoi(result.out.c_str());
    ASSERT_GT(left, 1);
    for (int i = 0; i < 100 && kill(left, 0) == 0; i++) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    // A zombie until init reaps it, but not running.
    std::ifstream status("/proc/" + std::to_string(left) + "/stat");
    std::string pid, name, state;
    status >> pid >> name >> state;
    EXPECT_TRUE(state.empty() || state == "Z" || state == "X") << state;
}

#ifndef KILN_SANITIZE // the sanitizer reserves more address space than the limit of memory, and catches the crash
TEST(Isolated, ReturnsOrSaysWhy) {
    EXPECT_EQ(run_isolated("it", {}, [] { return nlohmann::json{{"a", 1}}; })["a"], 1);
    EXPECT_EQ(message_of([] { run_isolated("the work", {}, []() -> nlohmann::json { std::abort(); }); }),
              "error[K0940]: the work crashed: Aborted\n");
    EXPECT_EQ(message_of([] { run_isolated("the work", {}, []() -> nlohmann::json { _exit(5); }); }),
              "error[K0940]: the work ended the process with status 5\n");
    EXPECT_EQ(message_of([] {
                  run_isolated("the work", {.timeout_s = 0.1, .memory_bytes = 0}, []() -> nlohmann::json {
                      for (;;) {
                          pause();
                      }
                  });
              }),
              "error[K0941]: the work took longer than its 0.1 s and was stopped\n");
    EXPECT_EQ(message_of([] {
                  run_isolated("the work", {.timeout_s = 0, .memory_bytes = size_t(1) << 30},
                               []() -> nlohmann::json { return std::vector<int>(size_t(1) << 30).size(); });
              }),
              "error[K0942]: the work needed more than its 1024 MiB of memory\n");
    EXPECT_EQ(message_of([] {
                  run_isolated("the work", {}, []() -> nlohmann::json { throw std::runtime_error("odd"); });
              }),
              "error[K0943]: the work threw an exception: odd\n");
    EXPECT_EQ(message_of([] {
                  run_isolated("the work", {}, []() -> nlohmann::json {
                      Diagnostic d;
                      d.code = "K0101";
                      d.message = "no loop `x`";
                      throw Error(d);
                  });
              }),
              "error[K0101]: no loop `x`\n");
}
#endif

TEST(Progress, PlainLinesAfterASecond) {
    // In a child, so that its stderr can be read.
    std::string text;
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], 2);
        set_progress_mode(ProgressMode::Plain);
        { Activity quick("quick work"); }
        Activity outer("building gemm", 4);
        outer.at(1, "cpu avx2");
        std::this_thread::sleep_for(std::chrono::milliseconds(1300));
        _exit(0);
    }
    close(ends[1]);
    char block[4096];
    for (ssize_t n = 0; (n = read(ends[0], block, sizeof block)) > 0;) {
        text.append(block, n);
    }
    close(ends[0]);
    EXPECT_EQ(text, "kiln: building gemm: 1 of 4, cpu avx2, 1 s so far, about 3 s still\n");
}

TEST(Nearest, CountsASwapOnce) {
    EXPECT_EQ(nearest("pritn", {"check", "print"}), "print");
    EXPECT_EQ(nearest("gem", {"gemm", "softmax"}), "gemm");
    EXPECT_EQ(nearest("zzz", {"gemm", "softmax"}), "");
}

} // namespace
