/** \file
 * ops::attention through the schedules of schedules/attention/cuda_sm_90a*.sched: the plan that they make, the kernel that the
 * passes derive, run by the interpreter on small and ragged shapes in several orders of events, against Halide with every
 * reduction at root. And what the passes must prove on the way.
 */
#include "dsl/tile/ir/Text.h"
#include "tests/correctness/tile_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace kiln::tile {
namespace {

using namespace Halide;

using Form = TileForm;
using Shape = AttentionShape;

/// Right on every shape, as built and after all passes. Returns the kernel for more to be asked of it.
Kernel expect_right(const Form &form, const std::vector<Shape> &shapes, double ulps = 3) {
    const Program p = scheduled_attention(form);
    const Kernel built = build_kernel(p.plan, p.outputs), done = run_passes(built, limits_of(sm_90a));
    Reference reference(p);
    unsigned seed = 1;
    for (const Shape &s : shapes) {
        const Extents size = attention_extents(s, form.lse);
        const Memory inputs = reference.data(size, seed), wanted = reference.outputs(inputs, size);
        for (const When when : {When::Early, When::Late, When::Random}) {
            Memory memory = inputs;
            const Outcome out = interpret(done, memory, {when, when, when, seed++, 2});
            EXPECT_EQ(out.fault.empty() ? compare(memory, wanted, ulps) : out.fault, "")
                << s.queries << " queries, " << s.keys << " keys, D " << s.d << ", Dv " << s.dv << "\n"
                << remarks(done);
            if (testing::Test::HasFailure()) {
                return done;
            }
        }
    }
    return done;
}

void causal(ops::AttentionOptions &o) {
    o.mask = ops::causal();
}

// ---- every schedule: whole tiles, ragged ones, none

TEST(TileAttention, FullOfEveryWidth) {
    expect_right({}, {{128, 128, 128, 128}, {130, 200, 128, 128}, {1, 1, 8, 8}, {0, 3, 128, 128}});
    expect_right({.schedule = "cuda_sm_90a_d64"}, {{200, 130, 64, 64, 2, 1, 2}, {13, 300, 40, 64}});
    expect_right({.schedule = "cuda_sm_90a_d256"}, {{150, 90, 256, 256}, {3, 70, 192, 128}});
}

TEST(TileAttention, CausalLeavesOutBlocksAndConditions) {
    const Kernel k =
        expect_right({.set = causal}, {{300, 300, 128, 128}, {29, 13, 16, 16}, {130, 270, 128, 64}});
    EXPECT_NE(remarks(k).find("fold_conditions: the condition of `acc` became the range of its loop"),
              std::string::npos)
        << remarks(k);
    expect_right({.schedule = "cuda_sm_90a_d64", .set = causal}, {{300, 300, 64, 64}});
    expect_right({.schedule = "cuda_sm_90a_d256", .set = causal}, {{200, 200, 256, 256}});
}

// K06: groups of heads.
TEST(TileAttention, QueryHeadsReadTheirGroup) {
    expect_right({}, {{5, 33, 64, 64, 6, 2, 1}, {5, 33, 64, 64, 3, 3, 2}});
}

// K08: heads of other widths, and of V.
TEST(TileAttention, OtherWidths) {
    expect_right({.set = causal}, {{40, 40, 16, 16}, {40, 40, 72, 80}, {40, 40, 112, 96}, {20, 50, 128, 8}});
}

// K05, K01: no keys, no queries, rows without keys.
TEST(TileAttention, EmptyRowsAreZeroAndMinusInfinity) {
    const Form form{.schedule = "cuda_sm_90a_d128_lse", .lse = true, .set = causal};
    expect_right(form, {{5, 2, 32, 32, 2}, {5, 0, 32, 32}, {0, 5, 32, 32}, {150, 20, 32, 32}});
}

TEST(TileAttention, LogSumExpIsASecondOutput) {
    expect_right({.schedule = "cuda_sm_90a_d128_lse", .lse = true}, {{130, 200, 128, 128, 2}});
    expect_right({.schedule = "cuda_sm_90a_d64_lse", .lse = true, .set = causal}, {{200, 200, 64, 64, 2}});
    expect_right({.schedule = "cuda_sm_90a_d256_lse", .lse = true, .set = causal}, {{130, 130, 256, 256}});
}

// K09: both edges of a window count; windows of one key.
TEST(TileAttention, Windows) {
    for (const auto &[left, right] : {std::pair{-1, 0}, {0, 0}, {20, 0}, {127, 1}, {3, 200}, {700, 0}}) {
        expect_right({.set = [left = left, right = right](
                                 ops::AttentionOptions &o) { o.mask = ops::window(left, right); }},
                     {{333, 333, 32, 32}, {150, 290, 32, 32}});
    }
    const Kernel k = expect_right({.set = [](ops::AttentionOptions &o) { o.mask = ops::window(100, 0); }},
                                  {{300, 300, 16, 16}});
    EXPECT_NE(remarks(k).find("became the range of its loop"), std::string::npos) << remarks(k);
}

TEST(TileAttention, Prefix) {
    expect_right({.set = [](ops::AttentionOptions &o) { o.mask = ops::prefix(70); }}, {{200, 200, 32, 32}});
}

// K10: scores changed by any expression.
TEST(TileAttention, ChangedScores) {
    expect_right({.set =
                      [](ops::AttentionOptions &o) {
                          o.change = ops::softcap(Expr(15.0f));
                          o.mask = ops::causal();
                      }},
                 {{130, 217, 128, 128}});
    expect_right({.set =
                      [](ops::AttentionOptions &o) {
                          o.change = ops::alibi(ops::alibi_slopes(4));
                          o.scale = Expr(0.5f);
                      }},
                 {{128, 217, 128, 128, 4}});
    expect_right({.set =
                      [](ops::AttentionOptions &o) {
                          o.change = [](Expr s, const ops::ScoreAt &at) {
                              return s * s * 0.25f - cast<float>(at.j % 3);
                          };
                      }},
                 {{40, 150, 64, 64}});
}

TEST(TileAttention, MaximumStaysBehind) {
    const Kernel k = expect_right({.schedule = "cuda_sm_90a_d128_full", .set = causal},
                                  {{200, 200, 128, 128}, {20, 40, 64, 64}});
    EXPECT_NE(remarks(k).find("lag_maximum: `acc` may stay behind by 2^8"), std::string::npos) << remarks(k);
    expect_right({.schedule = "cuda_sm_90a_d64_lse", .lse = true, .set = causal}, {{5, 2, 32, 32}});
    // Scores that grow along the keys by more than may be left behind.
    expect_right({.set =
                      [](ops::AttentionOptions &o) {
                          o.change = [](Expr s, const ops::ScoreAt &at) {
                              return s + cast<float>(at.j) * 0.1f;
                          };
                      },
                  .more = "acc.update().lag(2);"},
                 {{100, 500, 32, 32}});
}

TEST(TileAttention, ConsumersIssueInTurn) {
    const Kernel k = expect_right({.schedule = "cuda_sm_90a_d64_short", .set = causal}, {{200, 200, 64, 64}});
    EXPECT_TRUE(k.plan.turns);
}

/// Whose sum of exponentials is an output: another reference would change it.
TEST(TileAttention, MaximumThatIsAnOutputMayNotStayBehind) {
    const Form form{
        .schedule = "cuda_sm_90a_d128_lse", .lse = true, .more = "acc.update().lag(8);", .sum_alone = true};
    const Program p = scheduled_attention(form);
    try {
        run_passes(build_kernel(p.plan, p.outputs), limits_of(sm_90a));
        FAIL() << "accepted";
    } catch (const kiln::Error &e) {
        const std::string text = render(e.diagnostics.at(0), "");
        EXPECT_NE(text.find("error[K1206]: the maximum of `acc` cannot stay behind: `log_sum_exp_out` "
                            "depends on it: it is "),
                  std::string::npos)
            << text;
        EXPECT_NE(text.find("   = help: leave out its `lag`\n"), std::string::npos) << text;
    }
}

TEST(TileAttention, HalfPrecision) {
    expect_right({.set = causal, .type = Float(16)}, {{150, 150, 64, 64}});
}

// ---- what is proved

/// A sum over keys that does not end at the last one: the copy's zeros would not be what the definition reads.
TEST(TileAttention, ClampedReadThatReachesAnOutputIsRefused) {
    ImageParam x(BFloat(16), 2, "x"), w(BFloat(16), 2, "w");
    RDom r(0, 64, "r");
    Var n("n"), m("m");
    Func acc("acc"), y("y");
    const Expr last = x.dim(0).extent() - 1;
    acc(n, m) = 0.0f;
    acc(n, m) += cast<float>(x(min(r, last), m)) * cast<float>(w(r, n));
    y(n, m) = acc(n, m);
    TilePlan plan;
    plan.kernel = "y";
    plan.blocks = {{"n", "no", 64}, {"m", "mo", 64}};
    plan.grid = {"mo", "no"};
    plan.rows = "m";
    plan.consumers = 1;
    plan.products["acc"] = {};
    plan.copies = {{"x", {}}, {"w", {}}};
    try {
        build_kernel(plan, {y});
        FAIL() << "accepted";
    } catch (const kiln::Error &e) {
        EXPECT_EQ(render(e.diagnostics.at(0), ""),
                  "error[K1205]: `x` is read clamped to its last element and is to be copied to shared "
                  "memory, where "
                  "what lies past the end is 0: `acc` reads it there along `r`\n"
                  "   = help: leave it out in `acc`: `r.where(index < x.dim(n).extent())`, or a select of a "
                  "constant\n"
                  "   = help: leave out the copy of `x`: then each thread reads as the definition says\n");
    }
}

} // namespace
} // namespace kiln::tile
