// Every fault of the language and of knobs, with its full message: parse/NAME.sched and beside it parse/NAME.txt.
// A first line `//! knobs bm=7` gives values to knobs.
#include "dsl/schedule/Canonical.h"
#include "dsl/schedule/Parser.h"
#include "tests/support/golden.h"

#include <regex>
#include <set>

namespace kiln::test {
namespace {

namespace fs = std::filesystem;

const fs::path root = KILN_SOURCE_DIR;

std::vector<fs::path> files_in(const fs::path &folder, const std::string &extension) {
    std::vector<fs::path> out;
    for (const auto &entry : fs::recursive_directory_iterator(folder)) {
        if (entry.path().extension() == extension) {
            out.push_back(entry.path());
        }
    }
    std::sort(out.begin(), out.end());
    return out;
}

KnobValues knobs_of(const std::string &text) {
    KnobValues out;
    std::smatch match;
    std::string first = text.substr(0, text.find('\n'));
    std::regex value("(\\w+)=(\\S+)");
    if (first.rfind("//! knobs ", 0) == 0) {
        for (std::sregex_iterator it(first.begin(), first.end(), value), end; it != end; ++it) {
            out[(*it)[1]] = (*it)[2];
        }
    }
    return out;
}

std::string messages(const std::string &text, const std::string &name) {
    ParseResult parsed = parse_schedules(text, name);
    std::vector<Diagnostic> all = parsed.diagnostics;
    for (const Schedule &s : parsed.schedules) {
        CanonicalResult result = canonicalize(s, knobs_of(text));
        all.insert(all.end(), result.diagnostics.begin(), result.diagnostics.end());
    }
    return render_all(all, *parsed.source);
}

TEST(ParseErrors, full_messages) {
    std::vector<fs::path> cases = files_in(root / "tests/error/parse", ".sched");
    EXPECT_GE(cases.size(), 40u);
    for (const fs::path &path : cases) {
        std::string actual = messages(read_file(path), path.filename());
        EXPECT_NE(actual, "") << path << " has no fault";
        expect_golden(fs::path(path).replace_extension(".txt"), actual);
    }
}

// A case named after a code shows that code.
TEST(ParseErrors, names) {
    for (const fs::path &path : files_in(root / "tests/error/parse", ".txt")) {
        std::string code = path.stem().string().substr(0, 5);
        EXPECT_NE(read_file(path).find("[" + code + "]"), std::string::npos) << path;
    }
}

TEST(ParseErrors, every_code_has_a_case) {
    std::set<std::string> used, shown;
    std::regex quoted("\"(K0[06][0-9][0-9])\""), bracketed("\\[(K[0-9]{4})\\]");
    for (const fs::path &path : files_in(root / "dsl/schedule", ".cpp")) {
        std::string source = read_file(path);
        for (std::sregex_iterator it(source.begin(), source.end(), quoted), end; it != end; ++it) {
            used.insert((*it)[1]);
        }
    }
    for (const fs::path &path : files_in(root / "tests/error/parse", ".txt")) {
        std::string text = read_file(path);
        for (std::sregex_iterator it(text.begin(), text.end(), bracketed), end; it != end; ++it) {
            shown.insert((*it)[1]);
        }
    }
    EXPECT_GE(used.size(), 30u);
    for (const std::string &code : used) {
        bool is_below = code == "K0019" || code == "K0040"; // K0040: of a printer, tested beside it
        EXPECT_TRUE(shown.count(code) || is_below) << code << " has no case in tests/error/parse";
    }
}

TEST(ParseErrors, file_too_large) {
    EXPECT_EQ(messages(std::string((size_t(4) << 20) + 1, ' '), "large.sched"),
              "error[K0019]: the file has 4194305 bytes, a schedule file at most 4194304\n"
              "  --> large.sched\n"
              "\n"
              "1 error, 0 warnings\n");
}

TEST(ParseErrors, too_many_faults) {
    std::string text = "schedule s {\n";
    for (int i = 0; i < 200; i++) {
        text += "  y.f(8 9);\n";
    }
    ParseResult parsed = parse_schedules(text + "}\n", "many.sched");
    ASSERT_EQ(parsed.diagnostics.size(), 101u);
    EXPECT_EQ(render(parsed.diagnostics.back(), *parsed.source),
              "error[K0019]: too many faults, the rest of the file was not read\n"
              "   --> many.sched:101:9\n"
              "    |\n"
              "101 |   y.f(8 9);\n"
              "    |         ^\n");
}

// Bytes that cannot be read are limited too, and are no burden for what comes after.
TEST(ParseErrors, noise) {
    ParseResult parsed = parse_schedules(std::string(100000, '@'), "noise.sched");
    EXPECT_LE(parsed.diagnostics.size(), 102u);
}

} // namespace
} // namespace kiln::test
