/** \file
 * Runs build/bin/kiln for tests, with a cache of its own.
 */
#pragma once

#include "dsl/support/Files.h"
#include "dsl/support/Process.h"

#include <nlohmann/json.hpp>

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace kiln::test {

struct CliRun {
    int code = -1;
    std::string out, err;
    nlohmann::json json() const {
        nlohmann::json parsed = nlohmann::json::parse(out, nullptr, false);
        EXPECT_FALSE(parsed.is_discarded()) << "stdout is not one JSON document:\n" << out;
        return parsed;
    }
};

/// A folder to run in; the program's cache is inside.
class CliTest : public ::testing::Test {
protected:
    CliRun kiln(std::vector<std::string> args, std::map<std::string, std::string> environment = {}) {
        ProcessRequest request;
        request.argv = {KILN_BINARY_DIR "/bin/kiln"};
        request.argv.insert(request.argv.end(), args.begin(), args.end());
        request.cwd = folder.path();
        request.environment = std::move(environment);
        request.environment.emplace("KILN_CACHE_DIR", (folder.path() / "cache").string());
        request.limits.timeout_s = 120;
        ProcessResult result = run_process(request);
        EXPECT_EQ(result.end, ProcessResult::End::Exited) << result.err;
        return {result.code, result.out, result.err};
    }

    std::string path(const std::string &name) const { return (folder.path() / name).string(); }
    void write(const std::string &name, const std::string &text) { std::ofstream(path(name)) << text; }
    std::string read(const std::string &name) const {
        std::ostringstream text;
        text << std::ifstream(path(name)).rdbuf();
        return text.str();
    }

    TemporaryFolder folder;
};

inline constexpr const char *good_chain = "schedule by_hand {\n"
                                          "  op chain_relu\n"
                                          "  target cpu avx2\n"
                                          "  knob lanes in {8, 16}\n"
                                          "\n"
                                          "  y.split(i, io, ii, lanes).vectorize(ii).parallel(io);\n"
                                          "}\n";

} // namespace kiln::test
