// Faults planted in lowered kernels: the interpreter must find each, in some order of events.
#include "dsl/tile/build/Build.h"
#include "dsl/tile/interpret/Interpret.h"
#include "dsl/tile/ir/Text.h"
#include "dsl/tile/passes/Runner.h"
#include "dsl/tile/passes/Verify.h"
#include "tests/correctness/tile_reference.h"

#include <gtest/gtest.h>

namespace kiln::tile {
namespace {

DeviceLimits hopper() {
    return limits_of(Target::parse("cuda sm_90a"));
}

bool synchronises(const Stmt &s) {
    return s.as<Wait>() || s.as<Expect>() || s.as<Release>() || s.as<Advance>() || s.as<Skip>() ||
           s.as<Drain>() || s.as<MmaFence>() || s.as<MmaCommit>() || s.as<MmaWait>() || s.as<Barrier>() ||
           s.as<ClusterBarrier>() || s.as<Publish>() || s.as<ProxyFence>() || s.as<StoreCommit>() ||
           s.as<StoreWait>();
}

/// A fence behind another where nothing but products stands in between: no register was touched, it adds nothing.
bool repeats_fence(const Body &body, size_t at) {
    if (!body[at].as<MmaFence>()) {
        return false;
    }
    while (at-- > 0) {
        const Stmt &s = body[at];
        if (s.as<MmaFence>()) {
            return true;
        }
        if (!s.as<Mma>() && !s.as<MmaCommit>() && !s.as<Advance>() && !s.as<Wait>()) {
            return false;
        }
    }
    return false;
}

/// The body without its n-th synchronising statement; `n` counts down.
bool drop(Body &body, int &n, std::string &what, const Kernel &k) {
    for (size_t i = 0; i < body.size(); i++) {
        if (synchronises(body[i]) && !repeats_fence(body, i) && n-- == 0) {
            what = print(k, body[i]);
            body.erase(body.begin() + static_cast<std::ptrdiff_t>(i));
            return true;
        }
        bool done = false;
        auto inside = [&](Body &b) { done = done || drop(b, n, what, k); };
        if (auto *f = body[i].as<For>()) {
            inside(f->body);
        } else if (auto *r = body[i].as<Role>()) {
            inside(r->body);
        } else if (auto *t = body[i].as<TileLoop>()) {
            inside(t->body);
        } else if (auto *c = body[i].as<If>()) {
            inside(c->body);
            inside(c->otherwise);
        } else if (auto *l = body[i].as<Last>()) {
            inside(l->body);
        }
        if (done) {
            return true;
        }
    }
    return false;
}

/// What some order of events shows, or "".
std::string finding(const Kernel &k, const Memory &inputs, const Memory &wanted) {
    for (unsigned m = 0; m < 6; m++) {
        Memory memory = inputs;
        const When when = m == 0 ? When::Late : m == 1 ? When::Early : When::Random;
        const Outcome out = interpret(k, memory, {when, when, when, m, 1});
        if (!out.fault.empty()) {
            return out.fault;
        }
        if (const std::string wrong = compare(memory, wanted, 4); !wrong.empty()) {
            return wrong;
        }
    }
    return "";
}

struct Case {
    std::string program;
    std::string variant = "";        ///< what is changed in its plan
    std::vector<Extents> sizes = {}; ///< beside the program's ragged one: to reach every statement
};
std::ostream &operator<<(std::ostream &out, const Case &c) {
    return out << c.program << " " << c.variant;
}

/// y = x w without a single term.
Extents empty_sum(const char *w = "w", const char *other = nullptr) {
    Extents e{{"x", {0, 131}}, {w, {0, 72}}, {"y", {72, 131}}};
    if (other) {
        e[other] = {0, 72};
    }
    return e;
}

/// Two clusters of 2 x 2 tiles, one after the other, with blocks past the end.
Extents several_clusters() {
    return {{"x", {300, 131}}, {"w", {300, 136}}, {"y", {136, 131}}};
}

Extents two_products(int between) {
    return {{"x", {40, 131}}, {"w1", {40, between}}, {"w2", {72, between}}, {"y", {72, 131}}};
}

Extents no_keys() {
    return {
        {"q", {64, 5, 2}}, {"key", {64, 0, 2}}, {"value", {64, 0, 2}}, {"y", {64, 5, 2}}, {"lse", {5, 2}}};
}

/// All copies come for several blocks.
void in_clusters(TilePlan &plan, int x, int y) {
    plan.cluster_x = x;
    plan.cluster_y = y;
    for (auto &[view, copy] : plan.copies) {
        copy.multicast = true;
    }
}

class TileFault : public testing::TestWithParam<Case> {};

/// Without any one wait, arrival, fence, commit or barrier the run is not clean.
TEST_P(TileFault, MissingSynchronisationIsFound) {
    Program p = tile_program(GetParam().program);
    p.plan.persistent = 8; // one block takes all tiles, so that buffers and slots are used again
    if (GetParam().variant == "ping_pong") {
        p.plan.ping_pong = true;
        p.plan.blocks[1].size = 64;
    } else if (GetParam().variant == "no_producer") {
        p.plan.producers = 0;
    } else if (GetParam().variant == "cluster") {
        in_clusters(p.plan, 2, 2);
    } else if (GetParam().variant == "split") {
        p.plan.splits["acc"] = {2, {}};
    }
    for (auto &[view, copy] : p.plan.copies) {
        copy.stages = copy.stages ? copy.stages : 2;
    }
    const Kernel k = run_passes(build_kernel(p.plan, p.outputs), hopper());
    Reference reference(p);
    std::vector<Extents> sizes = GetParam().sizes;
    sizes.insert(sizes.begin(), p.sizes.at(1));
    if (GetParam().variant == "split") { // several steps for each block's part
        sizes.push_back({{"x", {392, 131}}, {"w", {392, 72}}, {"y", {72, 131}}});
    }
    std::vector<Memory> inputs, wanted;
    std::set<const Stmt *> reached;
    for (const Extents &size : sizes) {
        inputs.push_back(reference.data(size));
        wanted.push_back(reference.outputs(inputs.back(), size));
        Memory memory = inputs.back();
        const Outcome sound = interpret(k, memory, {});
        ASSERT_EQ(sound.fault, "") << print(k);
        ASSERT_EQ(compare(memory, wanted.back(), 4), "");
        reached.insert(sound.reached.begin(), sound.reached.end());
    }
    walk(k.body, [&](const Stmt &s) {
        EXPECT_TRUE(!synchronises(s) || reached.count(&s)) << "no size reaches `" << print(k, s) << "`";
    });
    int planted = 0;
    std::string not_found;
    for (;; planted++) {
        Kernel bad = k;
        int n = planted;
        std::string what, found;
        if (!drop(bad.body, n, what, k)) {
            break;
        }
        for (size_t i = 0; i < sizes.size() && found.empty(); i++) {
            found = finding(bad, inputs[i], wanted[i]);
        }
        RecordProperty(std::to_string(planted) + " " + what, found);
        if (found.empty()) {
            not_found += std::to_string(planted) + ": " + what + "\n";
        }
    }
    EXPECT_GT(planted, 1);
    EXPECT_EQ(not_found, "") << print(k);
}

INSTANTIATE_TEST_SUITE_P(
    Programs, TileFault,
    testing::Values(
        Case{"gemm_nt", "", {empty_sum()}}, Case{"gemm_nt", "ping_pong", {empty_sum()}},
        Case{"gemm_nt", "no_producer", {empty_sum()}}, Case{"gemm_nt", "cluster", {several_clusters()}},
        Case{"gemm_nt", "split", {empty_sum()}}, Case{"gemm_residual"}, Case{"gemm_row_max"},
        Case{"swiglu", "", {{{"x", {0, 131}}, {"wg", {0, 72}}, {"wu", {0, 72}}, {"y", {72, 131}}}}},
        Case{"gemm_rms"}, Case{"gemm_f32", "", {empty_sum()}}, Case{"gemm_f32", "no_producer", {empty_sum()}},
        Case{"gemm_int8_weights"}, Case{"product_of_product", "", {two_products(200), two_products(40)}},
        Case{"attention", "", {no_keys()}}),
    [](const auto &info) {
        return info.param.program + (info.param.variant.empty() ? "" : "_" + info.param.variant);
    });

/// Faults of what blocks of a cluster say to each other: found whatever the order of events.
TEST(TileClusterFault, WrongBlocksAreFound) {
    Program p = tile_program("gemm_nt");
    in_clusters(p.plan, 2, 2);
    for (auto &[view, copy] : p.plan.copies) {
        copy.stages = 2;
    }
    const Kernel k = run_passes(build_kernel(p.plan, p.outputs), hopper());
    Reference reference(p);
    const Extents size = several_clusters();
    const Memory inputs = reference.data(size), wanted = reference.outputs(inputs, size);
    ASSERT_EQ(finding(k, inputs, wanted), "") << print(k);
    auto planted = [&](const std::function<void(Kernel &)> &plant) {
        Kernel bad = k;
        plant(bad);
        EXPECT_FALSE(verify(bad, hopper()).empty()) << print(bad);
        return finding(bad, inputs, wanted);
    };
    auto loads = [](Kernel &bad, const std::function<void(Load &)> &change) {
        walk(bad.body, [&](Stmt &s) {
            if (Load *l = s.as<Load>(); l && l->dst == "xs") {
                change(*l);
            }
        });
    };
    auto releases = [](Kernel &bad, const Expr &blocks) {
        walk(bad.body, [&](Stmt &s) {
            if (Release *r = s.as<Release>()) {
                r->blocks = blocks;
            }
        });
    };
    const auto begins = [](const std::string &text, const std::string &start) {
        return text.substr(0, start.size()) == start ? start : text;
    };
    const Expr rank = Halide::Internal::Variable::make(Halide::Int(32), "cluster.rank");
    // A part goes to one block too few, to one too many, to one that is not there, and to the wrong place.
    const std::string twice = "two copies write byte 8192 of shared memory at once (producer of block 2,";
    EXPECT_EQ(begins(planted([&](Kernel &b) { loads(b, [](Load &l) { l.blocks = Expr(1); }); }), twice),
              twice);
    EXPECT_NE(planted([&](Kernel &b) { loads(b, [](Load &l) { l.blocks = Expr(15); }); }), "");
    EXPECT_EQ(begins(planted([&](Kernel &b) { loads(b, [](Load &l) { l.blocks = Expr(16); }); }),
                     "names block 4 of a cluster of 4"),
              "names block 4 of a cluster of 4");
    EXPECT_NE(planted([&](Kernel &b) { loads(b, [](Load &l) { l.part = Expr(0); }); }), "");
    // Blocks that fill a slot are not told that it is free; then they are, by too few.
    EXPECT_EQ(begins(planted([&](Kernel &b) { releases(b, Expr()); }), "deadlock"), "deadlock");
    EXPECT_NE(planted([&](Kernel &b) {
                  releases(b, Expr());
                  b.rings[0].blocks = 1;
              }),
              "");
    EXPECT_NE(planted([&](Kernel &b) { releases(b, Expr(15)); }), "");
    // A block ends while others still tell it what they have read.
    const std::string early = planted([&](Kernel &b) {
        for (Stmt &s : b.body) {
            std::erase_if(s.as<Role>()->body, [](const Stmt &t) { return t.as<Drain>() != nullptr; });
        }
    });
    EXPECT_NE(early.find("of the cluster has ended, and is still written to or told"), std::string::npos)
        << early;
}

} // namespace
} // namespace kiln::tile
