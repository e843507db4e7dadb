// Every variant of attention that the generator offers, on the CPU and on OpenCL, as Kiln's own schedules build it, against
// the formula in double. Keys and values that no query may see are NaN throughout.
#include "attention_forms.h"

namespace kiln::test {
namespace {

using I = int64_t;

/// A set of parameters with what goes with it: arguments beyond q, k, v, and the formula.
struct Variant {
    std::string name;
    Params params;
    AttentionSizes sizes;
    AttentionForm form = {};
    std::vector<std::pair<std::vector<int32_t>, std::vector<I>>> ints = {}; ///< values and extents, in order
    std::vector<std::vector<I>> floats = {}; ///< extents of score_bias and sinks; filled by 0x1p-4 steps
    std::function<I(I b)> shift = {};        ///< of the diagonal, where it is not keys - queries
};

void expect_right(const char *target, kiln_type type, Variant v) {
    v.params["type"] = name_of(type);
    const bool lse = v.params.count("lse") != 0;
    LoadedLibrary &lib = attention_library(target, v.params);
    AttentionOperands o(type, v.sizes);
    std::vector<std::unique_ptr<Ints>> ints;
    std::vector<std::unique_ptr<Tensor>> floats;
    std::vector<halide_buffer_t *> all = {o.q.buffer(), o.k.buffer(), o.v.buffer()};
    for (auto &[values, extents] : v.ints) {
        ints.push_back(std::make_unique<Ints>(values, extents));
        all.push_back(&ints.back()->view.buffer);
    }
    for (auto &extents : v.floats) {
        floats.push_back(std::make_unique<Tensor>(type, extents));
        floats.back()->fill(unsigned(4 + floats.size()));
        all.push_back(floats.back()->buffer());
    }
    // A form reads the tensor of its bias and sinks by number.
    AttentionForm form = v.form;
    if (v.params.count("bias")) {
        const bool scores = v.params.at("bias") == "scores";
        const I reach = scores ? 0 : (v.floats[0][0] - 1) / 2;
        form.change = [&, scores, reach](double s, I b, I h, I i, I j) {
            I shift = v.shift ? v.shift(b) : v.sizes.keys - v.sizes.queries;
            I far = std::clamp(j - i - shift, -reach, reach);
            return v.form.change(s, b, h, i, j) +
                   (scores ? floats[0]->get({j, i, h, b}) : floats[0]->get({far + reach, h}));
        };
    }
    if (v.params.count("sink")) {
        form.sink = [&](I h) { return floats.back()->get({h}); };
    }
    o.poison(form);
    all.push_back(o.y.buffer());
    if (lse) {
        all.push_back(o.lse.buffer());
    }
    ASSERT_EQ(call_buffers(lib, all, lse ? 2 : 1), KILN_OK) << v.name << ": " << lib.last_message();
    EXPECT_EQ(o.faults(form, lse), "")
        << v.name << " " << target << " " << name_of(type) << " " << lib.last_choice();
}

// ---- The parts of a formula.

AttentionForm causal(AttentionSizes s) {
    AttentionForm f;
    f.visible = [=](I, I i, I j) { return j <= i + s.keys - s.queries; };
    return f;
}
AttentionForm capped(AttentionForm f, double cap) {
    f.change = [cap](double s, I, I, I, I) { return cap * std::tanh(s / cap); };
    return f;
}
AttentionForm alibi(AttentionForm f, AttentionSizes s) {
    f.change = [=](double x, I, I h, I i, I j) {
        return x - std::exp2(-8.0 * double(h + 1) / double(s.heads)) *
                       double(std::abs(i + s.keys - s.queries - j));
    };
    return f;
}

// ---- The variants.

Variant windowed() {
    AttentionSizes s{70, 130, 16, 16, 2, 1, 1};
    AttentionForm f;
    f.visible = [](I, I i, I j) { return j >= i + 60 - 20 && j <= i + 60 + 3; };
    return {"window", {{"mask", "window"}, {"window_left", "20"}, {"window_right", "3"}}, s, f};
}
Variant prefixed() {
    AttentionSizes s{40, 80, 16, 16, 2, 1, 1};
    AttentionForm f;
    f.visible = [](I, I i, I j) { return j <= i + 40 || j < 55; };
    return {"prefix", {{"mask", "prefix"}, {"prefix", "55"}}, s, f};
}
/// Keys of other sequences, of their own lengths: cross-attention.
Variant with_key_lengths() {
    AttentionSizes s{13, 29, 16, 16, 2, 1, 3};
    AttentionForm f;
    const std::vector<int32_t> keys = {29, 0, 5};
    f.visible = [=](I b, I, I j) { return j < keys[size_t(b)]; };
    Variant v{"lengths=keys", {{"lengths", "keys"}, {"lse", "true"}}, s, f, {{keys, {3}}}};
    v.shift = [=](I b) { return keys[size_t(b)] - s.queries; };
    return v;
}
Variant with_batch_lengths() {
    AttentionSizes s{13, 29, 16, 16, 2, 1, 4};
    AttentionForm f;
    const std::vector<int32_t> keys = {29, 4, 0, 17}, queries = {13, 0, 7, 9};
    f.visible = [=](I b, I i, I j) {
        size_t n = size_t(b);
        return i < queries[n] && j < keys[n] && j <= i + keys[n] - queries[n];
    };
    return {"lengths=batch", {{"lengths", "batch"}, {"mask", "causal"}}, s, f, {{keys, {4}}, {queries, {4}}}};
}
/// Documents of 1, 2, 0, 3, 60 queries and 0, 2, 4, 3, 90 keys, and two queries that belong to none.
Variant with_documents() {
    const std::vector<int32_t> q = {0, 1, 3, 3, 6, 66}, k = {0, 0, 2, 6, 9, 99};
    AttentionSizes s{68, 99, 16, 16, 3, 1, 1};
    AttentionForm f;
    f.visible = [=](I, I i, I j) {
        for (size_t n = 0; n + 1 < q.size(); n++) {
            if (i >= q[n] && i < q[n + 1]) {
                return j >= k[n] && j < k[n + 1] && j <= i + k[n + 1] - q[n + 1];
            }
        }
        return false;
    };
    std::vector<int32_t> document;
    for (int32_t i = 0; i < s.queries; i++) {
        document.push_back(int32_t(std::upper_bound(q.begin(), q.end(), i) - q.begin()) - 1);
    }
    return {"lengths=documents",
            {{"lengths", "documents"}, {"mask", "causal"}, {"lse", "true"}},
            s,
            f,
            {{document, {68}}, {q, {6}}, {k, {6}}}};
}
/// Pages of 8 keys in no order, the last ones of a batch half full.
Variant with_pages() {
    AttentionSizes s{5, 32, 16, 16, 2, 1, 2, 8};
    const std::vector<int32_t> table = {7, 2, 5, 0, 1, 8, 3, 6}, keys = {29, 12};
    AttentionForm f;
    f.visible = [=](I b, I i, I j) { return j < keys[size_t(b)] && j <= i + keys[size_t(b)] - 5; };
    f.place = [=](I b, I j) { return std::pair(j % 8, I(table[size_t(j / 8 + 4 * b)])); };
    return {"page",
            {{"page", "8"}, {"lengths", "keys"}, {"mask", "causal"}},
            s,
            f,
            {{table, {4, 2}}, {keys, {2}}}};
}

/// Variants that do not touch share a library, which takes seconds to compile.
std::vector<std::pair<kiln_type, Variant>> in_company() {
    Variant a = windowed();
    a.name += ", softcap, bias=scores";
    a.params.insert({{"softcap", "2"}, {"bias", "scores"}});
    a.form = capped(a.form, 2);
    a.floats = {{130, 70, 2, 1}};

    Variant b = with_batch_lengths();
    b.name += ", sink, lse";
    b.params.insert({{"sink", "true"}, {"lse", "true"}});
    b.floats = {{2}};

    Variant c = prefixed();
    c.name += ", alibi";
    c.params["alibi"] = "true";
    c.form = alibi(c.form, c.sizes);

    Variant d = with_key_lengths();
    d.name += ", bias=distance, sink";
    d.params.insert({{"bias", "distance"}, {"sink", "true"}});
    d.floats = {{2 * 9 + 1, 2}, {2}};

    return {{KILN_BFLOAT16, a},
            {KILN_FLOAT32, b},
            {KILN_BFLOAT16, c},
            {KILN_FLOAT16, d},
            {KILN_FLOAT16, with_documents()},
            {KILN_FLOAT32, with_pages()}};
}

TEST(AttentionVariants, OnTheCpu) {
    for (const auto &[type, v] : in_company()) {
        expect_right("cpu avx2", type, v);
    }
}

TEST(AttentionVariants, OnOpenCl) {
    for (const auto &[type, v] : in_company()) {
        expect_right("opencl", type, v);
    }
}

// ---- Sizes: one library each.

TEST(AttentionVariants, HeadsOfEveryWidth) { // K08
    struct Case {
        const char *target;
        kiln_type type;
        I step;
    };
    // PoCL compiles a kernel again for each number of threads.
    for (Case c : {Case{"cpu avx2", KILN_FLOAT32, 8}, Case{"opencl", KILN_FLOAT16, 80}}) {
        auto check = [&](I d, I dv) {
            AttentionSizes s{3, 70, d, dv, 2, 1, 1};
            expect_right(
                c.target, c.type,
                {"D " + std::to_string(d) + "/" + std::to_string(dv), {{"mask", "causal"}}, s, causal(s)});
        };
        for (I d = 16; d <= 256; d += c.step) {
            check(d, d);
        }
        check(40, 24);
        check(192, 128);
        check(576, 512);
        check(1, 3);
    }
}

TEST(AttentionVariants, LengthsOfEveryKind) { // K05, decoding
    for (auto [target, type] : {std::pair("cpu avx2", KILN_FLOAT32), std::pair("opencl", KILN_FLOAT16)}) {
        for (auto [m, n] : {std::pair<I, I>{0, 5}, {5, 0}, {1, 1}, {1, 129}, {33, 7}, {65, 64}, {50, 131}}) {
            AttentionSizes s{m, n, 16, 16, 2, 1, 2};
            expect_right(target, type,
                         {"lengths " + std::to_string(m) + " " + std::to_string(n),
                          {{"mask", "causal"}},
                          s,
                          causal(s)});
        }
        for (I m = 1; m <= 16; m++) {
            AttentionSizes s{m, 77, 32, 32, 4, 1, 2};
            expect_right(target, type, {"decode " + std::to_string(m), {{"mask", "causal"}}, s, causal(s)});
        }
    }
}

// q, k and v side by side in one array, as one product makes them: (d, q heads | k heads | v heads, position).
TEST(AttentionVariants, PackedOperandsByStrides) { // K13
    for (auto [target, type] : {std::pair("cpu avx2", KILN_BFLOAT16), std::pair("opencl", KILN_FLOAT32)}) {
        const AttentionSizes s{20, 20, 16, 16, 4, 2, 2};
        const I row = 16 * (4 + 2 + 2);
        const Layout packed{{1, row, 16, row * 20}, 0, {}};
        LoadedLibrary &lib = attention_library(target, {{"mask", "causal"}, {"type", name_of(type)}});
        AttentionOperands o(type, s, packed, packed, packed, {{1, 16 * 4, 16, 16 * 4 * 20}, 0, {}});
        ASSERT_EQ(call_buffers(lib, {o.q.buffer(), o.k.buffer(), o.v.buffer(), o.y.buffer()}, 1), KILN_OK)
            << lib.last_message();
        EXPECT_EQ(o.faults(causal(s), false), "") << target;
    }
}

} // namespace
} // namespace kiln::test
