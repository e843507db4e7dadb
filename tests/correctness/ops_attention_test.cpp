// dsl/ops attention, both forms and every storage type, against plain C++ in double: masks, unequal lengths, empty rows,
// grouped heads, score changes, NaN.
#include "tests/correctness/ops_reference.h"

#include "dsl/ops/Attention.h"
#include "dsl/ops/Numeric.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

using namespace Halide;
using namespace kiln::test;

struct Sizes {
    int m, n, d = 16, dv = 16, heads = 1, kv_heads = 1, batches = 1;
};

struct Inputs {
    Tensor q, k, v;
};

Inputs random_inputs(const Type &type, Sizes s, unsigned seed = 1) {
    return {random_tensor(type, {s.d, s.m, s.heads, s.batches}, seed),
            random_tensor(type, {s.d, s.n, s.kv_heads, s.batches}, seed + 1),
            random_tensor(type, {s.dv, s.n, s.kv_heads, s.batches}, seed + 2)};
}

struct Outputs {
    Tensor out, lse;
};

/// Compiled for any sizes.
class Attend {
public:
    Attend(const Type &type, const ops::AttentionOptions &options, const Halide::Target &target)
        : kernel_(build(type, options, target), target),
          name_(name_of(type) + (options.form == ops::Form::Rows ? " rows " : " blocks ") +
                target.to_string()) {}

    Outputs operator()(const Inputs &in) {
        std::vector<int> extents = {in.v.extents[0], in.q.extents[1], in.q.extents[2], in.q.extents[3]};
        std::vector<Tensor> got =
            kernel_({{"q", in.q}, {"k", in.k}, {"v", in.v}}, {extents, {extents.begin() + 1, extents.end()}});
        return {got[0], got[1]};
    }
    void expect_right(const Inputs &in, const AttentionCase &c, const std::string &what) {
        Outputs got = (*this)(in);
        AttentionExpected want = attention_reference(in.q, in.k, in.v, c);
        EXPECT_EQ(differences(got.out, want.out), "") << what << " " << name_;
        EXPECT_EQ(differences(got.lse, want.lse), "") << what << " " << name_;
    }

private:
    static LegalizedPipeline build(const Type &type, const ops::AttentionOptions &options,
                                   const Halide::Target &target) {
        ImageParam q(type, 4, "q"), k(type, 4, "k"), v(type, 4, "v");
        ops::AttentionShape shape{q.dim(0).extent(), q.dim(1).extent(), k.dim(1).extent(), q.dim(2).extent(),
                                  k.dim(2).extent()};
        ops::Attention a = ops::attention(q, k, v, shape, options);
        Func y("y"), lse("lse");
        Var c("c"), i("i"), head("head"), batch("batch");
        y(c, i, head, batch) = ops::to_type(type, a.out(c, i, head, batch));
        lse(i, head, batch) = a.lse(i, head, batch);
        LegalizedPipeline pipeline =
            legalize({y, lse}, {q.parameter(), k.parameter(), v.parameter()}, target);
        schedule_roots(pipeline, target);
        return pipeline;
    }
    Kernel kernel_;
    std::string name_;
};

ops::AttentionOptions small(ops::Form form) {
    ops::AttentionOptions o;
    o.form = form;
    o.block = 8;
    o.block_i = 4;
    return o;
}

const ops::Form forms[] = {ops::Form::Blocks, ops::Form::Rows};
const Type types[] = {Float(32), Float(16), BFloat(16)};

using Set = std::function<void(ops::AttentionOptions &)>;

Attend with(const Type &type, ops::Form form, const Set &set, const Halide::Target &target = jit_target()) {
    ops::AttentionOptions options = small(form);
    set(options);
    return Attend(type, options, target);
}

struct Sized {
    Sizes sizes = {0, 0};
    AttentionCase expected = {};
};

/// Both forms on the CPU, one of them in 16 bits; `all_types`: every type in both forms. OpenCL where a type is given
/// (a compilation there takes seconds).
void everywhere(const std::vector<Sized> &cases, const Set &set, const std::string &what,
                bool all_types = false, std::optional<Type> on_opencl = std::nullopt) {
    struct Build {
        Type type;
        ops::Form form;
        Halide::Target target;
    };
    std::vector<Build> builds = {{Float(32), ops::Form::Blocks, jit_target()},
                                 {BFloat(16), ops::Form::Rows, jit_target()}};
    if (all_types) {
        builds.push_back({Float(32), ops::Form::Rows, jit_target()});
        builds.push_back({BFloat(16), ops::Form::Blocks, jit_target()});
        builds.push_back({Float(16), ops::Form::Blocks, jit_target()});
        builds.push_back({Float(16), ops::Form::Rows, jit_target()});
    }
    if (on_opencl) {
        builds.push_back({*on_opencl, ops::Form::Blocks, jit_opencl()});
    }
    for (const Build &b : builds) {
        Attend kernel = with(b.type, b.form, set, b.target);
        for (const Sized &c : cases) {
            kernel.expect_right(random_inputs(b.type, c.sizes), c.expected,
                                what + " " + std::to_string(c.sizes.m) + " " + std::to_string(c.sizes.n));
        }
    }
}

TEST(OpsAttention, Unmasked) {
    std::vector<Sized> cases;
    for (Sizes sizes : {Sizes{13, 29, 16, 24, 2, 2, 2}, Sizes{8, 8}, Sizes{1, 3, 1, 1}}) {
        cases.push_back({sizes, {}});
    }
    everywhere(
        cases, [](auto &) {}, "unmasked", true, Float(32));
}

TEST(OpsAttention, CausalIsAlignedBottomRight) {
    std::vector<Sized> cases;
    for (auto [m, n] : {std::pair{16, 16}, {5, 33}, {33, 5}, {1, 17}}) {
        AttentionCase c;
        c.allowed = [m = m, n = n](int i, int j) { return j <= i + n - m; };
        cases.push_back({{m, n, 16, 16, 2, 1, 1}, c});
    }
    everywhere(
        cases, [](auto &o) { o.mask = ops::causal(); }, "causal", true, BFloat(16));
}

TEST(OpsAttention, WindowsIncludeBothEdges) {
    const int m = 30, n = 41;
    for (ops::Form form : forms) {
        for (auto [l, r] : {std::pair{-1, 0}, {40, 0}, {0, 0}, {7, 0}, {8, 3}, {-1, -1}, {0, 5}}) {
            if (form == ops::Form::Blocks && l != 8 && l != 0) {
                continue; // each is a compilation
            }
            AttentionCase c;
            c.allowed = [=, l = l, r = r](int i, int j) {
                int diagonal = i + n - m;
                return (l < 0 || j >= diagonal - l) && (r < 0 || j <= diagonal + r);
            };
            with(Float(32), form, [l = l, r = r](auto &o) {
                o.mask = ops::window(l, r);
            }).expect_right(random_inputs(Float(32), {m, n}), c, "window");
        }
    }
}

TEST(OpsAttention, PrefixAndUserMask) {
    AttentionCase prefix;
    prefix.allowed = [](int i, int j) { return j <= i + 33 - 20 || j < 19; };
    everywhere(
        {Sized{{20, 33}, prefix}}, [](auto &o) { o.mask = ops::prefix(19); }, "prefix");
    AttentionCase odd;
    odd.allowed = [](int i, int j) { return (i + j) % 3 == 0 && j <= i + 13; };
    everywhere(
        {Sized{{20, 33}, odd}},
        [](auto &o) {
            o.mask = ops::both(ops::causal(), [](const ops::ScoreAt &at) { return (at.i + at.j) % 3 == 0; });
        },
        "a mask of the user's");
}

TEST(OpsAttention, EmptyRowsAreZeroAndMinusInfinity) { // K01, first part
    for (const Type &type : types) {
        for (ops::Form form : forms) {
            Attend kernel = with(type, form, [](auto &o) { o.mask = ops::causal(); });
            Outputs got = kernel(random_inputs(type, {5, 2, 16, 16, 2, 2, 1}));
            for (int h = 0; h < 2; ++h) {
                for (int i = 0; i < 3; ++i) {
                    EXPECT_EQ(got.lse({i, h, 0}), -INFINITY);
                    for (int c = 0; c < 16; ++c) {
                        EXPECT_EQ(bits_of(got.out({c, i, h, 0})), 0u); // +0
                    }
                }
            }
        }
    }
}

TEST(OpsAttention, OneKeyFarFromTheFirstBlockGivesItsRow) { // K01, second part
    const int n = 1000, only = 500;
    for (const Halide::Target &target : {jit_target(), jit_opencl()}) {
        for (ops::Form form : forms) {
            for (const Type &type : types) {
                if (target.has_gpu_feature() && (form == ops::Form::Rows || type != BFloat(16))) {
                    continue;
                }
                Inputs in = random_inputs(type, {9, n, 16, 16, 2, 1, 1}, 11);
                Attend kernel = with(
                    type, form,
                    [](auto &o) {
                        o.block = 64;
                        o.mask = [](const ops::ScoreAt &at) { return at.j == only; };
                    },
                    target);
                Outputs got = kernel(in);
                for (size_t x = 0; x < got.out.values.size(); ++x) {
                    ASSERT_EQ(got.out.values[x], in.v({int(x % 16), only, 0, 0}))
                        << name_of(type) << " " << target.to_string();
                }
            }
        }
    }
}

TEST(OpsAttention, GroupedHeadsReadTheirKeyHead) { // K06
    for (ops::Form form : forms) {
        Attend kernel = with(BFloat(16), form, [](auto &) {});
        for (auto [hq, hkv] : {std::pair{32, 8}, {64, 8}, {28, 4}, {9, 3}, {8, 1}, {14, 2}}) {
            Inputs in = random_inputs(BFloat(16), {2, 33, 8, 4, hq, hkv, 1});
            in.v = filled(BFloat(16), in.v.extents, [](size_t i) { return float(i / (4 * 33)); });
            Outputs got = kernel(in);
            for (int h = 0; h < hq; ++h) {
                for (int i = 0; i < 2; ++i) {
                    for (int c = 0; c < 4; ++c) {
                        ASSERT_EQ(got.out({c, i, h, 0}), float(h * hkv / hq));
                    }
                }
            }
        }
    }
}

TEST(OpsAttention, SoftcapAndAlibi) { // K10
    const int m = 12, n = 21, heads = 4;
    const Sizes sizes = {m, n, 16, 16, heads, 2, 1};
    for (float cap : {15.0f, 50.0f}) {
        AttentionCase c;
        c.change = [=](double s, int, int, int) { return cap * std::tanh(s / cap); };
        everywhere(
            {Sized{sizes, c}}, [=](auto &o) { o.change = ops::softcap(cap); }, "softcap", cap == 15,
            cap == 15 ? std::optional(Float(16)) : std::nullopt);
    }
    for (bool causal : {false, true}) {
        AttentionCase c;
        c.change = [=](double s, int i, int j, int h) {
            return s - std::exp2(-8.0 * (h + 1) / heads) * std::abs(i + n - m - j);
        };
        if (causal) {
            c.allowed = [=](int i, int j) { return j <= i + n - m; };
        }
        everywhere(
            {Sized{sizes, c}},
            [=](auto &o) {
                o.change = ops::alibi(ops::alibi_slopes(heads));
                o.mask = causal ? ops::causal() : ops::no_mask();
            },
            "alibi", causal);
    }
}

TEST(OpsAttention, ScaleOfTheUser) {
    AttentionCase c;
    c.scale = 0.7;
    with(Float(32), ops::Form::Rows, [](auto &o) {
        o.scale = Expr(0.7f);
    }).expect_right(random_inputs(Float(32), {9, 20}), c, "scale");
}

TEST(OpsAttention, LargeScoresDoNotOverflow) {
    Inputs in = random_inputs(Float(32), {9, 40});
    for (float &x : in.q.values) {
        x *= 300;
    }
    for (ops::Form form : forms) {
        with(Float(32), form, [](auto &) {}).expect_right(in, {}, "large scores");
    }
}

TEST(OpsAttention, NaNReachesItsRowsAndNoOthers) {
    Inputs in = random_inputs(Float(32), {8, 24});
    in.q({3, 5, 0, 0}) = NAN;  // query 5
    in.k({2, 20, 0, 0}) = NAN; // key 20: seen by queries 4 and on
    for (ops::Form form : forms) {
        Outputs got = with(Float(32), form, [](auto &o) { o.mask = ops::causal(); })(in);
        for (int i = 0; i < 8; ++i) {
            bool nan = i >= 4;
            EXPECT_EQ(std::isnan(got.out({0, i, 0, 0})), nan) << i;
            EXPECT_EQ(std::isnan(got.lse({i, 0, 0})), nan) << i;
        }
    }
}

// Values that are not finite under the mask change no bit of a row that may not see them; where one is seen, its column
// alone is what arithmetic gives.
TEST(OpsAttention, ValuesUnderTheMaskDoNotLeak) {
    struct Build {
        Type type;
        ops::Form form;
        Halide::Target target = jit_target();
    };
    std::vector<Build> builds = {{Float(32), ops::Form::Blocks, jit_opencl()},
                                 {Float(16), ops::Form::Blocks, jit_opencl()}};
    for (ops::Form form : forms) {
        for (const Type &type : types) {
            builds.push_back({type, form});
        }
    }
    const int m = 13, n = 29;
    for (const Build &b : builds) {
        Attend kernel = with(
            b.type, b.form, [](auto &o) { o.mask = ops::window(9, 0); }, b.target);
        Inputs clean = random_inputs(b.type, {m, n, 16, 24, 2, 1, 2}, 5), dirty = clean;
        // Rows 20 (diagonal of query 4) and 28 (the last one), one column each; row 3 wholly (seen by none but the first
        // queries' windows: diagonal 16 - 9 = 7 is the lowest key of all), and its key.
        dirty.v({7, 20, 0, 1}) = NAN;
        dirty.v({5, 28, 0, 0}) = INFINITY;
        for (int c = 0; c < 24; ++c) {
            dirty.v({c, 3, 0, 0}) = c % 2 ? NAN : -INFINITY;
        }
        dirty.k({0, 3, 0, 0}) = NAN;
        dirty.k({1, 3, 0, 1}) = INFINITY;
        Outputs want = kernel(clean), got = kernel(dirty);
        for (int batch = 0; batch < 2; ++batch) {
            for (int head = 0; head < 2; ++head) {
                for (int i = 0; i < m; ++i) {
                    EXPECT_EQ(got.lse({i, head, batch}), want.lse({i, head, batch}));
                    for (int c = 0; c < 24; ++c) {
                        float x = got.out({c, i, head, batch}), clean_x = want.out({c, i, head, batch});
                        std::string at = name_of(b.type) + " form " + std::to_string(int(b.form)) + " " +
                                         b.target.to_string() + " at " + std::to_string(c) + "," +
                                         std::to_string(i) + "," + std::to_string(batch);
                        if (batch == 1 && c == 7 && i >= 4) {
                            EXPECT_TRUE(std::isnan(x)) << at;
                        } else if (batch == 0 && c == 5 && i == 12) {
                            EXPECT_EQ(x, INFINITY) << at;
                        } else { // Rows adds in another order where a block is not finite
                            double room = b.form == ops::Form::Blocks ? 0 : few(b.type, clean_x, 1, n);
                            EXPECT_LE(std::fabs(x - clean_x), room) << at;
                        }
                    }
                }
            }
        }
    }
}

TEST(OpsAttention, BlocksThatNobodySeesAreSkipped) {
    // The predicate that skips blocks of 64 keys for 128 queries, evaluated for a causal window of 256 back.
    Var i("i"), t("t");
    ops::ScoreAt at{i, 0, 0, 0, 4096, 4096};
    Expr seen = ops::block_may_be_seen(ops::window(256, 0), at, i * 128, i * 128 + 127, t * 64, t * 64 + 63);
    Func f("f");
    f(t, i) = cast<int>(seen);
    Buffer<int> got = f.realize({64, 32}, jit_target());
    for (int row = 0; row < 32; ++row) {
        for (int block = 0; block < 64; ++block) {
            EXPECT_EQ(got(block, row), block >= 2 * row - 4 && block <= 2 * row + 1) << row << " " << block;
        }
    }
}

} // namespace
} // namespace kiln
