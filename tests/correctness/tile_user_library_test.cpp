// Users' generators and schedules (tests/support/user) become libraries as any other: no spill, and no product that waits
// for another.
#include "dsl/lower/BuildLibrary.h"
#include "dsl/support/Files.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace kiln::test {
namespace {

class TileUserLibrary : public ::testing::TestWithParam<const char *> {};

TEST_P(TileUserLibrary, is_built) {
    TemporaryFolder folder;
    BuildRequest r;
    r.generator = GetParam();
    r.load = {std::string(KILN_BINARY_DIR) + "/lib/kiln_user_generators.so"};
    r.output_dir = folder.path();
    VariantRequest tiles, loops;
    tiles.target = Target::parse("cuda sm_90a");
    tiles.schedule_file = std::string(KILN_SOURCE_DIR) + "/tests/support/user/" + GetParam() + ".sched";
    tiles.schedule_text = read_text_file(tiles.schedule_file, "schedule");
    loops.target = Target::parse("cuda");
    r.variants = {tiles, loops};
    const BuildResult built = build_library(r);
    ASSERT_TRUE(built.ok) << render_all(built.diagnostics, "");
    const nlohmann::json json = nlohmann::json::parse(read_text_file(built.json, "description"));
    const nlohmann::json &tile = json.at("variants").at(0).at("tile_kernels").at(0);
    EXPECT_EQ(tile.at("spill_bytes"), 0);
    EXPECT_EQ(tile.at("func"), "y");
}

INSTANTIATE_TEST_SUITE_P(All, TileUserLibrary,
                         ::testing::Values("user_dequantized", "user_two_outputs", "user_row_statistics",
                                           "user_product_of_product", "user_log_softmax", "user_complex",
                                           "user_four_bits", "user_outer_product"),
                         [](const auto &info) { return std::string(info.param); });

} // namespace
} // namespace kiln::test
