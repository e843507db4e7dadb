/** \file
 * Attention built as libraries: rows without keys, one key far away, groups of heads, changed scores, views.
 */
#include "cases_support.h"

#include "dsl/support/Process.h"

#include <nlohmann/json.hpp>

namespace kiln::test {
namespace {

const kiln_type types[] = {KILN_FLOAT32, KILN_BFLOAT16, KILN_FLOAT16};

struct Sizes {
    int64_t queries, keys, d = 16, dv = 16, heads = 2, kv_heads = 1, batches = 1;
};

struct Operands {
    Tensor q, k, v, y, lse;
    Operands(kiln_type type, Sizes s, const Layout &lq = {}, const Layout &lk = {}, const Layout &lv = {},
             const Layout &ly = {})
        : q(type, {s.d, s.queries, s.heads, s.batches}, lq),
          k(type, {s.d, s.keys, s.kv_heads, s.batches}, lk),
          v(type, {s.dv, s.keys, s.kv_heads, s.batches}, lv),
          y(type, {s.dv, s.queries, s.heads, s.batches}, ly),
          lse(KILN_FLOAT32, {s.queries, s.heads, s.batches}) {
        q.fill(1);
        k.fill(2);
        v.fill(3);
    }
    int run(LoadedLibrary &lib, bool with_lse = false) {
        return with_lse ? call(lib, {&q, &k, &v}, {&y, &lse}) : call(lib, {&q, &k, &v}, {&y});
    }
};

struct Expected {
    double value, bound;
};

using Change = std::function<double(double score, int64_t i, int64_t j, int64_t head)>;

/// softmax(change(q k / sqrt(D))) v in double, with a bound on what float32 arithmetic may be off: a score is a sum of
/// D products, an error e of scores changes a mean of v by at most 2 e max|v|, and sums over keys round K times.
Expected expected(const Operands &o, kiln_type type, int64_t c, int64_t i, int64_t h, int64_t b,
                  const Change &change, const std::function<bool(int64_t, int64_t)> &allowed) {
    const int64_t d = o.q.extent(0), keys = o.k.extent(1), kh = h * o.k.extent(2) / o.q.extent(2);
    std::vector<double> scores(size_t(keys), -INFINITY);
    double top = -INFINITY, off = 0, size = 0, scale = 1 / std::sqrt(double(d));
    for (int64_t j = 0; j < keys; j++) {
        if (!allowed(i, j)) {
            continue;
        }
        double sum = 0, sizes = 0;
        for (int64_t x = 0; x < d; x++) {
            double product = o.q.get({x, i, h, b}) * o.k.get({x, j, kh, b});
            sum += product;
            sizes += std::abs(product);
        }
        double s = change(sum * scale, i, j, h);
        scores[size_t(j)] = s;
        top = std::max(top, s);
        off = std::max(off, double(d + 2) * 0x1p-23 * sizes * scale + 8 * 0x1p-23 * (std::abs(s) + 1));
    }
    double weight = 0, value = 0;
    for (int64_t j = 0; j < keys; j++) {
        double p = std::exp(scores[size_t(j)] - top);
        if (p > 0) {
            weight += p;
            value += p * o.v.get({c, j, kh, b});
            size = std::max(size, std::abs(o.v.get({c, j, kh, b})));
        }
    }
    value /= weight;
    return {value, unit_of(type) * std::abs(value) + 2 * off * size + double(keys + 2) * 0x1p-23 * size};
}

bool all_keys(int64_t, int64_t) {
    return true;
}
double same(double s, int64_t, int64_t, int64_t) {
    return s;
}

void expect_right(const Operands &o, kiln_type type, const Change &change, const std::string &what,
                  int64_t every = 1) {
    int64_t n = 0, wrong = 0;
    o.y.each([&](const std::vector<int64_t> &at) {
        if (n++ % every != 0) {
            return;
        }
        Expected want = expected(o, type, at[0], at[1], at[2], at[3], change, all_keys);
        double got = o.y.get(at);
        if (!close(got, want.value, want.bound) && wrong++ == 0) {
            ADD_FAILURE() << what << " " << name_of(type) << " at " << at[0] << "," << at[1] << "," << at[2]
                          << ": " << got << " for " << want.value << " +- " << want.bound;
        }
    });
    EXPECT_EQ(wrong, 0) << what;
    EXPECT_TRUE(o.y.surroundings_untouched()) << what;
}

// ---- K01

TEST(CasesAttention, RowsWithoutKeysAreZeroAndTheirSumMinusInfinity) {
    for (const char *target : {"cpu avx2", "opencl"}) {
        for (kiln_type type : types) {
            for (const char *block : {"64", "128"}) {
                if (std::string(target) == "opencl" &&
                    (std::string(block) == "128") != (type == KILN_FLOAT16)) {
                    continue; // each is a compilation by the driver
                }
                LoadedLibrary &lib = kernel(
                    {"attention",
                     target,
                     {{"mask", "causal"}, {"lse", "true"}, {"type", name_of(type)}, {"block", block}}});
                Operands o(type, {5, 2});
                ASSERT_EQ(o.run(lib, true), KILN_OK) << lib.last_message();
                o.y.each([&](const std::vector<int64_t> &at) {
                    if (at[1] < 3) {
                        EXPECT_EQ(o.y.bits(at), 0u) << target << " " << name_of(type) << " query " << at[1];
                    } else if (at[1] == 3) {
                        EXPECT_EQ(o.y.bits(at), o.v.bits({at[0], 0, 0, 0})) << target << " " << name_of(type);
                    } else {
                        EXPECT_FALSE(std::isnan(o.y.get(at)));
                    }
                });
                o.lse.each([&](const std::vector<int64_t> &at) {
                    EXPECT_TRUE(at[0] < 3 ? o.lse.get(at) == -INFINITY : std::isfinite(o.lse.get(at)))
                        << target << " " << name_of(type) << " " << o.lse.get(at);
                });
            }
        }
    }
}

TEST(CasesAttention, RowsWithoutKeysByTheSchedulesOfKiln) {
    for (auto [target, schedule] :
         {std::pair("cpu avx2", "attention/cpu_avx2.sched"), std::pair("opencl", "attention/opencl.sched")}) {
        LoadedLibrary &lib =
            kernel({"attention", target, {{"mask", "causal"}, {"type", "bfloat16"}}, schedule});
        Operands o(KILN_BFLOAT16, {5, 2});
        ASSERT_EQ(o.run(lib), KILN_OK) << lib.last_message();
        o.y.each([&](const std::vector<int64_t> &at) {
            if (at[1] < 3) {
                EXPECT_EQ(o.y.bits(at), 0u) << target << " query " << at[1];
            } else {
                EXPECT_FALSE(std::isnan(o.y.get(at)));
            }
        });
    }
}

TEST(CasesAttention, OneKeyFarFromTheFirstTilesGivesItsRow) {
    struct Case {
        kiln_type type;
        const char *target, *rows, *block, *schedule;
    };
    for (Case c : {Case{KILN_FLOAT32, "cpu avx2", "true", "64", "attention/cpu_avx2.sched"},
                   Case{KILN_FLOAT32, "cpu avx2", "false", "128", ""},
                   Case{KILN_BFLOAT16, "cpu avx2", "true", "128", "attention/cpu_avx2.sched"},
                   Case{KILN_FLOAT16, "cpu avx2", "true", "64", "attention/cpu_avx2.sched"},
                   Case{KILN_FLOAT32, "opencl", "false", "64", "attention/opencl.sched"},
                   Case{KILN_BFLOAT16, "opencl", "false", "64", "attention/opencl.sched"},
                   Case{KILN_FLOAT16, "opencl", "false", "128", "attention/opencl.sched"}}) {
        LoadedLibrary &lib = kernel({"case_attention_one_key",
                                     c.target,
                                     {{"type", name_of(c.type)}, {"rows", c.rows}, {"block", c.block}},
                                     c.schedule});
        Operands o(c.type, {3, 100000, 8, 8, 1, 1});
        ASSERT_EQ(o.run(lib), KILN_OK) << lib.last_message();
        o.y.each([&](const std::vector<int64_t> &at) {
            EXPECT_EQ(o.y.get(at), o.v.get({at[0], 50000, 0, 0})) << c.target << " " << name_of(c.type);
        });
    }
}

TEST(CasesAttention, NaNOnOneSideAloneIsADifference) {
    EXPECT_FALSE(close(NAN, 0, 1e9));
    EXPECT_FALSE(close(0, NAN, 1e9));
    EXPECT_TRUE(close(NAN, NAN, 0));
    EXPECT_TRUE(close(-INFINITY, -INFINITY, 0));
    EXPECT_FALSE(close(-INFINITY, 0, 1e9));
}

// ---- K06

TEST(CasesAttention, EveryQueryHeadReadsTheKeyHeadOfItsGroup) {
    struct Case {
        kiln_type type;
        const char *target, *schedule;
    };
    for (Case c :
         {Case{KILN_BFLOAT16, "cpu avx2", "attention/cpu_avx2.sched"}, Case{KILN_FLOAT16, "cpu avx2", ""},
          Case{KILN_BFLOAT16, "opencl", "attention/opencl.sched"}}) {
        LoadedLibrary &lib = kernel({"attention", c.target, {{"type", name_of(c.type)}}, c.schedule});
        for (auto [hq, hkv] : {std::pair(32, 8), {64, 8}, {28, 4}, {9, 3}, {8, 1}, {14, 2}}) {
            Operands o(c.type, {2, 333, 128, 128, hq, hkv});
            o.v.each([&](const std::vector<int64_t> &at) { o.v.set(at, double(at[2])); });
            ASSERT_EQ(o.run(lib), KILN_OK) << lib.last_message();
            int64_t wrong = 0;
            o.y.each(
                [&](const std::vector<int64_t> &at) { wrong += o.y.get(at) != double(at[2] * hkv / hq); });
            EXPECT_EQ(wrong, 0) << c.target << " " << hq << "/" << hkv;
        }
        Operands uneven(c.type, {2, 9, 128, 128, 9, 4});
        EXPECT_EQ(uneven.run(lib), KILN_INVALID_ARGUMENT);
        EXPECT_NE(lib.last_message().find(" in dimension 2,"), std::string::npos) << lib.last_message();
    }
}

TEST(CasesAttention, BytesCountTheKeyHeads) {
    TemporaryFolder folder;
    ProcessRequest request;
    request.argv = {KILN_BINARY_DIR "/bin/kiln",
                    "explain",
                    "attention",
                    "--work",
                    "q29 k13 causal",
                    "-p",
                    "mask=causal",
                    "--json"};
    request.cwd = folder.path();
    request.environment = {{"KILN_CACHE_DIR", (folder.path() / "cache").string()}};
    request.limits.timeout_s = 60;
    ProcessResult result = run_process(request);
    ASSERT_EQ(result.code, 0) << result.err;
    nlohmann::json json = nlohmann::json::parse(result.out);
    // D 16, 29 queries of 3 heads, 13 keys of one head, float32.
    int64_t q = 16 * 29 * 3, k = 16 * 13 * 1;
    EXPECT_EQ(json.at("roofline").at("bytes"), 4 * (q + k + k + q)) << json.dump(1);
}

// ---- K10

void changed(const Params &params, const Change &change, const std::string &what) {
    struct Case {
        kiln_type type;
        const char *target, *schedule;
    };
    for (Case c :
         {Case{KILN_BFLOAT16, "cpu avx2", "attention/cpu_avx2.sched"}, Case{KILN_FLOAT32, "cpu avx2", ""},
          Case{KILN_FLOAT16, "opencl", "attention/opencl.sched"}}) {
        if (std::string(c.target) == "opencl" && params.count("softcap") && params.at("softcap") == "50") {
            continue; // a cap of 15 is compiled there
        }
        Params all = params;
        all["type"] = name_of(c.type);
        all["scale"] = "0.5"; // scores above the cap, of several keys
        LoadedLibrary &lib = kernel({"attention", c.target, all, c.schedule});
        Operands o(c.type, {128, 217, 128, 128, 2, 1});
        ASSERT_EQ(o.run(lib), KILN_OK) << lib.last_message();
        double scale = 0.5 * std::sqrt(128.0); // expected() divides by it
        Change scaled = [&](double s, int64_t i, int64_t j, int64_t h) { return change(s * scale, i, j, h); };
        expect_right(o, c.type, scaled, what + " " + c.target, 97);
        // The test could tell if the change were dropped.
        double most = 0;
        for (int64_t i = 0; i < 128; i += 13) {
            Expected with = expected(o, c.type, 5, i, 1, 0, scaled, all_keys);
            Expected without = expected(
                o, c.type, 5, i, 1, 0, [&](double s, int64_t, int64_t, int64_t) { return s * scale; },
                all_keys);
            most = std::max(most, std::abs(with.value - without.value) / with.bound);
        }
        EXPECT_GT(most, 2) << what;
    }
}

TEST(CasesAttention, Softcaps) {
    for (const char *cap : {"15", "50"}) {
        double c = std::stod(cap);
        changed(
            {{"softcap", cap}}, [=](double s, int64_t, int64_t, int64_t) { return c * std::tanh(s / c); },
            std::string("softcap ") + cap);
    }
}

TEST(CasesAttention, Alibi) {
    // Two heads: slopes 2^-4 and 2^-8.
    changed(
        {{"alibi", "true"}},
        [](double s, int64_t i, int64_t j, int64_t h) {
            return s - std::exp2(-4.0 * double(h + 1)) * double(std::abs(i + 217 - 128 - j));
        },
        "alibi");
}

// ---- K13

TEST(CasesAttention, ViewsAreReadAsTheyLie) {
    const Sizes s = {20, 33, 16, 24, 4, 2, 2};
    auto bshd = [&](int64_t length, int64_t heads, int64_t d, int64_t offset = 0) {
        return Layout{{1, heads * d, d, length * heads * d}, offset, {}};
    };
    for (auto [target, schedule] :
         {std::pair("cpu avx2", "attention/cpu_avx2.sched"), std::pair("cpu avx2", ""),
          std::pair("opencl", "attention/opencl.sched")}) {
        for (kiln_type type : {KILN_FLOAT32, KILN_BFLOAT16}) {
            LoadedLibrary &lib = kernel({"attention", target, {{"type", name_of(type)}}, schedule});
            auto check = [&](Operands &&o, const std::string &what) {
                ASSERT_EQ(o.run(lib), KILN_OK) << what << ": " << lib.last_message();
                expect_right(o, type, same, what + " " + target, 7);
            };
            check(Operands(type, s, bshd(20, 4, 16), bshd(33, 2, 16), bshd(33, 2, 24), bshd(20, 4, 24)),
                  "BSHD");
            check(Operands(type, s, {}, {}, bshd(33, 2, 24), {}), "V alone permuted");
            check(Operands(type, s, bshd(20, 4, 16, 3), bshd(33, 2, 16, 3), bshd(33, 2, 24, 3),
                           bshd(20, 4, 24, 3)),
                  "a slice from element 3 on");
            for (const char *which : {"q", "k", "v", "y"}) {
                auto only = [&](const Layout &layout, char name) {
                    return *which == name ? layout : Layout();
                };
                auto refused = [&](const Layout &layout, const std::string &dimension,
                                   const std::string &number) {
                    Operands o(type, s, only(layout, 'q'), only(layout, 'k'), only(layout, 'v'),
                               only(layout, 'y'));
                    EXPECT_EQ(o.run(lib), KILN_INVALID_ARGUMENT) << which;
                    std::string message = lib.last_message();
                    for (const std::string &part : {"`" + std::string(which) + "`", dimension, number}) {
                        EXPECT_NE(message.find(part), std::string::npos) << message << "\nlacks " << part;
                    }
                    EXPECT_TRUE(o.y.untouched());
                };
                refused({{2}, 0, {}}, "dimension 0", "stride 2");
                refused({{}, 0, {0, -3}}, "dimension 1", "-3");
            }
        }
    }
}

} // namespace
} // namespace kiln::test
