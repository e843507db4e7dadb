// Layouts over every coordinate, against statements of their own: the figures of the PTX ISA and of the CUDA
// programming guide, written out.
#include "dsl/tile/ir/Layout.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <tuple>

namespace kiln::tile {
namespace {

/// Each coordinate of rows x cols by exactly one register of exactly one thread.
void expect_bijection(const RegisterLayout &l, int rows, int cols) {
    std::set<std::pair<int, int>> seen;
    for (int t = 0; t < l.thread_count(); t++) {
        for (int r = 0; r < l.register_count(); r++) {
            const std::pair<int, int> at{l.coordinate("i", t, r), l.coordinate("j", t, r)};
            ASSERT_TRUE(at.first >= 0 && at.first < rows && at.second >= 0 && at.second < cols) << l.str();
            ASSERT_TRUE(seen.insert(at).second)
                << l.str() << " holds (" << at.first << ", " << at.second << ") twice";
        }
    }
    EXPECT_EQ(seen.size(), size_t(rows) * size_t(cols));
}

/// PTX ISA, "Asynchronous warpgroup-level matrix instructions", figure of the D fragment of m64nN: warp w of the group
/// holds rows 16w to 16w + 15; lane l holds rows l/4 and l/4 + 8 of them, and in each group of eight columns two at
/// 2(l mod 4); d0 and d1 lie in the upper row, d2 and d3 in the lower.
TEST(TileLayout, WgmmaFragment) {
    for (const auto &[rows, cols, groups] : {std::tuple{64, 8, 1},
                                             {64, 256, 1},
                                             {128, 64, 2},
                                             {128, 64, 1},
                                             {384, 16, 3},
                                             {256, 128, 2},
                                             {64, 24, 1}}) {
        const RegisterLayout l = wgmma_fragment("i", rows, "j", cols, groups);
        ASSERT_EQ(l.thread_count(), 128 * groups);
        ASSERT_EQ(l.register_count(), rows * cols / (128 * groups));
        expect_bijection(l, rows, cols);
        const int band = rows / groups, per = cols / 2; // registers of one instruction of 64 rows
        for (int t = 0; t < l.thread_count(); t++) {
            for (int r = 0; r < l.register_count(); r++) {
                const int group = t / 128, warp = t % 128 / 32, lane = t % 32, instruction = r / per,
                          d = r % per;
                const int row = group * band + 64 * instruction + 16 * warp + lane / 4 + (d % 4 >= 2 ? 8 : 0);
                const int col = d / 4 * 8 + lane % 4 * 2 + d % 2;
                ASSERT_EQ(l.coordinate("i", t, r), row) << l.str() << " thread " << t << " register " << r;
                ASSERT_EQ(l.coordinate("j", t, r), col) << l.str() << " thread " << t << " register " << r;
            }
        }
    }
}

/// The same rows for two tiles of other widths: a map reads an accumulator of one and an operand of the other.
TEST(TileLayout, WgmmaFragmentsShareRows) {
    const RegisterLayout narrow = wgmma_fragment("i", 128, "j", 16, 2),
                         wide = wgmma_fragment("i", 128, "j", 256, 2);
    for (int t = 0; t < narrow.thread_count(); t++) {
        std::set<int> a, b;
        for (int r = 0; r < narrow.register_count(); r++) {
            a.insert(narrow.coordinate("i", t, r));
        }
        for (int r = 0; r < wide.register_count(); r++) {
            b.insert(wide.coordinate("i", t, r));
        }
        EXPECT_EQ(a, b);
    }
}

/// What a warp reads of both operands at once: few different rows, and those of any 8 neighbours in other banks where the 16-byte
/// chunks of 8 rows behind one another are swizzled apart.
TEST(TileLayout, FmaFragment) {
    for (const auto &[rows, cols, groups] : {std::tuple{256, 128, 2}, {128, 64, 1}, {64, 16, 2}}) {
        const RegisterLayout l = fma_fragment("i", rows, "j", cols, groups);
        ASSERT_EQ(l.thread_count(), 128 * groups);
        expect_bijection(l, rows, cols);
        for (int r = 0; r < l.register_count(); r++) {
            for (int t = 0; t < l.thread_count(); t += 8) {
                for (const char *axis : {"i", "j"}) {
                    std::set<int> read, chunks;
                    for (int lane = 0; lane < 8; lane++) {
                        read.insert(l.coordinate(axis, t + lane, r));
                        chunks.insert(l.coordinate(axis, t + lane, r) % 8);
                    }
                    EXPECT_EQ(read.size(), chunks.size());
                }
            }
            for (int warp = 0; warp < l.thread_count(); warp += 32) {
                std::set<int> is, js;
                for (int t = warp; t < warp + 32; t++) {
                    is.insert(l.coordinate("i", t, r));
                    js.insert(l.coordinate("j", t, r));
                }
                EXPECT_EQ(is.size() + js.size(), 12u);
            }
        }
    }
}

TEST(TileLayout, RowMajorThreads) {
    for (const auto &[rows, cols, warps, vector] : {std::tuple{16, 1024, 8, 4},
                                                    {8, 256, 8, 8},
                                                    {4, 1024, 8, 2},
                                                    {1, 4096, 8, 8},
                                                    {32, 64, 4, 2},
                                                    {8, 32, 8, 1}}) {
        const RegisterLayout l = row_major_threads("i", rows, "j", cols, warps, vector);
        ASSERT_EQ(l.thread_count(), 32 * warps);
        expect_bijection(l, rows, cols);
        const int across = rows < warps ? warps / rows : 1; // warps on one row
        for (int t = 0; t < l.thread_count(); t++) {
            std::set<int> own_rows;
            for (int r = 0; r < l.register_count(); r++) {
                const int row = l.coordinate("i", t, r), col = l.coordinate("j", t, r);
                own_rows.insert(row);
                // Neighbours in a thread, then threads next to each other, then again from the left.
                ASSERT_EQ(col % vector, r % vector);
                ASSERT_EQ(col / vector % (32 * across), t % (32 * across));
            }
            const int first = t / (32 * across) * (rows * across / warps);
            EXPECT_EQ(*own_rows.begin(), first);
            EXPECT_EQ(int(own_rows.size()), rows * across / warps);
        }
    }
}

/// What a reduction leaves: every thread keeps its rows, and threads that shared a row hold copies.
TEST(TileLayout, WithoutAnAxis) {
    for (const RegisterLayout &full :
         {wgmma_fragment("i", 128, "j", 64, 2), row_major_threads("i", 8, "j", 256, 8, 8),
          row_major_threads("i", 2, "j", 1024, 8, 4)}) {
        const RegisterLayout left = full.without("j"), rest = full.without("i");
        EXPECT_FALSE(left.has("j"));
        EXPECT_EQ(left.thread_count(), full.thread_count());
        std::map<int, int> holders;
        for (int t = 0; t < full.thread_count(); t++) {
            std::set<int> before, after;
            for (int r = 0; r < full.register_count(); r++) {
                before.insert(full.coordinate("i", t, r));
            }
            for (int r = 0; r < left.register_count(); r++) {
                EXPECT_TRUE(after.insert(left.coordinate("i", t, r)).second);
                holders[left.coordinate("i", t, r)]++;
                EXPECT_EQ(left.coordinate("j", t, r), 0);
            }
            EXPECT_EQ(before, after);
        }
        for (const auto &[row, count] : holders) {
            EXPECT_EQ(count, holders.begin()->second);
        }
        EXPECT_EQ(left.register_count() * rest.register_count(), full.register_count());
        EXPECT_EQ(left.without("i").register_count(), 1);
    }
}

SharedLayout box(int inner, int outer, int bytes, int span) {
    SharedLayout l;
    l.inner = "j";
    l.outer = "i";
    l.inner_extent = inner;
    l.outer_extent = outer;
    l.element_bytes = bytes;
    l.slab = span ? span / bytes : inner;
    l.pitch = l.slab * bytes;
    l.swizzle = span;
    return l;
}

/// CUDA programming guide, "Tensor swizzle modes": rows of the span's width; the 16-byte chunk c of row r goes to c ^ (r mod
/// 8) for 128 bytes, c ^ (r/2 mod 4) for 64 and c ^ (r/4 mod 2) for 32.
TEST(TileLayout, SharedAddresses) {
    for (const auto &[inner, outer, bytes, span] : {std::tuple{64, 128, 2, 128},
                                                    {128, 64, 2, 128},
                                                    {32, 16, 4, 128},
                                                    {32, 40, 2, 64},
                                                    {64, 8, 2, 64},
                                                    {16, 64, 2, 32},
                                                    {48, 24, 2, 32},
                                                    {24, 16, 2, 0},
                                                    {256, 3, 1, 128}}) {
        const SharedLayout l = box(inner, outer, bytes, span);
        ASSERT_EQ(l.bytes(), inner * outer * bytes);
        std::set<int> seen;
        for (int o = 0; o < outer; o++) {
            for (int i = 0; i < inner; i++) {
                const int slab = i / l.slab, in_row = i % l.slab * bytes;
                const int row = slab * outer + o; // slabs lie behind each other
                int chunk = in_row / 16;
                if (span == 128) {
                    chunk ^= row % 8;
                } else if (span == 64) {
                    chunk ^= row / 2 % 4;
                } else if (span == 32) {
                    chunk ^= row / 4 % 2;
                }
                const int at = l.address(i, o);
                ASSERT_EQ(at, row * l.pitch + chunk * 16 + in_row % 16)
                    << l.str() << " (" << i << ", " << o << ")";
                ASSERT_TRUE(at >= 0 && at + bytes <= l.bytes());
                ASSERT_TRUE(seen.insert(at).second);
            }
        }
    }
}

/// What the swizzle is for: eight rows of one 16-byte column hit eight different groups of banks.
TEST(TileLayout, SwizzleSpreadsColumns) {
    const SharedLayout l = box(64, 64, 2, 128);
    for (int i = 0; i < 64; i += 8) {
        for (int o = 0; o < 64; o += 8) {
            std::set<int> groups;
            for (int r = 0; r < 8; r++) {
                groups.insert(l.address(i, o + r) / 16 % 8);
            }
            EXPECT_EQ(groups.size(), 8u);
        }
    }
}

} // namespace
} // namespace kiln::tile
