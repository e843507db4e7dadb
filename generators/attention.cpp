// Attention with masks, score changes, grouped key heads and log-sum-exp.
#include "dsl/ops/Attention.h"
#include "generators/common.h"

#include "dsl/support/Diagnostic.h"

#include <fmt/format.h>

#include <sstream>

namespace {

using namespace Halide;
namespace ops = kiln::ops;
namespace gen = kiln::generators;

enum class MaskKind { None, Causal, Window, Prefix };
enum class BiasKind { None, Scores, Distance };
enum class LengthsKind { None, Keys, Batch, Documents };
enum class FormKind { Auto, Blocks, Rows };

[[noreturn]] void refuse(const char *code, std::string message, std::string help) {
    kiln::Diagnostic d;
    d.code = code;
    d.message = std::move(message);
    d.helps = {std::move(help)};
    throw kiln::Error(std::move(d));
}

std::string type_name(const Type &t) {
    std::ostringstream name;
    name << t;
    return name.str();
}

class AttentionGenerator : public Generator<AttentionGenerator> {
public:
    GeneratorParam<Type> type{"type", Float(32)};
    GeneratorParam<MaskKind> mask{"mask",
                                  MaskKind::None,
                                  {{"none", MaskKind::None},
                                   {"causal", MaskKind::Causal},
                                   {"window", MaskKind::Window},
                                   {"prefix", MaskKind::Prefix}}};
    GeneratorParam<int> window_left{"window_left", 128};
    GeneratorParam<int> window_right{"window_right", 0};
    GeneratorParam<int> prefix{"prefix", 0};
    GeneratorParam<float> softcap{"softcap", 0.0f};
    GeneratorParam<bool> alibi{"alibi", false};
    GeneratorParam<BiasKind> bias{
        "bias",
        BiasKind::None,
        {{"none", BiasKind::None}, {"scores", BiasKind::Scores}, {"distance", BiasKind::Distance}}};
    GeneratorParam<bool> sink{"sink", false};
    GeneratorParam<LengthsKind> lengths{"lengths",
                                        LengthsKind::None,
                                        {{"none", LengthsKind::None},
                                         {"keys", LengthsKind::Keys},
                                         {"batch", LengthsKind::Batch},
                                         {"documents", LengthsKind::Documents}}};
    GeneratorParam<int> page{"page", 0};
    GeneratorParam<float> scale{"scale", 0.0f};
    GeneratorParam<bool> lse{"lse", false};
    GeneratorParam<bool> guard{"guard", true};
    GeneratorParam<bool> round_weights{"round_weights", false};
    GeneratorParam<FormKind> form{
        "form",
        FormKind::Auto,
        {{"auto", FormKind::Auto}, {"blocks", FormKind::Blocks}, {"rows", FormKind::Rows}}};
    GeneratorParam<int> block{"block", 64, 1, 4096};
    GeneratorParam<int> block_i{"block_i", 48, 1, 4096};
    Input<Buffer<void, 4>> q{"q"};
    Input<Buffer<void, 4>> k{"k"};
    Input<Buffer<void, 4>> v{"v"};
    Output<Buffer<void, 4>> y{"y"};
    Var c{"c"}, i{"i"}, head{"head"}, batch{"batch"};

    void configure() {
        check_params();
        q.set_type(type);
        k.set_type(type);
        v.set_type(type);
        y.set_type(type);
        if (page > 0) {
            table_ = add_input<Buffer<>>("page_table", Int(32), 2);
        }
        if (lengths == LengthsKind::Keys || lengths == LengthsKind::Batch) {
            k_lengths_ = add_input<Buffer<>>("k_lengths", Int(32), 1);
        }
        if (lengths == LengthsKind::Batch) {
            q_lengths_ = add_input<Buffer<>>("q_lengths", Int(32), 1);
        }
        if (lengths == LengthsKind::Documents) {
            document_ = add_input<Buffer<>>("document", Int(32), 1);
            cu_q_ = add_input<Buffer<>>("cu_q", Int(32), 1);
            cu_k_ = add_input<Buffer<>>("cu_k", Int(32), 1);
        }
        if (bias != BiasKind::None) {
            bias_ = add_input<Buffer<>>("score_bias", type, bias == BiasKind::Scores ? 4 : 2);
        }
        if (sink) {
            sink_ = add_input<Buffer<>>("sinks", type, 1);
        }
        if (lse) {
            lse_ = add_output<Buffer<>>("log_sum_exp_out", Float(32), 3);
        }
    }

    void generate() {
        ops::AttentionOptions options;
        const bool gpu = get_target().has_gpu_feature();
        const bool rows = form == FormKind::Rows || (form == FormKind::Auto && !gpu);
        if (rows && gpu) {
            refuse("K1223",
                   "the parameter form=rows keeps the scores of a block of queries whole, which a GPU cannot",
                   "leave `form` at auto, or set form=blocks");
        }
        options.form = rows ? ops::Form::Rows : ops::Form::Blocks;
        options.block = block;
        options.block_i = block_i;
        options.with_lse = lse;
        options.guard_values = rows || guard;
        if (round_weights && Type(type).bits() == 16) {
            options.weights = type;
        }
        if (scale != 0.0f) {
            options.scale = Expr(float(scale));
        }
        options.mask = mask == MaskKind::Causal   ? ops::causal()
                       : mask == MaskKind::Window ? ops::window(int(window_left), int(window_right))
                       : mask == MaskKind::Prefix ? ops::prefix(int(prefix))
                                                  : ops::no_mask();
        if (softcap > 0.0f) {
            options.change = ops::softcap(Expr(float(softcap)));
        }
        if (alibi) {
            options.change = ops::then(options.change, ops::alibi(ops::alibi_slopes(q.dim(2).extent())));
        }
        if (bias == BiasKind::Scores) {
            options.change = ops::then(options.change, ops::score_bias(*bias_));
        } else if (bias == BiasKind::Distance) {
            options.change =
                ops::then(options.change, ops::relative_bias(*bias_, (bias_->dim(0).extent() - 1) / 2));
        }
        if (sink_) {
            Func sinks = *sink_;
            options.sink = [sinks](Expr h) { return ops::f32(sinks(h)); };
        }
        if (k_lengths_) {
            options.ranges =
                ops::lengths(q_lengths_ ? Func(*q_lengths_) : Func(), *k_lengths_, q.dim(1).extent());
        }
        if (cu_q_) {
            options.ranges = ops::documents(*document_, *cu_q_, *cu_k_, cu_q_->dim(0).extent() - 1);
        }
        Func keys = k, values = v;
        if (table_) {
            keys = ops::paged("k_paged", k, *table_, int(page), k.dim(3).extent());
            values = ops::paged("v_paged", v, *table_, int(page), k.dim(3).extent());
        }
        ops::AttentionShape shape{q.dim(0).extent(), q.dim(1).extent(), key_count(), q.dim(2).extent(),
                                  k.dim(2).extent()};
        ops::Attention a = ops::attention(q, keys, values, shape, options);
        y(c, i, head, batch) = ops::to_type(type, a.out(c, i, head, batch));
        if (lse_) {
            (*lse_)(i, head, batch) = a.lse(i, head, batch);
        }
        constrain();
    }

private:
    Expr key_count() { return page > 0 ? table_->dim(0).extent() * int(page) : k.dim(1).extent(); }

    /// A parameter that would be passed over, or contradicts another.
    void check_params() {
        auto unused = [](const char *name, auto value, const char *with, const char *help) {
            refuse("K1220", fmt::format("the parameter {}={} has no effect without {}", name, value, with),
                   help);
        };
        if (mask != MaskKind::Window && int(window_left) != 128) {
            unused("window_left", int(window_left), "mask=window", "set mask=window, or leave it out");
        }
        if (mask != MaskKind::Window && int(window_right) != 0) {
            unused("window_right", int(window_right), "mask=window", "set mask=window, or leave it out");
        }
        if (mask != MaskKind::Prefix && int(prefix) != 0) {
            unused("prefix", int(prefix), "mask=prefix", "set mask=prefix, or leave it out");
        }
        auto negative = [](const char *name, auto value, const char *help) {
            refuse("K1221", fmt::format("the parameter {}={} is negative", name, value), help);
        };
        if (float(softcap) < 0) {
            negative("softcap", float(softcap),
                     "cap · tanh(score / cap) needs a cap above 0; 0 leaves it out");
        }
        if (int(prefix) < 0) {
            negative("prefix", int(prefix), "it is a number of keys");
        }
        if (int(page) < 0) {
            negative("page", int(page), "it is a number of keys in a page; 0: keys are not in pages");
        }
        if (lengths == LengthsKind::Documents && page > 0) {
            refuse("K1222",
                   fmt::format("lengths=documents and page={} give the same key two places", int(page)),
                   "keys in pages belong to a batch: set lengths=keys or lengths=batch");
        }
        if (lengths == LengthsKind::Documents && mask == MaskKind::Prefix) {
            refuse("K1222",
                   "mask=prefix counts keys from the first of all, lengths=documents from that of a document",
                   "pad the documents to batches (lengths=batch), or write the mask over "
                   "kiln::ops::documents in a "
                   "generator of your own");
        }
        const Type t = type;
        if (!t.is_float() || t.bits() > 32) {
            refuse("K1224", fmt::format("attention of type={} is not known", type_name(t)),
                   "set type=float32, float16 or bfloat16");
        }
    }

    void constrain() {
        gen::begin_at_zero(q, k, v, y);
        gen::same_extent(k, 0, q, 0);
        // Whole groups of query heads for each key head.
        q.dim(2).set_extent((q.dim(2).extent() / k.dim(2).extent()) * k.dim(2).extent());
        gen::same_extent(v, 1, k, 1);
        gen::same_extent(v, 2, k, 2);
        gen::same_extent(y, 0, v, 0);
        for (int d = 1; d < 4; ++d) {
            gen::same_extent(y, d, q, d);
        }
        if (table_) {
            gen::begin_at_zero(*table_);
            gen::same_extent(*table_, 1, q, 3);
            k.dim(1).set_extent(int(page));
            gen::same_extent(v, 3, k, 3);
        } else {
            gen::same_extent(k, 3, q, 3);
            gen::same_extent(v, 3, q, 3);
        }
        for (Input<Buffer<>> *of_batch : {k_lengths_, q_lengths_}) {
            if (of_batch) {
                gen::begin_at_zero(*of_batch);
                gen::same_extent(*of_batch, 0, q, 3);
            }
        }
        if (cu_q_) {
            gen::begin_at_zero(*document_, *cu_q_, *cu_k_);
            gen::same_extent(*document_, 0, q, 1);
            gen::same_extent(*cu_k_, 0, *cu_q_, 0);
            q.dim(3).set_extent(1);
        }
        if (bias_) {
            gen::begin_at_zero(*bias_);
            if (bias == BiasKind::Scores) {
                bias_->dim(0).set_extent(key_count());
                gen::same_extent(*bias_, 1, q, 1);
                gen::same_extent(*bias_, 2, q, 2);
                gen::same_extent(*bias_, 3, q, 3);
            } else { // as many distances to either side, and 0
                bias_->dim(0).set_extent((bias_->dim(0).extent() - 1) / 2 * 2 + 1);
                gen::same_extent(*bias_, 1, q, 2);
            }
        }
        if (sink_) {
            gen::begin_at_zero(*sink_);
            gen::same_extent(*sink_, 0, q, 2);
        }
        if (lse_) {
            gen::begin_at_zero(*lse_);
            for (int d = 0; d < 3; ++d) {
                gen::same_extent(*lse_, d, q, d + 1);
            }
        }
    }

    Input<Buffer<>> *table_ = nullptr, *k_lengths_ = nullptr, *q_lengths_ = nullptr, *document_ = nullptr,
                    *cu_q_ = nullptr, *cu_k_ = nullptr, *bias_ = nullptr, *sink_ = nullptr;
    Output<Buffer<>> *lse_ = nullptr;
};

struct Shape {
    int64_t queries, keys, d = 64, dv = 64, heads = 1, kv_heads = 1, batch = 1;
};

kiln::Workload attend(const char *name, Shape s, std::map<std::string, std::string> params, bool bench) {
    kiln::Workload w{name,
                     {{"q", {s.d, s.queries, s.heads, s.batch}},
                      {"k", {s.d, s.keys, s.kv_heads, s.batch}},
                      {"v", {s.dv, s.keys, s.kv_heads, s.batch}},
                      {"y", {s.dv, s.queries, s.heads, s.batch}}},
                     {},
                     std::move(params),
                     bench};
    w.extents["log_sum_exp_out"] = {s.queries, s.heads, s.batch};
    return w;
}

/// 2 (D + Dv) for each pair of a query and a key that it may see; the mean number of those for causal.
double attention_flops(const kiln::Workload &w) {
    const auto &q = w.extents.at("q"), &k = w.extents.at("k"), &v = w.extents.at("v");
    double keys = double(k[1]);
    auto mask = w.params.find("mask");
    if (mask != w.params.end() && mask->second == "causal") {
        keys = (std::max(0.0, keys - double(q[1])) + keys) / 2;
    }
    return 2 * double(q[0] + v[0]) * double(q[1]) * keys * double(q[2]) * double(q[3]);
}

std::vector<kiln::Workload> workloads() {
    Shape bench{512, 512, 64, 64, 8, 8, 1};
    std::vector<kiln::Workload> all = {
        attend("1", {1, 1, 1, 1}, {}, false),
        attend("q13 k29", {13, 29, 16, 24}, {}, false),
        attend("q13 k29 causal lse", {13, 29, 16, 16, 2, 1, 2}, {{"mask", "causal"}, {"lse", "true"}}, false),
        attend("q29 k13 causal", {29, 13, 16, 16, 3, 1, 1}, {{"mask", "causal"}}, false),
        attend("q70 k130 window", {70, 130, 8, 8, 2, 2, 1},
               {{"mask", "window"}, {"window_left", "20"}, {"window_right", "3"}}, false),
        attend("q16 k33 softcap alibi", {16, 33, 16, 16, 4, 2, 1}, {{"softcap", "15"}, {"alibi", "true"}},
               false),
        attend("q33 k70 bf16", {33, 70, 32, 32, 2, 1, 1}, {{"type", "bfloat16"}, {"mask", "causal"}}, false),
        attend("q33 k70 f16", {33, 70, 32, 32, 2, 1, 1}, {{"type", "float16"}}, false),
    };
    for (int64_t n : {512, 1024, 2048}) {
        bench.queries = bench.keys = n;
        std::string name = "N" + std::to_string(n);
        all.push_back(attend(name.c_str(), bench, {}, true));
        all.push_back(attend((name + " causal").c_str(), bench, {{"mask", "causal"}}, true));
    }
    return all;
}

} // namespace

KILN_GENERATOR(
    AttentionGenerator, attention,
    {.summary = "softmax(scale q k^T, changed and masked) v, over q(d, i, head, batch)",
     .interface_ =
         "- `y(c, i, head, batch)`: the output; `c` along the head, `i` over queries\n"
         "- `out(c, i, head, batch)`: y in float32; with `lse` a Tuple with the log-sum-exp, for both "
         "outputs\n"
         "- `log_sum_exp_out(i, head, batch)`: second output with `lse`; reads `out`\n"
         "- `qk(j, t, i, head, batch)`: update over `rd`; key `block * t + j`\n"
         "- `s(j, t, i, head, batch)`: the score, -inf where masked; `p`: its exponential\n"
         "- `b(t, i, head, batch)` and `sum`: updates over `rj`, along the block; `pv(c, t, i, head, batch)` "
         "over "
         "`rv`\n"
         "- form blocks (GPU): `k_block(d, j, t, head, batch)`, keys by blocks; the Tuple `acc(c, i, head, "
         "batch)` over "
         "`rt`\n"
         "- form rows (CPU): all of these have `ib` after `i`: query `block_i * ib + i`; `q_block(d, i, ib, "
         "head, "
         "batch)`, "
         "`m(i, ib, head, batch)` over `rm`, the Tuple `acc(c, i, ib, head, batch)` over `rt`\n"
         "- form rows: `o_top(c, ib, head, batch)` over `ri` tells where acc is NaN, `o_again(c, i, ib, "
         "head, batch)` over "
         "`rg` adds up again there\n"
         "- with `lengths`: `range(i, batch)` (rows: `range(i, ib, batch)`), the keys of a query\n"
         "- with `page`: `k_paged` and `v_paged`, to be inlined\n"
         "- blocks of keys that no query of a group of `block_i` sees are skipped: split `i` by `block_i`",
     .workloads = workloads(),
     .flops = attention_flops,
     .params =
         {gen::type_param,
          {"mask",
           "causal is aligned bottom-right; window sees keys from window_left before to window_right after "
           "the diagonal, a negative bound is none; prefix is causal and the first `prefix` keys"},
          {"window_left", "for mask=window"},
          {"window_right", "for mask=window"},
          {"prefix", "for mask=prefix"},
          {"softcap", "cap tanh(score / cap); 0: none"},
          {"alibi", "score - slope |diagonal - j|, slopes 2^(-8 (head + 1) / heads)"},
          {"bias", "scores: + score_bias(j, i, head, batch); distance: + score_bias(clamp(j - diagonal) + "
                   "reach, head), a "
                   "table of 2 reach + 1 distances"},
          {"sink", "one more score a head, sinks(head), in the sum of each row"},
          {"lengths",
           "keys: k_lengths(batch) keys exist; batch: q_lengths(batch) queries too; documents: one "
           "batch holds "
           "documents one after the other, which begin at cu_q(n) and cu_k(n); query i belongs to "
           "document(i)"},
          {"page",
           "keys in a page: k and v are pages (d, slot, head, page), found by page_table(n, batch); 0: none"},
          {"guard", "form blocks: values that a query may not see do not reach it, NaN neither (rows: "
                    "always); tile kernels "
                    "need false"},
          {"round_weights",
           "the exponentials are rounded to a `type` of 16 bits before they are multiplied with v; tile "
           "kernels need true"},
          {"scale", "factor of the scores; 0: 1 / sqrt(D)"},
          {"lse", "log-sum-exp as a second output, log_sum_exp_out"},
          {"form", "auto: rows on a CPU, blocks elsewhere"},
          {"block", "keys in a block"},
          {"block_i", "queries for which blocks are skipped together"}},
     .alternatives = {{"block", {"128", "64", "80", "96", "48", "32"}},
                      {"guard", {"false"}},
                      {"round_weights", {"true"}}}})
