// Extents that no tile divides: none, one, odd, prime, one more and one less than a tile; padded rows; several
// persistent blocks. First and last stage of the compiler against Halide, integers exactly.
#include "dsl/tile/build/Build.h"
#include "dsl/tile/interpret/Interpret.h"
#include "dsl/tile/ir/Text.h"
#include "dsl/tile/passes/Runner.h"
#include "tests/correctness/tile_reference.h"

#include <gtest/gtest.h>

namespace kiln::tile {
namespace {

struct Sizes {
    const char *program;
    std::vector<Extents> sizes;
    double ulps = 0;
    int persistent = 0;
    std::function<void(TilePlan &)> change = {};
    const char *variant = "";
};

/// y = x w, sizes (m, n, k), with other views of the shape of one row or of y.
std::vector<Extents> products(const char *row = nullptr, const char *full = nullptr) {
    std::vector<Extents> all;
    for (const auto &[m, n, k] : {std::tuple{1, 1, 1},
                                  {0, 5, 7},
                                  {7, 0, 3},
                                  {5, 3, 0},
                                  {127, 61, 67},
                                  {129, 65, 193},
                                  {3, 131, 64},
                                  {257, 8, 63}}) {
        Extents e{{"x", {k, m}}, {"w", {k, n}}, {"y", {n, m}}};
        if (row) {
            e[row] = {n};
        }
        if (full) {
            e[full] = {n, m};
        }
        all.push_back(e);
    }
    return all;
}

std::vector<Extents> rows(const std::vector<std::string> &full, const std::vector<std::string> &row) {
    std::vector<Extents> all;
    for (const auto &[n, m] : {std::pair{1, 1}, {13, 0}, {997, 3}, {1023, 17}}) {
        Extents e;
        for (const std::string &v : full) {
            e[v] = {n, m};
        }
        for (const std::string &v : row) {
            e[v] = {n};
        }
        all.push_back(e);
    }
    return all;
}

std::vector<Extents> attentions() {
    std::vector<Extents> all;
    for (const auto &[queries, keys, heads] :
         {std::tuple{1, 1, 1}, {37, 37, 3}, {129, 65, 1}, {5, 0, 1}, {63, 131, 1}}) {
        all.push_back({{"q", {64, queries, heads}},
                       {"key", {64, keys, heads}},
                       {"value", {64, keys, heads}},
                       {"y", {64, queries, heads}},
                       {"lse", {queries, heads}}});
    }
    return all;
}

class TileSizes : public testing::TestWithParam<Sizes> {};

TEST_P(TileSizes, AgreeWithHalide) {
    Program p = tile_program(GetParam().program);
    p.plan.persistent = GetParam().persistent;
    if (GetParam().change) {
        GetParam().change(p.plan);
    }
    const Kernel first = build_kernel(p.plan, p.outputs);
    const Kernel last = run_passes(first, limits_of(Target::parse("cuda sm_90a")));
    Reference reference(p);
    unsigned seed = 1;
    for (const Extents &size : GetParam().sizes) {
        const Memory inputs = reference.data(size, seed), wanted = reference.outputs(inputs, size);
        for (const Kernel *k : {&first, &last}) {
            Memory memory = inputs;
            const Mode mode{When::Random, When::Random, When::Random, seed++, 3};
            const Outcome out = interpret(*k, memory, mode);
            std::string shape;
            for (const auto &[view, extents] : size) {
                shape += " " + view;
                for (int e : extents) {
                    shape += " " + std::to_string(e);
                }
            }
            ASSERT_EQ(out.fault.empty() ? compare(memory, wanted, GetParam().ulps) : out.fault, "")
                << (k == &first ? "after build:" : "after all passes:") << shape << "\n"
                << print(*k);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Programs, TileSizes,
                         testing::Values(Sizes{"gemm_nt", products()}, Sizes{"gemm_f32", products()},
                                         Sizes{"gemm_f16", products(), 0, 4},
                                         Sizes{"gemm_bias_gelu", products("bias"), 4},
                                         Sizes{"gemm_residual", products(nullptr, "res"), 0, 8},
                                         Sizes{"row_softmax", rows({"x", "y"}, {}), 4},
                                         Sizes{"add_rms_norm", rows({"x", "res", "y", "sum"}, {"gamma"}), 4},
                                         Sizes{"attention", attentions(), 8}),
                         [](const auto &info) { return info.param.program; });

/// Copies come for all blocks of a cluster.
std::function<void(TilePlan &)> cluster(int x, int y) {
    return [=](TilePlan &plan) {
        plan.cluster_x = x;
        plan.cluster_y = y;
        for (auto &[view, copy] : plan.copies) {
            // The programs' first block loop is that of m: along it w(k, n) is the same, and x(k, m) along n.
            copy.multicast = view == "x" ? y > 1 : view == "w" && x > 1;
        }
    };
}

std::function<void(TilePlan &)> ping_pong_cluster(int x, int y) {
    return [=](TilePlan &plan) {
        cluster(x, y)(plan);
        plan.ping_pong = true;
        plan.blocks[1].size = 64;
    };
}

/// The weights' side is that of the instruction's 64 rows: y lies across.
void rows_along_n(TilePlan &plan) {
    for (BlockDim &b : plan.blocks) {
        b.size = b.var == "n" ? 128 : 24;
    }
    plan.rows = "n";
}

INSTANTIATE_TEST_SUITE_P(
    Variants, TileSizes,
    testing::Values(Sizes{"gemm_nt", products(), 0, 0, cluster(2, 1), "cluster_2_1"},
                    Sizes{"gemm_nn", products(), 0, 4, cluster(1, 4), "cluster_1_4"},
                    Sizes{"gemm_residual", products(nullptr, "res"), 0, 8, cluster(2, 2), "cluster_2_2"},
                    Sizes{"gemm_nt", products(), 0, 8, cluster(4, 2), "cluster_4_2"},
                    Sizes{"gemm_tn", products(), 0, 2, ping_pong_cluster(2, 2), "ping_pong_cluster"},
                    Sizes{"gemm_bias_gelu", products("bias"), 4, 0, rows_along_n, "across"},
                    Sizes{"gemm_nn", products(), 0, 4, rows_along_n, "across"}),
    [](const auto &info) { return std::string(info.param.program) + "_" + info.param.variant; });

/// Rows that lie further apart than they are long: what lies between must stay as it is.
TEST(TileStrides, LeaveGapsAlone) {
    Program p = tile_program("gemm_nt");
    const Kernel k = run_passes(build_kernel(p.plan, p.outputs), limits_of(Target::parse("cuda sm_90a")));
    Reference reference(p);
    const Extents size = p.sizes.at(1);
    const Memory dense = reference.data(size), wanted = reference.outputs(dense, size);
    Memory memory;
    for (const auto &[name, a] : dense) {
        Array wide(a.type, a.extents, {1, a.extents[0] + 24});
        for (size_t i = 0; i < wide.bytes.size(); i++) {
            wide.bytes[i] = 0x5b;
        }
        for (int64_t o = 0; o < a.extents[1]; o++) {
            for (int64_t i = 0; i < a.extents[0]; i++) {
                wide.set(wide.offset({i, o}), a.get(a.offset({i, o})));
            }
        }
        memory[name] = std::move(wide);
    }
    const Memory before = memory;
    ASSERT_EQ(interpret(k, memory).fault, "");
    EXPECT_EQ(compare(memory, wanted), "");
    for (const auto &[name, a] : memory) {
        int64_t gaps = 0;
        for (int64_t o = 0; o + 1 < a.extents[1]; o++) {
            for (int64_t i = a.extents[0]; i < a.strides[1]; i++) {
                EXPECT_EQ(a.get(o * a.strides[1] + i), before.at(name).get(o * a.strides[1] + i));
                gaps++;
            }
        }
        EXPECT_GT(gaps, 100);
    }
}

/// The numbers that the cost model and `explain` use, on a case small enough to count by hand.
TEST(TileCounters, CountWhatMoves) {
    Program p = tile_program("gemm_nt");
    const Kernel k = run_passes(build_kernel(p.plan, p.outputs), limits_of(Target::parse("cuda sm_90a")));
    Reference reference(p);
    const Extents size = p.sizes.at(0); // 256 x 128 by 128, in blocks of 128 x 64 by 64
    Memory memory = reference.data(size);
    const Outcome out = interpret(k, memory);
    ASSERT_EQ(out.fault, "");
    const Counters &c = out.counters;
    const int64_t blocks = 2 * 2, steps = 2;
    EXPECT_EQ(c.loaded, blocks * steps * (128 + 64) * 64 * 2);
    EXPECT_EQ(c.tma_stored, 256 * 128 * 2);
    EXPECT_EQ(c.multiply_adds, int64_t(256) * 128 * 128);
    EXPECT_EQ(c.products, blocks * steps * 2 * 4); // two warpgroups, four instructions of 16 along the sum
    EXPECT_EQ(c.waits, blocks * steps * 3);        // the producer and two consumers
    EXPECT_EQ(c.outside_reads, 0);
    // Swizzled staging: no access waits for another.
    EXPECT_EQ(c.shared_writes.bytes, 256 * 128 * 2);
    EXPECT_EQ(c.shared_writes.parts, c.shared_writes.least);
}

/// A view read across its rows: as many sectors as lanes.
TEST(TileCounters, SeeUncoalescedAccess) {
    Kernel k = parse_kernel(R"(kernel t {
  axes i:128, j:8
  rows i
  input x: f32 rank 2
  output y: f32 rank 2
  plan {
    kernel y
    rows i
    warpgroups 1, 0
    registers 0, 0
  }
  layout L0 = threads(i:128) registers(j:8)
  threads 128
  body {
    role consumer warpgroups 1 from 0 threads 128 registers 0 {
      a: f32[i:128, j:8] @L0 = map x[%j, %i]
      global_store y[0 + %j, 0 + %i] = a vector 1
    }
  }
}
)");
    Memory memory{{"x", Array(Halide::Float(32), {8, 128})}, {"y", Array(Halide::Float(32), {8, 128})}};
    const Outcome out = interpret(k, memory);
    ASSERT_EQ(out.fault, "");
    EXPECT_EQ(out.counters.view_reads.requests, 4 * 8);
    EXPECT_EQ(out.counters.view_reads.parts, 4 * 8 * 32); // a sector for each lane
    EXPECT_EQ(out.counters.view_reads.least, 4 * 8 * 4);
    EXPECT_EQ(out.counters.view_writes.parts, 4 * 8 * 32);
}

} // namespace
} // namespace kiln::tile
