/** \file
 * Attention that reads more than q, k and v, through the schedules of tile kernels, run by the interpreter against the formula
 * in double: lengths, documents, biases, sinks, sums over keys that several blocks share, operands with strides of their own.
 */
#include "tests/correctness/tile_attention.h"

#include <cmath>
#include <limits>

namespace kiln::tile {
namespace {

using namespace Halide;
using I = int64_t;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// What a form changes of softmax(q k / sqrt(D)) v; b, h, i, j: batch, head, query, key.
struct Formula {
    std::function<bool(I b, I i, I j)> seen = [](I, I, I) { return true; };
    std::function<double(double s, I b, I h, I i, I j)> change = [](double s, I, I, I, I) { return s; };
    std::function<double(I h)> sink = [](I) { return -INFINITY; };
};

Memory wanted(const Memory &in, const AttentionShape &s, const Formula &f, bool lse) {
    const Array &q = in.at("q"), &k = in.at("k"), &v = in.at("v");
    Memory out{{"y", Array(in.at("y").type, in.at("y").extents)}};
    if (lse) {
        out["log_sum_exp_out"] = Array(Float(32), in.at("log_sum_exp_out").extents);
    }
    for (I b = 0; b < s.batch; b++) {
        for (I h = 0; h < s.heads; h++) {
            const I kh = h / (s.heads / s.kv_heads);
            for (I i = 0; i < s.queries; i++) {
                std::vector<double> score(size_t(s.keys), -INFINITY);
                double top = f.sink(h);
                for (I j = 0; j < s.keys; j++) {
                    if (!f.seen(b, i, j)) {
                        continue;
                    }
                    double sum = 0;
                    for (I d = 0; d < s.d; d++) {
                        sum += q.get(q.offset({d, i, h, b})) * k.get(k.offset({d, j, kh, b}));
                    }
                    top =
                        std::max(top, score[size_t(j)] = f.change(sum / std::sqrt(double(s.d)), b, h, i, j));
                }
                double all = top == -INFINITY ? 0 : std::exp(f.sink(h) - top);
                std::vector<double> value(size_t(s.dv), 0);
                for (I j = 0; j < s.keys; j++) {
                    if (score[size_t(j)] == -INFINITY) {
                        continue;
                    }
                    const double p = std::exp(score[size_t(j)] - top);
                    all += p;
                    for (I c = 0; c < s.dv; c++) {
                        value[size_t(c)] += p * v.get(v.offset({c, j, kh, b}));
                    }
                }
                for (I c = 0; c < s.dv; c++) {
                    Array &y = out.at("y");
                    y.set(y.offset({c, i, h, b}), all > 0 ? value[size_t(c)] / all : 0);
                }
                if (lse) {
                    Array &l = out.at("log_sum_exp_out");
                    l.set(l.offset({i, h, b}), all > 0 ? top + std::log(all) : -INFINITY);
                }
            }
        }
    }
    return out;
}

Array whole_numbers(const std::vector<int> &values) {
    Array a(Int(32), {I(values.size())});
    for (size_t n = 0; n < values.size(); n++) {
        a.set(I(n), values[n]);
    }
    return a;
}

/// `arrange` has the last word on the inputs.
void expect_right(const TileForm &form, const AttentionShape &s, const Formula &f, Extents more = {},
                  const std::function<void(Memory &)> &arrange = {}, double ulps = 3) {
    const Program p = scheduled_attention(form);
    const Kernel done = run_passes(build_kernel(p.plan, p.outputs), limits_of(sm_90a));
    Extents size = attention_extents(s, form.lse);
    size.merge(more);
    unsigned seed = 1;
    for (const When when : {When::Late, When::Random}) {
        Memory memory = Reference(p).data(size, seed);
        if (arrange) {
            arrange(memory);
        }
        const Memory right = wanted(memory, s, f, form.lse);
        const Outcome out = interpret(done, memory, {when, when, when, seed++, 2});
        ASSERT_EQ(out.fault.empty() ? compare(memory, right, ulps) : out.fault, "")
            << form.schedule << " " << s.queries << " queries, " << s.keys << " keys\n"
            << remarks(done);
    }
}

bool causal_at(const AttentionShape &s, I i, I j) {
    return j <= i + s.keys - s.queries;
}

/// Keys and values past each batch's own number are NaN; `v_held` is what the Func before the kernel gives.
std::function<void(Memory &)> held(const std::vector<int> &keys) {
    return [=](Memory &m) {
        m["k_lengths"] = whole_numbers(keys);
        Array cleared = m.at("v");
        for (const char *name : {"k", "v"}) {
            Array &a = m.at(name);
            for (I b = 0; b < a.extents[3]; b++) {
                for (I h = 0; h < a.extents[2]; h++) {
                    for (I j = keys[size_t(b)]; j < a.extents[1]; j++) {
                        for (I d = 0; d < a.extents[0]; d++) {
                            a.set(a.offset({d, j, h, b}), nan);
                            if (name[0] == 'v') {
                                cleared.set(cleared.offset({d, j, h, b}), 0);
                            }
                        }
                    }
                }
            }
        }
        m["v_held"] = cleared;
    };
}

/// The Func itself, which runs before the kernel.
TEST(TileAttentionData, ValuesPastTheEndAreCleared) {
    Buffer<float> v(3, 5, 2, 2);
    v.fill(std::numeric_limits<float>::quiet_NaN());
    Buffer<int32_t> keys(2);
    keys(0) = 2;
    keys(1) = 9; // more than there are
    v.for_each_element([&](int c, int j, int h, int b) {
        if (j < keys(b)) {
            v(c, j, h, b) = float(c + 10 * j + 100 * h + 1000 * b);
        }
    });
    ImageParam q(Float(32), 4, "q"), k(Float(32), 4, "k");
    ops::AttentionOptions o;
    o.guard_values = false;
    o.ranges = ops::lengths(Func(), Func(keys), 1);
    Buffer<float> out = ops::attention(q, k, Func(v), {3, 1, 5, 2, 2}, o).v_held.realize({3, 5, 2, 2});
    out.for_each_element([&](int c, int j, int h, int b) {
        EXPECT_EQ(out(c, j, h, b), j < keys(b) ? v(c, j, h, b) : 0.0f)
            << c << " " << j << " " << h << " " << b;
    });
}

TEST(TileAttentionData, KeysOfTheirOwnNumber) {
    ImageParam lengths(Int(32), 1, "k_lengths");
    const std::vector<int> keys = {150, 0, 5};
    const AttentionShape s{13, 150, 64, 64, 2, 1, 3};
    Formula f;
    f.seen = [=](I b, I, I j) { return j < keys[size_t(b)]; };
    TileForm form{.schedule = "cuda_sm_90a_held", .more_inputs = {lengths}};
    form.set = [=](ops::AttentionOptions &o) { o.ranges = ops::lengths(Func(), lengths, 13); };
    expect_right(form, s, f, {{"k_lengths", {3}}}, held(keys));
}

TEST(TileAttentionData, QueriesOfTheirOwnNumber) {
    ImageParam lengths(Int(32), 1, "k_lengths"), q_lengths(Int(32), 1, "q_lengths");
    const std::vector<int> keys = {140, 4, 0, 17}, queries = {40, 0, 7, 9};
    const AttentionShape s{40, 150, 32, 32, 2, 1, 4};
    Formula f;
    f.seen = [=](I b, I i, I j) {
        const size_t n = size_t(b);
        return i < queries[n] && j < keys[n] && j <= i + keys[n] - queries[n];
    };
    TileForm form{.schedule = "cuda_sm_90a_held", .more_inputs = {lengths, q_lengths}};
    form.set = [=](ops::AttentionOptions &o) {
        o.ranges = ops::lengths(q_lengths, lengths, 40);
        o.mask = ops::causal();
    };
    expect_right(form, s, f, {{"k_lengths", {4}}, {"q_lengths", {4}}}, [=](Memory &m) {
        held(keys)(m);
        m["q_lengths"] = whole_numbers(queries);
    });
}

TEST(TileAttentionData, Documents) {
    ImageParam document(Int(32), 1, "document"), cu_q(Int(32), 1, "cu_q"), cu_k(Int(32), 1, "cu_k");
    const std::vector<int> q = {0, 1, 3, 3, 6, 66}, k = {0, 0, 2, 6, 9, 99};
    const AttentionShape s{68, 110, 32, 32, 2, 1, 1};
    Formula f;
    f.seen = [=](I, I i, I j) {
        for (size_t n = 0; n + 1 < q.size(); n++) {
            if (i >= q[n] && i < q[n + 1]) {
                return j >= k[n] && j < k[n + 1] && j <= i + k[n + 1] - q[n + 1];
            }
        }
        return false;
    };
    std::vector<int> of;
    for (int i = 0; i < s.queries; i++) {
        of.push_back(int(std::upper_bound(q.begin(), q.end(), i) - q.begin()) - 1);
    }
    TileForm form{.schedule = "cuda_sm_90a_held", .more_inputs = {document, cu_q, cu_k}};
    form.set = [=](ops::AttentionOptions &o) {
        o.ranges = ops::documents(document, cu_q, cu_k, 5);
        o.mask = ops::causal();
    };
    expect_right(form, s, f, {{"document", {68}}, {"cu_q", {6}}, {"cu_k", {6}}}, [=](Memory &m) {
        held({99})(m);
        m["document"] = whole_numbers(of);
        m["cu_q"] = whole_numbers(q);
        m["cu_k"] = whole_numbers(k);
    });
}

TEST(TileAttentionData, Biases) {
    ImageParam bias(BFloat(16), 4, "score_bias"), table(BFloat(16), 2, "table");
    const AttentionShape s{70, 131, 32, 32, 2, 1, 2};
    for (const char *schedule : {"cuda_sm_90a_d64", "cuda_sm_90a_d128"}) {
        TileForm form{.schedule = schedule, .knobs = {{"block_i", "128"}, {"block", "64"}}};
        form.more_inputs = {bias};
        form.set = [=](ops::AttentionOptions &o) { o.change = ops::score_bias(bias); };
        Memory last;
        Formula f;
        f.change = [&](double x, I b, I h, I i, I j) {
            return x + last.at("score_bias").get(last.at("score_bias").offset({j, i, h, b}));
        };
        const auto keep = [&](Memory &m) { last = m; };
        expect_right(form, s, f, {{"score_bias", {131, 70, 2, 2}}}, keep);

        form.more_inputs = {table};
        form.set = [=](ops::AttentionOptions &o) {
            o.change = ops::relative_bias(table, 9);
            o.mask = ops::causal();
        };
        f.change = [&](double x, I, I h, I i, I j) {
            const I far = std::clamp<I>(j - i - (s.keys - s.queries), -9, 9) + 9;
            return x + last.at("table").get(last.at("table").offset({far, h}));
        };
        f.seen = [&](I, I i, I j) { return causal_at(s, i, j); };
        expect_right(form, s, f, {{"table", {19, 2}}}, keep);
    }
}

TEST(TileAttentionData, Sinks) {
    ImageParam sinks(BFloat(16), 1, "sinks");
    const AttentionShape s{40, 30, 32, 32, 3, 1, 1}; // ten rows without keys
    TileForm form{.schedule = "cuda_sm_90a_d64_lse", .lse = true, .more_inputs = {sinks}};
    form.set = [=](ops::AttentionOptions &o) {
        o.sink = [=](Expr h) { return cast<float>(sinks(h)); };
        o.mask = ops::causal();
    };
    Memory last;
    Formula f;
    f.seen = [&](I, I i, I j) { return causal_at(s, i, j); };
    f.sink = [&](I h) { return last.at("sinks").get(h); };
    expect_right(
        form, s, f, {{"sinks", {3}}}, [&](Memory &m) { last = m; }, 8);
}

/// Decoding: several blocks share the keys, the heads of a group are the queries.
TEST(TileAttentionData, KeysThatSeveralBlocksShare) {
    for (const auto &[queries, parts] : {std::pair{1, "2"}, {16, "8"}}) {
        expect_right({.schedule = "cuda_sm_90a_decode", .knobs = {{"parts", parts}}},
                     {queries, 333, 128, 128, 2, 2, 1}, {});
    }
    const AttentionShape few{3, 40, 64, 48, 2, 1, 1}; // parts without keys
    Formula f;
    f.seen = [&](I, I i, I j) { return causal_at(few, i, j); };
    expect_right({.schedule = "cuda_sm_90a_decode",
                  .knobs = {{"parts", "4"}},
                  .set = [](ops::AttentionOptions &o) { o.mask = ops::causal(); }},
                 few, f);
    expect_right({.schedule = "cuda_sm_90a_decode"}, {3, 0, 64, 64}, {});
}

/// Views into one buffer: (d, head, part, i, batch), as a projection writes it, and heads inside queries.
TEST(TileAttentionData, StridesOfPackedOperands) {
    const AttentionShape s{37, 37, 32, 32, 2, 2, 2};
    const auto packed = [](Memory &m) {
        for (const char *name : {"q", "k", "v"}) {
            const Array dense = m.at(name);
            Array a(dense.type, dense.extents, {1, 3 * 2 * 32, 32, 37 * 3 * 2 * 32});
            for (I b = 0; b < 2; b++) {
                for (I h = 0; h < 2; h++) {
                    for (I i = 0; i < 37; i++) {
                        for (I d = 0; d < 32; d++) {
                            a.set(a.offset({d, i, h, b}), dense.get(dense.offset({d, i, h, b})));
                        }
                    }
                }
            }
            m[name] = a;
        }
    };
    expect_right({.schedule = "cuda_sm_90a_d64"}, s, {}, {}, packed);
}

} // namespace
} // namespace kiln::tile
