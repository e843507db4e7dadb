/** \file
 * Attention with its variants: softmax(scale · Q Kᵀ, changed and masked) · V, blocked over the keys.
 *
 * Layout (dimension 0 innermost; only its stride need be 1, so BHSD and BSHD views both fit):
 *   q(d, i, head, batch)   d < D, i < M queries, head < Hq
 *   k(d, j, head, batch)   j < N keys, head < Hkv; Hq must be a multiple of Hkv: query head h reads key head
 *   v(c, j, head, batch)   h / (Hq / Hkv). c < Dv, which need not be D
 *   out(c, i, head, batch), lse(i, head, batch)
 * Types: q, k, v of float32, float16 or bfloat16; scores, sums and lse in float32.
 *
 * A row without any allowed key (or all of whose allowed scores are -inf) gives exactly 0 and lse = -inf. A NaN in an
 * allowed score makes its row NaN. What stands where a query may not look (masked, past the end of its keys) has no effect,
 * NaN and infinities neither, in k nor in v (but see guard_values).
 *
 * The algorithm, in blocks of `block` keys, is associative (Milakov, Gimelshein 2018; Dao et al. 2022): for block t,
 *   b = max_j s,  p = e^(s - safe(b)),  sum = Σ_j p,  pv = Σ_j p v,
 *   m' = max(m, b), u = safe(m'):  (m, l, o) ← (m', l e^(m-u) + sum e^(b-u), o e^(m-u) + pv e^(b-u)),
 * from (-inf, 0, 0); out = o / l and lse = m + log l, or 0 and -inf where l = 0.
 *
 * Why there is a second Form: Halide lets no Func read itself through another one, so (m, l, o) is one Tuple and m, l
 * and the exponentials of the combination are carried once for each c. On a CPU a row of scores fits the cache, the final
 * m is known before the first product with V, and the combination with u = m alone needs no rescaling and no
 * exponentials: 1.2 to 1.35 times faster. The blocks, their skipping, the masks and the names of the Funcs are the same,
 * and so is the value up to rounding.
 */
#pragma once

#include <Halide.h>

#include <functional>
#include <string>
#include <vector>

namespace kiln::ops {

/// Where a score stands. Lengths are those of this call.
struct ScoreAt {
    Halide::Expr i, j;          ///< query and key
    Halide::Expr head, batch;   ///< of the query
    Halide::Expr queries, keys; ///< M and N
    Halide::Expr shift = {};    ///< of the diagonal, from KeyRange; undefined: N - M
    /// The key that stands at query i when both ends are aligned (causal is aligned bottom-right): i + shift.
    Halide::Expr diagonal() const { return shift.defined() ? i + shift : i + keys - queries; }
    /// i and j within [0, M) and [0, N), to read tensors by: in the last tiles they may lie beyond.
    Halide::Expr query() const { return Halide::clamp(i, 0, Halide::max(queries - 1, 0)); }
    Halide::Expr key() const { return Halide::clamp(j, 0, Halide::max(keys - 1, 0)); }
};

/// The keys that exist for a query, before any mask: [first, end), and the diagonal i + shift, which lies before `end`.
struct KeyRange {
    Halide::Expr first, end, shift;
    /// Keys of the batch that hold anything, the same for all its queries; undefined: all of the buffer. What stands from
    /// there on is never multiplied with, so that it may be NaN without guard_values too.
    Halide::Expr held = {};
};
/// As a function of the query. Along the queries of a batch `first` and `end` are monotone each, and where both are the
/// same for two queries that see any key, so is `shift`.
using KeyRanges = std::function<KeyRange(Halide::Expr i, Halide::Expr batch)>;

/// Padded batches: queries [0, q_lengths(batch)) and keys [0, k_lengths(batch)) exist, aligned at their ends. Queries past
/// the end see nothing. An undefined Func: all of them (`queries`).
KeyRanges lengths(const Halide::Func &q_lengths, const Halide::Func &k_lengths, Halide::Expr queries);

/// Documents one after the other in one batch ("packed", variable length): document n has the queries
/// [cu_q(n), cu_q(n + 1)) and the keys [cu_k(n), cu_k(n + 1)), aligned at their ends; both begin with 0 and never fall.
/// document(i), which never falls either, is the one that query i belongs to; `count`: none, no keys.
KeyRanges documents(const Halide::Func &document, const Halide::Func &cu_q, const Halide::Func &cu_k,
                    Halide::Expr count);

/// Keys or values in pages: pages(d, slot, head, page), of `page_size` slots; key j of a batch lies in
/// page table(j / page_size, batch), which is held within [0, page_count). The result, (d, j, head, batch), is meant to
/// be inlined: an indirect read.
Halide::Func paged(const std::string &name, const Halide::Func &pages, const Halide::Func &table,
                   Halide::Expr page_size, Halide::Expr page_count);

/// Whether key j may be seen by query i. Comparisons of i and j let whole blocks be skipped (see block_may_be_seen).
using Mask = std::function<Halide::Expr(const ScoreAt &)>;
/// A new score from the scaled one.
using ScoreChange = std::function<Halide::Expr(Halide::Expr score, const ScoreAt &)>;

Mask no_mask();
Mask causal(); ///< j <= i + N - M
/// i + N - M - left <= j <= i + N - M + right, both ends included; a negative bound is none.
Mask window(Halide::Expr left, Halide::Expr right);
Mask prefix(Halide::Expr length);        ///< causal, and the first `length` keys for every query
Mask both(const Mask &a, const Mask &b); ///< where both allow

ScoreChange no_change();
/// cap · tanh(score / cap); cap > 0 (Gemma 2).
ScoreChange softcap(Halide::Expr cap);
/// score - slope(head) · |diagonal - j| (Press, Smith, Lewis 2021), whether masked or not.
ScoreChange alibi(std::function<Halide::Expr(Halide::Expr head)> slope);
/// The slopes of that paper for `heads` a power of two: 2^(-8 (head + 1) / heads).
std::function<Halide::Expr(Halide::Expr head)> alibi_slopes(Halide::Expr heads);
/// score + values(j, i, head, batch); dimensions that the Func lacks, from the last on, are repeated.
ScoreChange score_bias(const Halide::Func &values);
/// score + table(clamp(j - diagonal, -reach, reach) + reach, head): a learned value for each distance (Shaw 2018, T5).
ScoreChange relative_bias(const Halide::Func &table, Halide::Expr reach);
ScoreChange then(const ScoreChange &first, const ScoreChange &second);

/// Whether a block of keys [j0, j1] may be seen by one of the queries [i0, i1]: what a user knows of a mask that interval
/// analysis does not see through. `at` gives head, batch and lengths. Coordinates may lie past the ends.
using BlockMask = std::function<Halide::Expr(const ScoreAt &at, Halide::Expr i0, Halide::Expr i1,
                                             Halide::Expr j0, Halide::Expr j1)>;

enum class Form {
    Blocks, ///< the Tuple above: GPU loops, tile kernels, split keys
    Rows,   ///< rows of scores, the final maximum first: CPU
};

struct AttentionOptions {
    Form form = Form::Blocks;
    int block = 64; ///< keys in a block
    /// Queries for which blocks are skipped together; a schedule splits `i` by it or a multiple.
    int block_i = 16;
    Halide::Expr scale; ///< undefined: 1 / √D
    Mask mask = no_mask();
    ScoreChange change = no_change();
    KeyRanges ranges;     ///< undefined: all keys, aligned at the end
    BlockMask block_seen; ///< undefined: what interval analysis finds of `mask` alone
    /// One more score in the sum of each row, which no value belongs to: out = Σ e^s v / (e^sink + Σ e^s), and the same sum
    /// in lse ("attention sink", Xiao et al. 2023 and gpt-oss). A row without keys gives 0 and lse = sink.
    std::function<Halide::Expr(Halide::Expr head)> sink;
    /// NaN and infinities in values that a query may not see do not reach it (0 · NaN is NaN). Blocks: where p is 0 no
    /// product is added. Rows: columns that came out as NaN are added up again without the products whose weight is 0.
    /// Without it only values past the end, or past KeyRange::held, have no effect: a plain product, which tile kernels need.
    bool guard_values = true;
    /// The exponentials are rounded to this type before they are multiplied with V (their sum is not): V's own for tensor
    /// cores, which multiply two numbers of 16 bits.
    Halide::Type weights = Halide::Float(32);
    /// The Func `out` is the Tuple (out, lse) of (c, i, head, batch): a schedule that places it serves both outputs, since
    /// nothing else then reads m and acc.
    bool with_lse = false;
    std::string prefix; ///< put before the names of all Funcs
};

struct AttentionShape {
    Halide::Expr d, queries, keys;
    Halide::Expr heads, kv_heads;
};

struct Attention {
    /// Blocks: k_block(d, j, t, head, batch): the keys by blocks, its last one filled up.
    Halide::Func k_block;
    /// Rows: q_block(d, i, ib, head, batch): the queries by blocks of block_i, the last one filled up. In this form all
    /// Funcs up to `acc` have `ib` after `i`, and the query is block_i · ib + i.
    Halide::Func q_block;
    /// With ranges: the Tuple (first, end, shift) of a query, range(i, batch), Rows range(i, ib, batch).
    Halide::Func range;
    /// Blocks, without guard_values, where KeyRange::held is defined: v with zeros from there on, v_held(c, j, head, batch). To
    /// be placed before a tile kernel, which copies it.
    Halide::Func v_held;
    Halide::Func qk;  ///< qk(j, t, i, head, batch) = Σ_d q k, update over `rd`; j < block, t the block
    Halide::Func s;   ///< the score: scaled, changed, -inf where masked
    Halide::Func b;   ///< the block's maximum, b(t, i, head, batch), update over `rj`
    Halide::Func m;   ///< Rows: the maximum of all, m(i, ib, head, batch), update over `rm`
    Halide::Func p;   ///< e^(s - b), with Rows e^(s - m)
    Halide::Func sum; ///< Σ_j p, update over `rj`
    Halide::Func pv;  ///< pv(c, t, i, head, batch) = Σ_j p v, update over `rv`
    Halide::Func
        acc; ///< Blocks: the Tuple (m, l, o)(c, i, head, batch), Rows: (l, o)(c, i, ib, head, batch); over `rt`
    /// Rows with guard_values: the largest |o| of a column, as bits, o_top(c, ib, head, batch) over `ri`, and for columns
    /// where that is NaN the sum again, without the products whose weight is 0: o_again(c, i, ib, head, batch) over `rg`.
    Halide::Func o_top, o_again;
    Halide::Func
        out; ///< float32, (c, i, head, batch); with_lse: reads the Tuple of that name and is `out_value`
    Halide::Func lse; ///< float32, (i, head, batch); with_lse: reads that Tuple at c = 0
};

/// Builds all of the above. Throws nothing: shapes are checked by the caller's constraints.
Attention attention(const Halide::Func &q, const Halide::Func &k, const Halide::Func &v,
                    const AttentionShape &shape, const AttentionOptions &options = {});

/// From a mask, whether any query of [i0, i1] may see any key of [j0, j1]: the upper bound of the predicate over the
/// box, by interval analysis. True where that knows no answer. `at` gives heads, batches and lengths; where it has a shift,
/// [shift_low, shift_high] is that of the box.
Halide::Expr block_may_be_seen(const Mask &mask, const ScoreAt &at, Halide::Expr i0, Halide::Expr i1,
                               Halide::Expr j0, Halide::Expr j1, Halide::Expr shift_low = {},
                               Halide::Expr shift_high = {});

} // namespace kiln::ops
