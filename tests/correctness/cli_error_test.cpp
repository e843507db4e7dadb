// What `kiln` says to a wrong command line or file: the full message and the exit code of each.
#include "cli_run.h"

#include <filesystem>

using namespace kiln::test;
namespace fs = std::filesystem;

namespace {

class CliErrorTest : public CliTest {
protected:
    void expect(std::vector<std::string> args, int code, const std::string &message) {
        CliRun run = kiln(args);
        EXPECT_EQ(run.code, code) << run.err;
        EXPECT_EQ(run.err, message);
        EXPECT_EQ(run.out, "");
        // The same as JSON, in one document, and nothing on stderr.
        args.push_back("--json");
        run = kiln(args);
        EXPECT_EQ(run.code, code);
        EXPECT_EQ(run.err, "");
        nlohmann::json json = run.json();
        EXPECT_EQ(json["ok"], false);
        EXPECT_EQ(json["exit_code"], code);
        ASSERT_FALSE(json["diagnostics"].empty());
        std::string head = "error[" + json["diagnostics"][0]["code"].get<std::string>() +
                           "]: " + json["diagnostics"][0]["message"].get<std::string>();
        EXPECT_EQ(message.substr(0, head.size()), head);
    }
};

const std::string commands = "new, list, build, schedule, check, bench, watch, tune, db, model, explain, "
                             "device, cache, completion, help";

TEST_F(CliErrorTest, UnknownCommand) {
    expect({"lsit"}, 2,
           "error[K0920]: `kiln` has no command `lsit`\n   = note: its commands: " + commands +
               "\n   = help: did you mean `list`?\n");
    expect({"schedule", "pritn"}, 2,
           "error[K0920]: `kiln schedule` has no command `pritn`\n"
           "   = note: its commands: check, print, diff, doc\n   = help: did you mean `print`?\n");
    for (std::vector<std::string> line :
         {std::vector<std::string>{"schedule", "pritn", "--help"}, {"help", "schedule", "pritn"}}) {
        expect(line, 2,
               "error[K0920]: `kiln schedule` has no command `pritn`\n"
               "   = note: its commands: check, print, diff, doc\n   = help: did you mean `print`?\n");
    }
    expect({"help", "lsit"}, 2,
           "error[K0920]: `kiln` has no command `lsit`\n   = note: its commands: " + commands +
               "\n   = help: did you mean `list`?\n");
}

TEST_F(CliErrorTest, UnknownOption) {
    expect({"list", "--prama", "x"}, 2,
           "error[K0921]: `kiln list` has no option `--prama`\n   = help: did you mean `--param`?\n");
    expect({"list", "--zzzzz"}, 2,
           "error[K0921]: `kiln list` has no option `--zzzzz`\n   = help: `kiln list --help` lists what it "
           "takes\n");
}

TEST_F(CliErrorTest, MissingWords) {
    expect({}, 2, "error[K0922]: `kiln` needs a command\n   = help: one of: " + commands + "\n");
    expect({"cache"}, 2, "error[K0922]: `kiln cache` needs a command\n   = help: one of: show, clear\n");
    expect({"build", "gemm"}, 2,
           "error[K0922]: `kiln build` needs `--output DIR`\n"
           "   = help: --output: The folder for the three files\n");
}

TEST_F(CliErrorTest, WrongValues) {
    write("a.sched", good_chain);
    expect({"schedule", "print", "a.sched", "--as", "lisp"}, 2,
           "error[K0923]: option `--as` does not take `lisp`\n   = note: it takes text|kiln|halide\n");
    expect({"watch", "chain_relu", "--schedule", "a.sched", "--revert", "two"}, 2,
           "error[K0923]: option `--revert` does not take `two`\n   = note: it takes N\n");
    expect({"build", "chain_relu", "-o", "out", "--param", "type"}, 2,
           "error[K0923]: option `--param` does not take `type`\n   = help: write `--param NAME=VALUE`\n");
    expect({"build", "chain_relu", "-o", "out", "--when", "x > 3"}, 2,
           "error[K0923]: option `--when` does not take `x > 3`\n"
           "   = help: write `x.extent(0) >= 64`, `x.extent(0) <= 8`, `x.extent(0) % 16 == 0`, "
           "`x.stride(1) % 4 == 0`, `x.aligned(16)`, `device.is(gpu)` or `device.vector(16)`\n");
    expect({"build", "chain_relu", "-o", "out", "--when", "device.is(gpux)"}, 2,
           "error[K0923]: option `--when` does not take `device.is(gpux)`\n"
           "   = note: `gpux` of `device.is(gpux)` is no kind of device\n"
           "   = note: OpenCL's kinds are `cpu`, `gpu`, `accelerator`\n   = help: did you mean `gpu`?\n");
}

TEST_F(CliErrorTest, WordsTooMany) {
    expect({"schedule", "doc", "split"}, 2,
           "error[K0924]: `kiln schedule doc` has no use for `split`\n"
           "   = help: `kiln schedule doc --help` lists what it takes\n");
}

TEST_F(CliErrorTest, Files) {
    write("a.sched", good_chain);
    expect({"schedule", "check", "b.sched"}, 1,
           "error[K0930]: no file `b.sched`\n   = help: did you mean `a.sched`?\n");
    expect({"schedule", "check", "."}, 1, "error[K0931]: `.` is a folder, not a schedule file\n");
    fs::create_symlink("loop", path("loop"));
    expect({"schedule", "print", "loop"}, 1,
           "error[K0932]: cannot read `loop`: Too many levels of symbolic links\n");
    write("binary", std::string("a\0", 2));
    expect({"schedule", "diff", "a.sched", "binary"}, 1,
           "error[K0933]: `binary` is not text: byte 1 is zero\n   = help: a schedule is a text file in "
           "UTF-8\n");
    write("empty", "");
    expect({"schedule", "check", "empty"}, 1,
           "error[K0014]: the file has no schedule\n --> empty:1:1\n"
           "  = help: write `schedule name { op generator … }`\n");
    expect({"watch", "chain_relu", "--schedule", "none.sched"}, 1, "error[K0930]: no file `none.sched`\n");
}

TEST_F(CliErrorTest, Generators) {
    CliRun run = kiln({"build", "gem", "--target", "cpu", "-o", "out"});
    EXPECT_EQ(run.code, 1);
    EXPECT_EQ(run.err.substr(0, run.err.find('\n')), "error[K1015]: no generator `gem`");
    EXPECT_NE(run.err.find("   = help: did you mean `gemm`?\n"), std::string::npos) << run.err;
    expect({"list", "chain_relu", "--param", "tpye=float32"}, 1,
           "error[K1016]: the generator `chain_relu` has no parameter `tpye`\n   = note: parameters: type\n"
           "   = help: did you mean `type`?\n");
    expect({"list", "chain_relu", "--param", "type=floaty"}, 1,
           "error[K1017]: parameter `type` of `chain_relu` does not take `floaty`\n   = note: it is of type "
           "type\n   = help: write a type: `float32`, `bfloat16`, `float16`, `int8`, `uint16`\n");
    run = kiln({"check", "gemm", "--target", "cpu", "--work", "zzzzzzzzzz"});
    EXPECT_EQ(run.code, 1);
    EXPECT_EQ(run.out.find("WRONG"), std::string::npos) << run.out;
    EXPECT_NE(run.err.find(
                  "   = help: take one of these, or give `kiln bench` and `kiln tune` the extents of every "
                  "buffer: `--shape x=512x256`\n"),
              std::string::npos)
        << run.err;
    expect({"list", "--load", "libnone.so"}, 1,
           "error[K1012]: cannot load `libnone.so`: No such file or directory\n");
    write("text.so", "no object at all, but some text that is long enough to hold a header");
    expect({"list", "--load", "text.so"}, 1,
           "error[K1012]: cannot load `text.so`: invalid ELF header\n"
           "   = help: it must be a shared object that is linked with libkiln.so; `kiln new` writes a "
           "project for one\n");
    run = kiln({"list"}, {{"KILN_GENERATORS", KILN_BINARY_DIR "/lib/libkiln_runtime.so"}});
    EXPECT_EQ(run.code, 1);
    EXPECT_EQ(run.err,
              "error[K1013]: `" KILN_BINARY_DIR "/lib/libkiln_runtime.so` registers no generator\n"
              "   = help: register one with KILN_GENERATOR(Class, name, {…}) (dsl/generator/Generator.h)\n");
}

TEST_F(CliErrorTest, NoGenerators) {
    // A copy of the program that stands alone would look beside itself; so does this, through the variable.
    CliRun run = kiln({"list"}, {{"KILN_GENERATORS", "/none.so"}});
    EXPECT_EQ(run.code, 1);
    EXPECT_EQ(run.err, "error[K1012]: cannot load `/none.so`: No such file or directory\n");
}

TEST_F(CliErrorTest, New) {
    expect({"new", "My-Kernel"}, 1,
           "error[K0937]: `My-Kernel` cannot be the name of a generator\n"
           "   = help: take small letters, digits and single `_`, a letter first, at most 64 of them\n");
    expect({"new", "double"}, 1,
           "error[K0937]: `double` cannot be the name of a generator: C++ or CMake keep it for themselves\n"
           "   = help: add a word: `double_kernel`\n");
    expect({"new", "mine", "--in", "nowhere"}, 1,
           "error[K0930]: no folder `nowhere`\n   = help: make it first\n");
    fs::create_directory(path("taken"));
    expect({"new", "taken"}, 1,
           "error[K0936]: `taken` is there already\n"
           "   = help: take another name, or move it away: nothing is overwritten\n");
}

TEST_F(CliErrorTest, Revert) {
    write("a.sched", good_chain);
    expect({"watch", "chain_relu", "-s", "a.sched", "--revert", "3"}, 1,
           "error[K0950]: `a.sched` has no try number 3\n"
           "   = note: nothing was tried yet with this generator, target and parameters\n");
}

TEST_F(CliErrorTest, FaultsOfASchedulePointAtTheirLine) {
    write("a.sched", "schedule a {\n  op chain_relu\n  target cpu\n\n  y.vectorise(i, 8).parallel(j);\n}\n");
    CliRun run = kiln({"schedule", "check", "a.sched"});
    EXPECT_EQ(run.code, 1);
    EXPECT_EQ(run.out, "");
    EXPECT_NE(run.err.find(" --> a.sched:5:5\n  |\n5 |   y.vectorise(i, 8).parallel(j);\n  |     ^^^^^^^^^"),
              std::string::npos)
        << run.err;
}

} // namespace
