/** \file
 * Tiles that the blocks of a cluster hold together: results at every stage against Halide, planted faults, what the
 * passes refuse, and the emitted kernel.
 */
#include "dsl/tile/build/Build.h"
#include "dsl/tile/emit/Emit.h"
#include "dsl/tile/interpret/Interpret.h"
#include "dsl/tile/ir/Text.h"
#include "dsl/tile/passes/Runner.h"
#include "dsl/tile/passes/Verify.h"
#include "tests/correctness/tile_reference.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace kiln::tile {
namespace {

DeviceLimits hopper() {
    return limits_of(Target::parse("cuda sm_90a"));
}

/// The program with its rows of 1024 over so many blocks.
Program spread(const std::string &name, int blocks, int rows, int consumers = 1) {
    Program p = tile_program(name);
    p.plan.spread = "n";
    p.plan.spread_blocks = blocks;
    p.plan.blocks = {{"n", "", 1024}, {"m", "mo", rows}};
    p.plan.rows = rows > 1 ? "m" : "";
    p.plan.consumers = consumers;
    return p;
}

std::string faults(const Kernel &k) {
    std::string all;
    for (const Diagnostic &d : verify(k, hopper())) {
        all += d.code + ": " + d.message + "\n";
    }
    return all;
}

struct Case {
    std::string program;
    int blocks, rows, consumers, persistent;
};

class TileSpread : public testing::TestWithParam<Case> {};

TEST_P(TileSpread, AgreesWithHalideAtEveryStage) {
    const Case &c = GetParam();
    Program p = spread(c.program, c.blocks, c.rows, c.consumers);
    p.plan.persistent = c.persistent;
    Reference reference(p);
    std::vector<std::pair<std::string, Kernel>> stages;
    Kernel k = build_kernel(p.plan, p.outputs);
    for (const Pass &pass : passes()) {
        const std::string before = print(k);
        pass.run(k, hopper());
        ASSERT_EQ(faults(k), "") << "after " << pass.name << "\n" << print(k);
        EXPECT_EQ(print(parse_kernel(print(k))), print(k));
        if (print(k) != before) {
            stages.push_back({pass.name, k});
        }
    }
    EXPECT_EQ(k.cluster_blocks(), c.blocks);
    for (const Extents &size : p.sizes) {
        const Memory inputs = reference.data(size), wanted = reference.outputs(inputs, size);
        for (const auto &[name, kernel] : stages) {
            const bool last = name == stages.back().first;
            for (unsigned seed = 1; seed <= (last ? 3u : 1u); seed++) {
                Memory memory = inputs;
                const Outcome out =
                    interpret(kernel, memory, {When::Random, When::Random, When::Random, seed, 2 * c.blocks});
                const std::string fault = out.fault.empty() ? compare(memory, wanted, 4) : out.fault;
                ASSERT_EQ(fault, "") << "after " << name << ", seed " << seed << "\n" << print(kernel);
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Rows, TileSpread,
                         testing::Values(Case{"row_softmax", 4, 1, 1, 0}, Case{"row_softmax", 2, 4, 1, 0},
                                         Case{"layer_norm", 8, 1, 1, 1}, Case{"add_rms_norm", 2, 2, 2, 0}),
                         [](const auto &info) {
                             return fmt::format("{}_{}x{}", info.param.program, info.param.blocks,
                                                info.param.rows);
                         });

/// A part that is left out, one that comes twice, a block that does not come.
TEST(TileSpreadFault, PlantedOnesAreFound) {
    Program p = spread("row_softmax", 4, 1);
    const Kernel k = run_passes(build_kernel(p.plan, p.outputs), hopper());
    Reference reference(p);
    const Extents size = p.sizes.at(1);
    const Memory inputs = reference.data(size), wanted = reference.outputs(inputs, size);
    auto found = [&](const std::function<void(Kernel &)> &plant, bool seen = true) {
        Kernel bad = k;
        plant(bad);
        EXPECT_EQ(faults(bad).empty(), !seen) << faults(bad);
        Memory memory = inputs;
        const Outcome out = interpret(bad, memory);
        return out.fault.empty() ? compare(memory, wanted, 4) : out.fault;
    };
    ASSERT_EQ(found([](Kernel &) {}, false), "");
    auto reductions = [](Kernel &bad, const std::function<void(Reduce &)> &change) {
        walk(bad.body, [&](Stmt &s) {
            if (Reduce *r = s.as<Reduce>()) {
                change(*r);
            }
        });
    };
    EXPECT_NE(found([&](Kernel &b) { reductions(b, [](Reduce &r) { r.blocks = 1; }); }), "");
    EXPECT_EQ(found([&](Kernel &b) {
                  reductions(b, [](Reduce &r) { r.blocks = 2; });
              }).find("a reduction over 2 blocks in a cluster of 4"),
              0u);
    // One of the blocks leaves the reduction out.
    const std::string missing = found(
        [&](Kernel &b) {
            walk(b.body, [&](Stmt &s) {
                if (TileLoop *t = s.as<TileLoop>()) {
                    for (Stmt &inner : t->body) {
                        if (inner.as<Reduce>()) {
                            const Expr rank =
                                Halide::Internal::Variable::make(Halide::Int(32), "cluster.rank");
                            inner = {If{rank != 1, {inner}, {}}, inner.func};
                            break;
                        }
                    }
                }
            });
        },
        false);
    EXPECT_NE(missing, "");
    // All blocks store the first part.
    const std::string twice = found([&](Kernel &b) {
        walk(b.body, [&](Stmt &s) {
            if (GlobalStore *g = s.as<GlobalStore>()) {
                g->to.dims[0].base = 0;
            }
        });
    });
    EXPECT_NE(twice.find("twice"), std::string::npos) << twice;
}

std::string refusal(const Program &p) {
    try {
        run_passes(build_kernel(p.plan, p.outputs), hopper());
    } catch (const Error &e) {
        return render(e.diagnostics.at(0), "");
    }
    return "";
}

TEST(TileSpreadFault, Refusals) {
    Program other = spread("row_softmax", 4, 1);
    other.plan.spread = "m";
    EXPECT_EQ(refusal(other),
              "error[K1154]: `m` is no dimension of the tile of `y`: a cluster has nothing to spread "
              "it over\n   = help: name a Var that one tile spans: `whole(j, 131072).spread(j, 8)`\n");
    EXPECT_EQ(refusal(spread("row_softmax", 3, 1)),
              "error[K1154]: 1024 elements along `n` over 3 blocks: each needs the same number\n"
              "   = help: let the tile span a multiple of 3\n");
    Program product = tile_program("gemm_row_softmax");
    product.plan.spread = "n";
    product.plan.spread_blocks = 2;
    EXPECT_EQ(refusal(product),
              "error[K1154]: a producer copies for `y`, and blocks of a cluster that share a tile have "
              "threads of one "
              "role only\n   = help: write `warpgroups(…, producers = 0)`, or keep the input in Register\n");
    // Several consumers know no way to add up 64-bit sums over a cluster; a wrong number of blocks is seen by verify.
    Program p = spread("row_softmax", 4, 1);
    Kernel k = run_passes(build_kernel(p.plan, p.outputs), hopper());
    walk(k.body, [](Stmt &s) {
        if (Reduce *r = s.as<Reduce>()) {
            r->blocks = 2;
        }
    });
    const std::vector<Diagnostic> found = verify(k, hopper());
    ASSERT_EQ(found.size(), 2u);
    const std::string first =
        "error[K1155]: a reduction over 2 blocks along `n`, of which 4 have a part each\n";
    EXPECT_EQ(render(found[0], ""), first +
                                        "   = note: in `top = reduce max over n blocks 2 @L0 of select(%n "
                                        "+ cluster.rank*256 < x.extent.0, wide, -inf)`, of `top`\n");
    EXPECT_EQ(render(found[1], ""),
              first + "   = note: in `total = reduce sum over n blocks 2 @L0 of select(%n + cluster.rank*256 "
                      "< x.extent.0, e, 0.0)`, of `total`\n");
}

/// The text in tests/golden/tile, and what ptxas says to it.
TEST(TileSpreadText, Golden) {
    Program p = spread("row_softmax", 4, 1, 2);
    Kernel k = build_kernel(p.plan, p.outputs);
    k.name = "row_softmax_spread";
    const EmittedKernel e = emit_cuda(run_passes(std::move(k), hopper()));
    EXPECT_EQ(e.cluster, 4);
    EXPECT_EQ(e.threads, 256);
    const std::string path = std::string(KILN_SOURCE_DIR) + "/tests/golden/tile/row_softmax_spread.cu";
    if (const char *update = std::getenv("KILN_UPDATE_GOLDEN"); update && *update) {
        std::ofstream(path) << e.text;
    }
    std::ifstream in(path);
    std::stringstream golden;
    golden << in.rdbuf();
    EXPECT_TRUE(e.text == golden.str()) << path << " differs: KILN_UPDATE_GOLDEN=1 writes it anew";
    const CompiledKernel c = compile_cubin(e.text, e.name, "sm_90a");
    EXPECT_EQ(c.spill_bytes, 0);
    EXPECT_GT(c.registers, 0);
}

} // namespace
} // namespace kiln::tile
