// Every fault that the checker finds, with its whole message: check/K….sched and the text expected of it beside.
// KILN_UPDATE_GOLDEN=1 rewrites the texts; read the difference before it is committed.
#include "tests/correctness/schedule_apply_pipelines.h"
#include "tests/correctness/tile_programs.h"

#include "dsl/schedule/Canonical.h"
#include "dsl/schedule/CheckSchedule.h"
#include "dsl/schedule/Parser.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

namespace kiln::test {
namespace {

namespace fs = std::filesystem;

const fs::path folder = fs::path(KILN_SOURCE_DIR) / "tests/error/check";

std::string read(const fs::path &path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<fs::path> files(const fs::path &in, const std::string &extension) {
    std::vector<fs::path> out;
    for (const auto &entry : fs::directory_iterator(in)) {
        if (entry.path().extension() == extension) {
            out.push_back(entry.path());
        }
    }
    std::sort(out.begin(), out.end());
    return out;
}

/// `// pipeline: matmul`
std::string header(const std::string &text, const std::string &key) {
    std::smatch found;
    return std::regex_search(text, found, std::regex("// " + key + ": (.*)")) ? found[1].str() : "";
}

std::string report(const fs::path &path) {
    std::string text = read(path);
    const std::string program = header(text, "tile program");
    Target target = Target::parse(header(text, "target"));
    ParseResult parsed = parse_schedules(text, path.filename());
    if (!parsed.ok()) {
        return render_all(parsed.diagnostics, text);
    }
    CanonicalResult canonical = canonicalize(parsed.schedules.at(0));
    PipelineInfo info;
    if (!program.empty()) {
        info = describe_pipeline(tile::tile_program(program).outputs, program);
    } else {
        const TestPipeline &pipeline = small_pipeline(header(text, "pipeline"));
        info = describe_pipeline(pipeline.build(), pipeline.name);
    }
    std::vector<Diagnostic> all = canonical.diagnostics;
    for (const Diagnostic &d :
         check_schedule(canonical.schedule, info, target, limits_of(target), canonical.damaged)) {
        all.push_back(d);
    }
    return render_all(all, text);
}

class CheckErrorTest : public testing::TestWithParam<fs::path> {};

TEST_P(CheckErrorTest, SaysWhatIsExpected) {
    fs::path expected = GetParam();
    expected.replace_extension(".txt");
    std::string got = report(GetParam());
    if (std::getenv("KILN_UPDATE_GOLDEN")) {
        std::ofstream(expected) << got;
    }
    EXPECT_EQ(read(expected), got);
    std::string code = GetParam().stem().string().substr(0, 5);
    EXPECT_NE(got.find("[" + code + "]"), std::string::npos) << "the file's own code does not come up\n"
                                                             << got;
}

INSTANTIATE_TEST_SUITE_P(Files, CheckErrorTest, testing::ValuesIn(files(folder, ".sched")),
                         [](const auto &info) { return info.param.stem().string(); });

TEST(CheckErrors, EveryCodeOfTheCheckerHasATest) {
    std::set<std::string> used, tested;
    std::regex code("K0[1-4][0-9][0-9]|K11[78][0-9]");
    auto collect = [&](const std::string &text, std::set<std::string> &into) {
        for (auto it = std::sregex_iterator(text.begin(), text.end(), code); it != std::sregex_iterator();
             ++it) {
            into.insert(it->str());
        }
    };
    for (const fs::path &path : files(fs::path(KILN_SOURCE_DIR) / "dsl/schedule", ".cpp")) {
        if (path.filename().string().starts_with("Check")) {
            collect(read(path), used);
        }
    }
    for (const fs::path &path : files(folder, ".txt")) {
        collect(read(path), tested);
    }
    for (const std::string &c : used) {
        EXPECT_TRUE(tested.count(c)) << c << " has no test";
    }
}

} // namespace
} // namespace kiln::test
