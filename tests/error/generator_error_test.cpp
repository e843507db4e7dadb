// What `kiln` says of shared objects of generators that are missing or misbehave: the whole messages.
#include "tests/correctness/cli_run.h"

#include <filesystem>

namespace kiln::test {
namespace {

namespace fs = std::filesystem;

const std::string lib = KILN_BINARY_DIR "/lib/";

class GeneratorErrors : public CliTest {
protected:
    void expect(const std::vector<std::string> &args, int code, const std::string &message) {
        CliRun run = kiln(args);
        EXPECT_EQ(run.code, code);
        EXPECT_EQ(run.err, message);
    }
};

TEST_F(GeneratorErrors, K1011OwnGeneratorsAreMissing) {
    // The program and its library moved away together, without the generators.
    fs::create_directories(path("bin"));
    fs::create_directories(path("lib"));
    fs::copy_file(KILN_BINARY_DIR "/bin/kiln", path("bin/kiln"));
    fs::copy_file(lib + "libkiln.so", path("lib/libkiln.so"));
    ProcessRequest request;
    request.argv = {path("bin/kiln"), "list"};
    request.environment = {{"LD_PRELOAD", path("lib/libkiln.so")}, {"KILN_GENERATORS", ""}};
    request.limits.timeout_s = 60;
    ProcessResult result = run_process(request);
    EXPECT_EQ(result.code, 1);
    EXPECT_EQ(
        result.err,
        "error[K1011]: Kiln's own generators are not there: no file `" + path("lib/kiln_generators.so") +
            "`\n   = help: build the target `kiln_generators`, or name the object in KILN_GENERATORS\n");
}

TEST_F(GeneratorErrors, K1014FailsWhileLoaded) {
    std::string aborts = lib + "faulty_aborts.so", twice = lib + "faulty_twice.so";
    expect({"list", "--load", aborts}, 1,
           "error[K1014]: `" + aborts +
               "` crashed: Aborted while it was loaded\n   = note: no licence for this generator\n");
    expect({"list", "--load", twice}, 1,
           "error[K1014]: `" + twice +
               "` fails while it is loaded: Error: Duplicate Generator name: copy_of_x\n");
}

TEST_F(GeneratorErrors, K1018RefusedByHalide) {
    expect({"list", "test_refused", "--load", lib + "kiln_test_generators.so"}, 1,
           "error[K1018]: Halide refuses the generator `test_refused`\n"
           "   = note: Error: this generator is never satisfied\n");
}

TEST_F(GeneratorErrors, K1019Replaced) {
    std::string replaces = lib + "faulty_replaces.so";
    expect({"list", "--load", replaces}, 0,
           "warning[K1019]: `" + replaces + "` replaces the generator `chain_relu` that was loaded before\n");
}

} // namespace
} // namespace kiln::test
