// Each command of the real program.
#include "cli_run.h"

#include <algorithm>
#include <filesystem>
#include <thread>

#include <csignal>
#include <sys/wait.h>
#include <unistd.h>

using namespace kiln::test;
namespace fs = std::filesystem;

namespace {

class CliCommandTest : public CliTest {};

TEST_F(CliCommandTest, List) {
    CliRun run = kiln({"list"});
    EXPECT_EQ(run.code, 0) << run.err;
    EXPECT_NE(run.out.find("gemm "), std::string::npos);
    run = kiln({"list", "gemm"});
    EXPECT_NE(run.out.find("acc.update(0) loops k, n, m"), std::string::npos) << run.out;
    run = kiln({"list", "gemm", "--json"});
    EXPECT_EQ(run.err, "");
    nlohmann::json json = run.json();
    EXPECT_EQ(json["command"], "list");
    EXPECT_EQ(json["ok"], true);
    EXPECT_EQ(json["generators"][0]["name"], "gemm");
    EXPECT_EQ(json["generators"][0]["inputs"][0]["dimensions"], 2);
    // A parameter changes the interface.
    json = kiln({"--json", "list", "chain_relu", "--param", "type=bfloat16"}).json();
    EXPECT_EQ(json["generators"][0]["inputs"][0]["types"][0], "bfloat16");
}

TEST_F(CliCommandTest, BuildPutsVariantsBehindOneName) {
    write("a.sched", good_chain);
    CliRun run =
        kiln({"build", "chain_relu", "--target", "cpu-avx2", "--schedule", "a.sched", "--knob", "lanes=16",
              "--target", "cpu", "--schedule", "default", "--name", "mine", "-o", "out", "--json"});
    ASSERT_EQ(run.code, 0) << run.out;
    EXPECT_EQ(run.json()["header"], "out/mine.h");
    for (const char *file : {"out/mine.a", "out/mine.h", "out/mine.json"}) {
        EXPECT_TRUE(fs::exists(path(file))) << file;
    }
    std::string contract = read("out/mine.json");
    EXPECT_NE(contract.find("split(i, io, ii, 16, "), std::string::npos) << "the knob's value";
    // All three or none.
    write("bad.sched", "schedule a { op chain_relu\n target cpu\n y.parallel(j); }");
    run = kiln({"build", "chain_relu", "--schedule", "bad.sched", "-o", "bad"});
    EXPECT_EQ(run.code, 1);
    EXPECT_TRUE(!fs::exists(path("bad")) || fs::is_empty(path("bad")));
}

TEST_F(CliCommandTest, AFolderOfSchedules) {
    fs::create_directories(path("all/chain_relu"));
    auto schedule = [](const std::string &name, int lanes) {
        return "schedule " + name + " {\n  op chain_relu\n  target cpu\n  y.vectorize(i, " +
               std::to_string(lanes) + ", GuardWithIf);\n}\n";
    };
    write("all/chain_relu/cpu_avx2.sched", schedule("plain", 8));
    write("all/chain_relu/short.sched", schedule("for_short_ones", 4));
    write("all/chain_relu/half.sched", schedule("for_16_bits", 16));
    write("all/variants.txt", "chain_relu cpu_avx2 half type=bfloat16\n"
                              "chain_relu cpu_avx2 short x.extent(0) <= 64\n");
    auto names = [&](std::vector<std::string> more) {
        std::vector<std::string> arguments = {"build", "chain_relu", "--schedule", "all", "-o", "out"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        CliRun run = kiln(arguments);
        EXPECT_EQ(run.code, 0) << run.err;
        std::string found;
        nlohmann::json contract = nlohmann::json::parse(read("out/chain_relu.json"));
        for (const auto &v : contract["variants"]) {
            found += v["schedule_name"].get<std::string>() + " ";
        }
        return found;
    };
    EXPECT_EQ(names({"--target", "cpu-avx2"}), "for_short_ones plain ");
    EXPECT_EQ(names({"--target", "cpu-avx2", "--param", "type=bfloat16"}), "for_16_bits ");
    EXPECT_EQ(names({"--target", "opencl"}), "default_opencl ") << "it has none";
    // Each problem of a check by its own parameters.
    CliRun run = kiln({"check", "chain_relu", "--schedule", "all", "--target", "cpu-avx2", "--quick"});
    EXPECT_EQ(run.code, 0) << run.err;
}

TEST_F(CliCommandTest, Schedule) {
    write("a.sched", good_chain);
    CliRun run = kiln({"schedule", "check", "a.sched"});
    EXPECT_EQ(run.code, 0) << run.err;
    EXPECT_EQ(run.out, "a.sched: `by_hand` is right for `chain_relu` on `cpu avx2`\n");
    run = kiln({"schedule", "print", "a.sched"});
    EXPECT_EQ(run.code, 0) << run.err;
    EXPECT_NE(run.out.find("y.split(i, io, ii, lanes).vectorize(ii).parallel(io);"), std::string::npos);
    run = kiln({"schedule", "print", "a.sched", "--expand", "--knob", "lanes=16"});
    EXPECT_NE(run.out.find("split(i, io, ii, 16, "), std::string::npos) << run.out;
    EXPECT_EQ(run.out.find("knob"), std::string::npos);
    run = kiln({"schedule", "print", "a.sched", "--as", "halide"});
    EXPECT_NE(run.out.find("TailStrategy::GuardWithIf"), std::string::npos) << run.out << run.err;
    run = kiln({"schedule", "print", "a.sched", "--as", "kiln"});
    EXPECT_EQ(run.code, 0) << run.err;
    run = kiln({"schedule", "doc"});
    EXPECT_NE(run.out.find("### compute_at"), std::string::npos);
}

/// Without the knob as the parameter's value the algorithm has no Func `x_plus_residual`.
TEST_F(CliCommandTest, ScheduleCheckTakesKnobsThatNameParameters) {
    write("a.sched", "schedule with_add { op rms_norm  target cpu avx2\n knob add in {true, false}\n"
                     " x_plus_residual.parallel(i);\n y.parallel(i);\n}\n");
    CliRun run = kiln({"schedule", "check", "a.sched", "--generator", "rms_norm"});
    EXPECT_EQ(run.code, 0) << run.out << run.err;
    run = kiln({"schedule", "check", "a.sched", "--generator", "rms_norm", "--param", "add=false"});
    EXPECT_NE(run.code, 0) << run.out << run.err;
}

TEST_F(CliCommandTest, ScheduleDiff) {
    write("a.sched", good_chain);
    write("b.sched",
          "// other comments\nschedule by_hand { op chain_relu  target cpu avx2\n knob lanes in {8, 16}\n"
          "y.split(i, io, ii, lanes).vectorize(ii).parallel(io); }");
    CliRun run = kiln({"schedule", "diff", "a.sched", "b.sched", "--exit-code"});
    EXPECT_EQ(run.code, 0);
    EXPECT_EQ(run.out, "no difference\n");
    write("b.sched", "schedule by_hand { op chain_relu  target cpu avx2\n knob lanes in {8, 16}\n"
                     "y.split(i, io, ii, lanes).vectorize(ii); }");
    run = kiln({"schedule", "diff", "a.sched", "b.sched", "--exit-code"});
    EXPECT_EQ(run.code, 1);
    EXPECT_NE(run.out.find("- parallel(io)"), std::string::npos) << run.out;
    EXPECT_EQ(kiln({"schedule", "diff", "a.sched", "b.sched"}).code, 0);
}

TEST_F(CliCommandTest, Check) {
    write("a.sched", good_chain);
    CliRun run = kiln({"check", "chain_relu", "--schedule", "a.sched", "--work", "n67", "--quick", "--json"});
    EXPECT_EQ(run.code, 0) << run.out;
    nlohmann::json json = run.json();
    EXPECT_EQ(json["ok"], true);
    EXPECT_FALSE(json["probes"].empty());
    EXPECT_EQ(json["probes"][0]["workload"], "n67");
    run = kiln({"check", "chain_relu", "--work", "n68"});
    EXPECT_EQ(run.code, 1);
    EXPECT_EQ(run.err.substr(0, 12), "error[K0805]");
}

TEST_F(CliCommandTest, Cache) {
    CliRun run = kiln({"cache", "show"});
    EXPECT_EQ(run.out, path("cache") + "\n");
    fs::create_directories(path("cache/watch/a"));
    write("cache/watch/a/0001.sched", "x");
    write("cache/mine.txt", "not Kiln's");
    run = kiln({"cache", "show"});
    EXPECT_NE(run.out.find("watch      1 files"), std::string::npos) << run.out;
    run = kiln({"cache", "clear", "--json"});
    EXPECT_EQ(run.json()["removed"], 1);
    EXPECT_FALSE(fs::exists(path("cache/watch")));
    EXPECT_TRUE(fs::exists(path("cache/mine.txt"))) << "what is not Kiln's stays";
}

TEST_F(CliCommandTest, Completion) {
    auto candidates = [&](std::vector<std::string> words) {
        words.insert(words.begin(), {"complete", "--"});
        CliRun run = kiln(words);
        std::vector<std::string> names;
        std::istringstream lines(run.out);
        for (std::string line; std::getline(lines, line);) {
            names.push_back(line.substr(0, line.find('\t')));
        }
        return names;
    };
    auto holds = [](const std::vector<std::string> &names, const std::string &name) {
        return std::find(names.begin(), names.end(), name) != names.end();
    };
    // Every command of the tree, and each of its options.
    nlohmann::json tree = kiln({"help", "commands", "--json"}).json();
    ASSERT_GE(tree["commands"].size(), 15u);
    for (const auto &command : tree["commands"]) {
        std::vector<std::string> words;
        std::istringstream path(command["command"].get<std::string>());
        for (std::string word; path >> word;) {
            words.push_back(word);
        }
        words.erase(words.begin()); // "kiln"
        std::vector<std::string> before(words.begin(), words.end() - 1);
        before.push_back("");
        EXPECT_TRUE(holds(candidates(before), words.back())) << command["command"];
        words.push_back("--");
        std::vector<std::string> options = candidates(words);
        for (const auto &option : command["options"]) {
            std::string name = option["name"];
            EXPECT_TRUE(name[0] != '-' || name[1] != '-' || holds(options, name))
                << command["command"] << " " << name;
        }
    }
    EXPECT_FALSE(holds(candidates({""}), "complete"));
    EXPECT_TRUE(holds(candidates({"build", ""}), "gemm"));
    EXPECT_TRUE(holds(candidates({"build", "gemm", "--target", "cpu-a"}), "cpu-avx2"));
    EXPECT_FALSE(holds(candidates({"build", "gemm", "--target", "cpu-a"}), "opencl"));
    EXPECT_EQ(candidates({"build", "gemm", "--schedule", ""}), std::vector<std::string>{":files"});
    EXPECT_EQ(candidates({"schedule", "print", "a.sched", "--as", "k"}), std::vector<std::string>{"kiln"});
}

TEST_F(CliCommandTest, BashCompletes) {
    CliRun run = kiln({"completion", "bash"});
    write("completion.bash", run.out);
    kiln::ProcessRequest request;
    request.argv = {"bash", "-c",
                    "source completion.bash; COMP_WORDS=(" KILN_BINARY_DIR
                    "/bin/kiln schedule pr); COMP_CWORD=2; _kiln; echo ${COMPREPLY[@]}"};
    request.cwd = folder.path();
    EXPECT_EQ(kiln::run_process(request).out, "print\n");
    for (const char *shell : {"zsh", "fish"}) {
        EXPECT_NE(kiln({"completion", shell}).out.find("complete -- "), std::string::npos);
    }
}

TEST_F(CliCommandTest, CheckSaysOnceThatNothingRunsTheKernel) {
    CliRun run =
        kiln({"check", "chain_relu", "--target", "opencl"}, {{"HL_OCL_PLATFORM_NAME", "No Such Platform"}});
    EXPECT_EQ(run.code, 4);
    size_t first = run.err.find("error[");
    EXPECT_EQ(run.err.find("error[K0812]: the kernel `chain_relu` cannot run on this machine\n"), first)
        << run.err;
    EXPECT_EQ(run.err.find("error[", first + 1), std::string::npos) << run.err;
    EXPECT_EQ(run.out.find("FAILED"), std::string::npos) << run.out;
    EXPECT_NE(run.out.find("\nchain_relu: not run (seed "), std::string::npos) << run.out;
}

TEST_F(CliCommandTest, CheckCallsNoKernelWrongThatWasNotBuilt) {
    CliRun run = kiln({"check", "chain_relu", "--target", "cpu", "--param", "type=float64"});
    EXPECT_EQ(run.code, 1);
    EXPECT_EQ(run.out.find("WRONG"), std::string::npos) << run.out;
    EXPECT_NE(run.out.find("chain_relu: not checked (seed "), std::string::npos) << run.out << run.err;
}

TEST_F(CliCommandTest, HelpOfACommandIsWhatItsOptionSays) {
    for (std::vector<std::string> words : {std::vector<std::string>{}, {"tune"}, {"schedule", "print"}}) {
        std::vector<std::string> option = words, command = words;
        option.push_back("--help");
        command.insert(command.begin(), "help");
        CliRun asked = kiln(option), help = kiln(command);
        EXPECT_EQ(help.code, 0) << help.err;
        EXPECT_EQ(help.out, asked.out);
        std::string usage = "Usage: kiln";
        for (const std::string &word : words) {
            usage += " " + word;
        }
        EXPECT_NE(help.out.find(usage + " ["), std::string::npos) << help.out;
        command.push_back("--json");
        EXPECT_EQ(kiln(command).json()["text"], asked.out);
    }
}

TEST_F(CliCommandTest, EnvironmentTableIsInTheDocumentation) {
    CliRun run = kiln({"help", "environment", "--markdown"});
    std::ostringstream page;
    page << std::ifstream(KILN_SOURCE_DIR "/docs/cli.md").rdbuf();
    EXPECT_NE(page.str().find(run.out), std::string::npos)
        << "docs/cli.md must hold what `kiln help environment --markdown` prints";
    nlohmann::json tree = kiln({"help", "commands", "--json"}).json();
    for (const auto &command : tree["commands"]) {
        EXPECT_NE(page.str().find("`" + command["command"].get<std::string>()), std::string::npos)
            << command["command"];
    }
}

TEST_F(CliCommandTest, NewWritesAProject) {
    CliRun run = kiln({"new", "my_scale"});
    EXPECT_EQ(run.code, 0) << run.err;
    for (const char *file : {"my_scale/my_scale.cpp", "my_scale/my_scale.sched", "my_scale/CMakeLists.txt",
                             "my_scale/README.md"}) {
        std::string text = read(file);
        EXPECT_FALSE(text.empty()) << file;
        EXPECT_EQ(text.find('@'), std::string::npos) << file;
    }
    EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1)
        << "nothing else is left";
    // The schedule parses, and prints as it is.
    run = kiln({"schedule", "print", "my_scale/my_scale.sched"});
    EXPECT_EQ(run.code, 0) << run.err;
}

TEST_F(CliCommandTest, NewProjectBuildsAndPassesItsCheck) {
    ASSERT_EQ(kiln({"new", "my_scale"}).code, 0);
    std::string cmake = CMAKE_PROGRAM;
    std::string ctest = (fs::path(cmake).parent_path() / "ctest").string();
    std::vector<std::vector<std::string>> steps = {
        {cmake, "-S", "my_scale", "-B", "b", "-DCMAKE_PREFIX_PATH=" KILN_BINARY_DIR},
        {cmake, "--build", "b"},
        {ctest, "--test-dir", "b", "--output-on-failure"}};
    for (const auto &argv : steps) {
        kiln::ProcessRequest request;
        request.argv = argv;
        request.cwd = folder.path();
        request.environment = {{"KILN_CACHE_DIR", path("cache")}};
        request.limits.timeout_s = 200;
        kiln::ProcessResult result = kiln::run_process(request);
        ASSERT_TRUE(result.ok()) << argv[1] << "\n" << result.out << result.err;
    }
    EXPECT_TRUE(fs::exists(path("b/my_scale.kernels/my_scale.a")));
}

TEST_F(CliCommandTest, ExplainCountsWorkAndBytes) {
    CliRun run = kiln({"explain", "gemm", "--target", "cpu-avx2", "--work", "333x777x555", "--json"});
    ASSERT_EQ(run.code, 0) << run.out;
    nlohmann::json json = run.json();
    EXPECT_EQ(json["work"]["flops"], 2.0 * 333 * 777 * 555);
    EXPECT_EQ(json["work"]["bytes"], 4.0 * (333 * 555 + 555 * 777 + 333 * 777));
    EXPECT_NE(kiln({"explain", "gemm"}).out.find("acc.update()"), std::string::npos);
    // A folder of schedules stands for the one that serves every call.
    CliRun folder =
        kiln({"explain", "softmax", "--target", "cpu-avx2", "--schedule", KILN_SOURCE_DIR "/schedules"});
    EXPECT_EQ(folder.code, 0) << folder.err;
    EXPECT_EQ(folder.out.find("softmax by `softmax_avx2` on cpu avx2"), 0u) << folder.out;
}

/// The program in the background, and what it prints line by line.
class Watcher {
public:
    Watcher(const fs::path &folder, std::vector<std::string> args) {
        int ends[2];
        EXPECT_EQ(pipe(ends), 0);
        pid_ = fork();
        if (pid_ == 0) {
            dup2(ends[1], 1);
            close(ends[0]);
            setenv("KILN_CACHE_DIR", (folder / "cache").c_str(), 1);
            if (chdir(folder.c_str()) != 0) {
                _exit(1);
            }
            std::vector<char *> argv = {const_cast<char *>(KILN_BINARY_DIR "/bin/kiln")};
            for (std::string &arg : args) {
                argv.push_back(arg.data());
            }
            argv.push_back(nullptr);
            execv(argv[0], argv.data());
            _exit(1);
        }
        close(ends[1]);
        out_ = fdopen(ends[0], "r");
    }
    ~Watcher() {
        stop(SIGKILL);
        fclose(out_);
    }
    nlohmann::json next() {
        char *line = nullptr;
        size_t size = 0;
        nlohmann::json json;
        if (getline(&line, &size, out_) > 0) {
            json = nlohmann::json::parse(line, nullptr, false);
        }
        free(line);
        EXPECT_TRUE(json.is_object());
        return json.is_object()
                   ? json
                   : nlohmann::json{
                         {"event", ""},
                         {"entry", {{"number", 0}, {"failed_at", ""}, {"rows", nlohmann::json::array()}}}};
    }
    int stop(int signal) {
        int status = 0;
        if (pid_ > 0) {
            kill(pid_, signal);
            waitpid(pid_, &status, 0);
            pid_ = 0;
        }
        return status;
    }

private:
    pid_t pid_ = 0;
    FILE *out_ = nullptr;
};

TEST_F(CliCommandTest, WatchSurvivesBadEditsAndReverts) {
    auto save = [&](const std::string &text) {
        write("a.sched~", text);
        fs::rename(path("a.sched~"), path("a.sched"));
    };
    save(good_chain);
    Watcher watcher(folder.path(),
                    {"watch", "chain_relu", "--schedule", "a.sched", "--work", "n67", "--json"});
    nlohmann::json event = watcher.next();
    EXPECT_EQ(event["event"], "trial");
    EXPECT_EQ(event["ok"], true) << event.dump(1);
    EXPECT_EQ(event["entry"]["rows"].size(), 1u);

    save("schedule a { op");
    event = watcher.next();
    EXPECT_EQ(event["entry"]["failed_at"], "check");

    std::string bad = good_chain;
    bad.replace(bad.find("parallel(io)"), 12, "parallel(zz)");
    save(bad);
    event = watcher.next();
    EXPECT_EQ(event["entry"]["failed_at"], "check");
    EXPECT_EQ(event["diagnostics"][0]["line"], 6);

    fs::remove(path("a.sched"));
    EXPECT_EQ(watcher.next()["event"], "gone");
    std::string better = good_chain;
    better.replace(better.find("{8, 16}"), 7, "{16, 8}");
    save(better);
    event = watcher.next();
    EXPECT_EQ(event["ok"], true) << event.dump(1);
    EXPECT_EQ(event["previous"], 1);
    EXPECT_GT(event["entry"]["rows"][0]["gain"], 0) << "timed by turns with the last good one";

    // Another process puts the first one back; the watcher sees it.
    CliRun run = kiln({"watch", "chain_relu", "--schedule", "a.sched", "--history"});
    EXPECT_NE(run.out.find("#2    "), std::string::npos) << run.out;
    run = kiln({"watch", "chain_relu", "--schedule", "a.sched", "--revert", "1"});
    EXPECT_EQ(run.code, 0) << run.err;
    EXPECT_EQ(read("a.sched"), good_chain);
    EXPECT_EQ(watcher.next()["same_text_as"], 1);

    int status = watcher.stop(SIGINT);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 130) << status;
}

TEST_F(CliCommandTest, InterruptedBuildLeavesNothing) {
    {
        Watcher build(folder.path(), {"build", "attention", "-o", "out", "--json"});
        std::this_thread::sleep_for(std::chrono::milliseconds(150));
        int status = build.stop(SIGINT);
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 130) << status;
    }
    EXPECT_TRUE(!fs::exists(path("out")) || fs::is_empty(path("out")));
}

} // namespace
