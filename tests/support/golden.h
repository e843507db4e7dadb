/** \file
 * Files with expected text. With KILN_UPDATE_GOLDEN=1 in the environment the tests write them instead.
 */
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace kiln::test {

inline std::string read_file(const std::filesystem::path &path) {
    std::ifstream in(path, std::ios::binary);
    std::stringstream out;
    out << in.rdbuf();
    return out.str();
}

/// Compares `actual` with the file, or writes it there.
inline void expect_golden(const std::filesystem::path &path, const std::string &actual) {
    if (std::getenv("KILN_UPDATE_GOLDEN")) {
        std::ofstream(path, std::ios::binary) << actual;
        return;
    }
    EXPECT_TRUE(std::filesystem::exists(path)) << path << " is missing; KILN_UPDATE_GOLDEN=1 writes it";
    EXPECT_EQ(read_file(path), actual) << path;
}

} // namespace kiln::test
