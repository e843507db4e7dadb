// The passes that know arithmetic: what each makes of attention and its relatives, and where each keeps its hands off.
#include "dsl/tile/build/Build.h"
#include "dsl/tile/ir/Text.h"
#include "dsl/tile/passes/Algebra.h"
#include "dsl/tile/passes/Passes.h"
#include "tests/correctness/tile_programs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <sstream>

namespace kiln::tile {
namespace {

const float inf = std::numeric_limits<float>::infinity();

Kernel built(const std::string &program) {
    const Program p = tile_program(program);
    return build_kernel(p.plan, p.outputs);
}

/// All passes up to and with `last`.
Kernel through(Kernel k, const std::string &last) {
    DeviceLimits hopper;
    hopper.shared_bytes = 232448;
    const std::vector<Pass> &all = passes();
    size_t end = all.size();
    while (end > 0 && all[end - 1].name != last) {
        end--;
    }
    for (size_t i = 0; i < end; i++) {
        all[i].run(k, hopper);
    }
    return k;
}

std::string replaced(std::string text, const std::string &what, const std::string &by) {
    size_t at = text.find(what);
    EXPECT_NE(at, std::string::npos) << what << " in\n" << text;
    for (; at != std::string::npos; at = text.find(what, at + by.size())) {
        text.replace(at, what.size(), by);
    }
    return text;
}

/// The program with text in its IR replaced.
Kernel changed(const std::string &program, const std::string &what, const std::string &by) {
    return parse_kernel(replaced(print(built(program)), what, by));
}

/// The lines from the first that begins with `from` to the first that begins with `to`, or to the end, without notes.
std::string lines(const Kernel &k, const std::string &from, const std::string &to = "") {
    std::istringstream text(print(k));
    std::string out, line;
    while (std::getline(text, line)) {
        line = line.substr(0, line.find("  //"));
        line.erase(0, line.find_first_not_of(' '));
        if (!out.empty() || line.starts_with(from)) {
            out += line + "\n";
            if (!to.empty() && line.starts_with(to)) {
                return out;
            }
        }
    }
    return out;
}

bool has_remark(const Kernel &k, const std::string &remark) {
    return std::find(k.remarks.begin(), k.remarks.end(), remark) != k.remarks.end();
}

// ---- Algebra

/// score over (i, r), its maximum top over r and another maximum below a limit, carried o, and z that is anything.
Kernel small() {
    return parse_kernel(R"(kernel k {
  axes i:64, r:64
  rows i
  input x: f32 rank 2
  output y: f32 rank 1
  body {
    for t in 0 .. x.extent.1 carry o: f32[i:64] = -inf then o_next {
      z: f32[i:64, r:64] = map x[%i, t*64 + %r]
      score: f32[i:64, r:64] = map select(%r <= t, z*0.5, -inf)
      top: f32[i:64] = reduce max over r of score
      part: f32[i:64] = reduce max over r below x.extent.0 of score
      o_next: f32[i:64] = map max(o, top)
    }
    store y[0 + %i] = o
  }
}
)");
}

Expr safe(const Expr &m) {
    return Halide::Internal::Select::make(m == -inf, 0.0f, m);
}

TEST(TileAlgebra, TakesSumsAndProductsApart) {
    const Kernel k = small();
    const Expr a = k.ref("top"), b = k.ref("o"), c = k.ref("part");
    EXPECT_EQ(print(k, sum_of(terms(a - (b - c)))), "top + part - o");
    EXPECT_EQ(print(k, sum_of(terms(a + b - c))), "top + o - part");
    EXPECT_EQ(factors(a * (b * c)).size(), 3u);
    EXPECT_EQ(print(k, product_of(factors(a * (b * c)))), "top*o*part");
    EXPECT_TRUE(same(guarded_from_minus_inf(safe(a)), a));
    EXPECT_FALSE(guarded_from_minus_inf(Halide::Internal::Select::make(a == -inf, 1.0f, a)).defined());
    EXPECT_TRUE(is_number(positive_factor(a * 0.25f)->factor, 0.25));
    EXPECT_FALSE(positive_factor(a * -0.25f));
    EXPECT_FALSE(positive_factor(a * b));
    const Expr masked = Halide::Internal::Select::make(b > 0.0f, a * 0.25f, -inf);
    EXPECT_EQ(print(k, positive_factor(masked)->value), "select(o > 0.0, top, -inf)");
    EXPECT_FALSE(positive_factor(Halide::Internal::Select::make(b > 0.0f, a * 0.25f, 0.0f)));
}

TEST(TileAlgebra, ProvesWhatMaximaAndSelectsSay) {
    const Kernel k = small();
    const Prover p(k, "r");
    const Expr score = k.ref("score"), top = k.ref("top"), o = k.ref("o"), z = k.ref("z");
    EXPECT_TRUE(p.at_most(score, top));
    EXPECT_TRUE(p.at_most(score, max(o, top)));
    EXPECT_TRUE(p.at_most(score, k.ref("o_next")));
    EXPECT_TRUE(p.at_most(o, max(o, top)));
    EXPECT_TRUE(p.at_most(min(score, z), top));
    EXPECT_TRUE(p.at_most(score * 0.5f, top * 0.5f));
    EXPECT_TRUE(p.at_most(Expr(-inf), z));
    EXPECT_TRUE(p.not_positive(score - top));
    EXPECT_TRUE(p.not_positive(score - safe(top))); // where top is -inf, so is score
    EXPECT_TRUE(p.not_positive(o - safe(max(o, top))));
    EXPECT_TRUE(p.is_maximum(top, score));
    EXPECT_TRUE(p.bounds_from_above(k.ref("o_next"), score));
    EXPECT_TRUE(p.bounds_from_above(max(o, top * 0.5f), score));
}

TEST(TileAlgebra, DoesNotProveWhatNeedNotHold) {
    const Kernel k = small();
    const Prover p(k, "r");
    const Expr score = k.ref("score"), top = k.ref("top"), o = k.ref("o"), z = k.ref("z");
    EXPECT_FALSE(p.at_most(top, score));
    EXPECT_FALSE(p.at_most(z, top)); // z is not what the maximum is taken of
    EXPECT_FALSE(p.at_most(score, o));
    EXPECT_FALSE(p.at_most(score, min(o, top)));
    EXPECT_FALSE(p.at_most(max(score, z), top));
    EXPECT_FALSE(p.at_most(score * -0.5f, top * -0.5f)); // turns round
    EXPECT_FALSE(p.at_most(score * 0.5f, top * 0.25f));
    EXPECT_FALSE(p.at_most(score, k.ref("part"))); // elements from the limit on are in no maximum
    EXPECT_FALSE(p.not_positive(top - safe(o)));
    EXPECT_FALSE(p.not_positive(score - safe(o)));
    EXPECT_FALSE(p.not_positive(score - Halide::Internal::Select::make(o == -inf, 0.0f, top)));
    EXPECT_FALSE(p.not_positive(score + top));
    EXPECT_FALSE(p.not_positive(score));
    EXPECT_FALSE(p.is_maximum(top, z));
    EXPECT_FALSE(Prover(k, "i").is_maximum(top, score)); // it is one over r
    EXPECT_FALSE(p.bounds_from_above(o, score));
    EXPECT_FALSE(p.bounds_from_above(k.ref("o_next") * -1.0f, score));
    // Within a sum below the same limit the elements past it are not looked at.
    const Prover below(k, "r", Halide::Internal::Variable::make(Halide::Int(32), "x.extent.0"));
    EXPECT_TRUE(below.at_most(score, k.ref("part")));
    EXPECT_TRUE(below.is_maximum(k.ref("part"), score));
}

TEST(TileAlgebra, MergesExponentsThatAreAtMostZero) {
    const Kernel k = small();
    const Prover p(k, "r");
    const Expr score = k.ref("score"), top = k.ref("top"), o = k.ref("o"), now = max(o, top);
    EXPECT_EQ(print(k, p.merge_exponents(score - safe(top), top - safe(now))),
              "exp_f32(score - select(max(o, top) == -inf, 0.0, max(o, top)))");
    EXPECT_FALSE(p.merge_exponents(score - safe(o), top - safe(now)).defined());
    EXPECT_FALSE(p.merge_exponents(score - safe(top), now - safe(top)).defined());
    // Over another axis top is no maximum that some element reaches: where it is +inf the terms must stay.
    EXPECT_EQ(print(k, Prover(k, "i").merge_exponents(score - safe(top), top - safe(now))),
              "exp_f32(score + top - select(top == -inf, 0.0, top) - select(max(o, top) == -inf, 0.0, max(o, "
              "top)))");
}

// ---- rewrite_running, scale_exp2, hoist_slices, block_ranges, defer_lanes on attention

TEST(TileRunning, BlockedAttentionBecomesTheRunningForm) {
    EXPECT_EQ(lines(through(built("attention"), "fold_starts"), "top:", "}"),
              R"(top: f32[i:128] = reduce max over r of score
values: bf16[d:64, r:64] of value = copy value[0 + %d, rto*64 + %r, ho]
o_next: f32[i:128] of o = map max(o, top)
p1: f32[i:128, r:64] of p = map exp_f32(score - select(max(o, top) == -inf, 0.0, max(o, top)))
total1: f32[i:128] of total = reduce sum over r of p1
o1_next: f32[i:128] of o = map o1*exp_f32(o - select(max(o, top) == -inf, 0.0, max(o, top))) + total1
pv_a1: bf16[i:128, r:64] of pv = map bf16(p1)
o2_next_start: f32[d:64, i:128] of pv = map o2*exp_f32(o - select(max(o, top) == -inf, 0.0, max(o, top)))
o2_next: f32[d:64, i:128] of o = mma(o2_next_start, pv_a1, values; r)
}
)");
}

TEST(TileRunning, AFactorThatMayBeInfiniteStaysOutside) {
    // Without the maximum in it, the factor of the block's sum may be any number.
    const Kernel k =
        through(changed("attention", "exp_f32(top - select(max(o, top) == -inf, 0.0, max(o, top)))",
                        "exp_f32(top - select(o == -inf, 0.0, o))"),
                "rewrite_running");
    EXPECT_TRUE(has_remark(k,
                           "rewrite_running: a factor of the sum `total` stays outside: no proof that both "
                           "of its exponents are at most 0"));
    EXPECT_TRUE(k.tiles.count("total"));
    EXPECT_FALSE(k.tiles.count("total1"));
}

TEST(TileRunning, TermsWithOtherReadersAreNotComputedTwice) {
    const Kernel k = through(changed("attention", "o_next: f32[i:128] of o = map max(o, top)",
                                     "most: f32[i:128] of o = reduce max over r of p\n"
                                     "o_next: f32[i:128] of o = map max(max(o, top), most*0.0)"),
                             "rewrite_running");
    EXPECT_TRUE(has_remark(k, "rewrite_running: nothing was merged: the exponentials of a sum that is scaled "
                              "have readers besides, and would be computed twice"));
    EXPECT_TRUE(k.tiles.count("p"));
    EXPECT_FALSE(k.tiles.count("p1"));
}

TEST(TileRunning, TheLoopOfAttentionBeforeItsLayouts) {
    EXPECT_EQ(
        lines(through(built("attention"), "defer_lanes"), "for rto", "lse:"),
        "for rto in 0 .. min((key.extent.1 + 63)/64, min((key.extent.1 + -1)/64, io*2 + 1) + 1) untested 0 "
        ".. min(key.extent.1/64, io*2 + wg) carry o: f32[i:128] = -inf then o_next, o1: f32[i:128] of o "
        "partial = 0.0 then o1_next, o2: f32[d:64, i:128] of o = 0.0 then o2_next {\n"
        R"(keys: bf16[r:64, rd:64] of key = copy key[0 + %rd, rto*64 + %r, ho]
s: f32[i:128, r:64] = mma(0, qs, keys; rd)
score: f32[i:128, r:64] = map select(rto*64 + %r <= io*128 + %i && rto*64 + %r < key.extent.1, s, -inf) unless rto + 1 <= io*2 + wg && rto*64 < key.extent.1 + -63
top: f32[i:128] = reduce max over r of score
o_next: f32[i:128] of o = map max(o, top*0.125)
row: f32[i:128] of p = map select(o_next == -inf, 0.0, o_next)*1.442695
row1: f32[i:128] of pv = map exp2_f32(o*1.442695 - row)
values: bf16[d:64, r:64] of value = copy value[0 + %d, rto*64 + %r, ho]
p1: f32[i:128, r:64] of p = map exp2_f32(score*0.18033688 - row)
total1: f32[i:128] of total partial = reduce sum over r of p1
o1_next: f32[i:128] of o partial = map o1*row1 + total1
pv_a1: bf16[i:128, r:64] of pv = map bf16(p1)
o2_next_start: f32[d:64, i:128] of pv = map o2*row1
o2_next: f32[d:64, i:128] of o = mma(o2_next_start, pv_a1, values; r)
}
o1_all: f32[i:128] of o = lane_reduce sum o1
lse: f32[i:128] = map select(o1_all > 0.0, o + log_f32(o1_all), -inf)
)");
}

TEST(TileRunning, ChangedScoresKeepTheForm) {
    const Kernel k = through(built("attention_window"), "defer_lanes");
    // The cap's factor leaves mask and maximum; what is capped is a tile, so that the mask alone can be left out.
    EXPECT_EQ(lines(k, "score_in:", "score_in:"),
              "score_in: f32[i:128, r:64] of score = map 1.0 + tanh_f32(s*0.0625) - 1.0\n");
    EXPECT_EQ(lines(k, "o_next:", "o_next:"), "o_next: f32[i:128] of o = map max(o, top*2.0)\n");
    EXPECT_EQ(lines(k, "p1:", "p1:"), "p1: f32[i:128, r:64] of p = map exp2_f32(score*2.88539 - row)\n");
    EXPECT_EQ(lines(k, "o2_next:", "o2_next:"),
              "o2_next: f32[d:64, i:128] of o = mma(o2_next_start, pv_a1, values; r)\n");
}

// ---- scale_exp2 and hoist_slices, each alone

/// A body over (i, r) after the pass: its lines.
std::string after(void (*pass)(Kernel &), const std::string &body) {
    Kernel k = parse_kernel(
        "kernel k {\n  axes i:64, r:64\n  rows i\n  input x: f32 rank 2\n  output y: f32 rank 1\n"
        "  output w: f32 rank 2\n  body {\n" +
        body + "  }\n}\n");
    pass(k);
    const std::string all = lines(k, "body {", "}");
    return all.substr(7, all.size() - 9);
}

TEST(TileExp2, AFactorThatOnlyExponentialsAndMaximaReadLeavesTheTile) {
    EXPECT_EQ(after(scale_exp2, R"(s: f32[i:64, r:64] = map select(%r < 9, x[%i, %r]*0.5, -inf)
m: f32[i:64] = reduce max over r of s
e: f32[i:64, r:64] = map exp_f32(s - m)
l: f32[i:64] = reduce sum over r of e
store y[0 + %i] = l
store w[0 + %i, 0 + %r] = e
)"),
              R"(s: f32[i:64, r:64] = map select(%r < 9, x[%i, %r]*0.5, -inf)
m: f32[i:64] = reduce max over r of s
e: f32[i:64, r:64] = map exp2_f32(s*1.442695 - m*1.442695)
l: f32[i:64] = reduce sum over r of e
store y[0 + %i] = l
store w[0 + %i, 0 + %r] = e
)"); // what holds no tile has no product to fold into: its factor stays
    EXPECT_EQ(after(scale_exp2, R"(z: f32[i:64, r:64] = map x[%i, %r]
s: f32[i:64, r:64] = map select(%r < 9, z*0.5, -inf)
m: f32[i:64] = reduce max over r of s
e: f32[i:64, r:64] = map exp_f32(s - m)
l: f32[i:64] = reduce sum over r of e
store y[0 + %i] = l
store w[0 + %i, 0 + %r] = e
)"),
              R"(z: f32[i:64, r:64] = map x[%i, %r]
s: f32[i:64, r:64] = map select(%r < 9, z, -inf)
m: f32[i:64] = reduce max over r of s
e: f32[i:64, r:64] = map exp2_f32(s*0.7213475 - m*0.7213475)
l: f32[i:64] = reduce sum over r of e
store y[0 + %i] = l
store w[0 + %i, 0 + %r] = e
)");
}

TEST(TileExp2, AFactorStaysWhereTheTileIsReadOtherwise) {
    // Stored; negative, so that the maximum turns; masked by something else than -inf; added up.
    for (const char *body : {R"(z: f32[i:64, r:64] = map x[%i, %r]
s: f32[i:64, r:64] = map z*0.5
l: f32[i:64] = reduce sum over r of exp_f32(s)
store y[0 + %i] = l
store w[0 + %i, 0 + %r] = s
)",
                             R"(z: f32[i:64, r:64] = map x[%i, %r]
s: f32[i:64, r:64] = map z*-0.5
e: f32[i:64, r:64] = map exp_f32(s)
l: f32[i:64] = reduce max over r of s
store y[0 + %i] = l
store w[0 + %i, 0 + %r] = e
)",
                             R"(z: f32[i:64, r:64] = map x[%i, %r]
s: f32[i:64, r:64] = map select(%r < 9, z*0.5, 0.0)
e: f32[i:64, r:64] = map exp_f32(s)
l: f32[i:64] = reduce max over r of s
store y[0 + %i] = l
store w[0 + %i, 0 + %r] = e
)",
                             R"(z: f32[i:64, r:64] = map x[%i, %r]
s: f32[i:64, r:64] = map z*0.5
e: f32[i:64, r:64] = map exp_f32(s)
l: f32[i:64] = reduce sum over r of s
store y[0 + %i] = l
store w[0 + %i, 0 + %r] = e
)"}) {
        EXPECT_EQ(after(scale_exp2, body), replaced(body, "exp_f32(s)", "exp2_f32(s*1.442695)"));
    }
}

TEST(TileExp2, ConstantsOfAnExponentAreFolded) {
    EXPECT_EQ(after(scale_exp2, R"(z: f32[i:64, r:64] = map x[%i, %r]
e: f32[i:64, r:64] = map exp_f32(z*2.0*0.25 - 1.0)
l: f32[i:64] = reduce max over r of e
store y[0 + %i] = l
store w[0 + %i, 0 + %r] = e
)"),
              R"(z: f32[i:64, r:64] = map x[%i, %r]
e: f32[i:64, r:64] = map exp2_f32(z*0.7213475 - 1.442695)
l: f32[i:64] = reduce max over r of e
store y[0 + %i] = l
store w[0 + %i, 0 + %r] = e
)");
}

TEST(TileSlices, WhatDependsOnTheRowsAloneIsComputedOnceARow) {
    EXPECT_EQ(after(hoist_slices, R"(z: f32[i:64, r:64] = map x[%i, %r]
m: f32[i:64] = reduce sum over r of z
e: f32[i:64, r:64] = map z/sqrt_f32(m + 1.0)
l: f32[i:64] = map sqrt_f32(m + 1.0)*m
store y[0 + %i] = l
store w[0 + %i, 0 + %r] = e
)"),
              R"(z: f32[i:64, r:64] = map x[%i, %r]
m: f32[i:64] = reduce sum over r of z
row: f32[i:64] of e = map sqrt_f32(m + 1.0)
l: f32[i:64] = map row*m
e: f32[i:64, r:64] = map z/row
store y[0 + %i] = l
store w[0 + %i, 0 + %r] = e
)");
}

TEST(TileSlices, CoordinatesViewsAndColumnsStay) {
    // Neither a view's element nor a coordinate is a tile's; a column's value would take many registers.
    const std::string body = R"(z: f32[i:64, r:64] = map x[%i, %r]
c: f32[r:64] = map x[%r, 0]
e: f32[i:64, r:64] = map z*sqrt_f32(x[%i, 0]) + sqrt_f32(c) + sqrt_f32(f32(%i))
l: f32[i:64] = reduce sum over r of e
store y[0 + %i] = l
store w[0 + %i, 0 + %r] = e
)";
    EXPECT_EQ(after(hoist_slices, body), body);
}

// ---- lift_bits

TEST(TileBits, TestsAndMasksOfBitsBecomeWhatTheyMean) {
    EXPECT_EQ(after(lift_bits, R"(z: f32[i:64, r:64] = map x[%i, %r]
e: f32[i:64, r:64] = map reinterpret_f32(@bitwise_or(@bitwise_and(reinterpret_u32(z), select(%r < 9, 4294967295:u32, 0:u32)), @bitwise_and(4286578688:u32, @bitwise_not(select(%r < 9, 4294967295:u32, 0:u32)))))
m: f32[i:64] = reduce max over r of e
l: f32[i:64] = map select(4286578672:u32 < reinterpret_u32(m), 0.0, m) + select(@bitwise_and(reinterpret_u32(m), 2147483647:u32) == 0:u32, 1.0, m)
store y[0 + %i] = l
store w[0 + %i, 0 + %r] = e
)"),
              R"(z: f32[i:64, r:64] = map x[%i, %r]
e: f32[i:64, r:64] = map select(%r < 9, z, -inf)
m: f32[i:64] = reduce max over r of e
l: f32[i:64] = map select(m == -inf, 0.0, m) + select(m == 0.0, 1.0, m)
store y[0 + %i] = l
store w[0 + %i, 0 + %r] = e
)");
}

TEST(TileBits, OtherBitsStay) {
    // Another constant where masked; bits that keep something of the number; a bound that large numbers exceed too.
    const std::string body = R"(z: f32[i:64, r:64] = map x[%i, %r]
e: f32[i:64, r:64] = map reinterpret_f32(@bitwise_or(@bitwise_and(reinterpret_u32(z), select(%r < 9, 4294967295:u32, 0:u32)), 7:u32))
m: f32[i:64] = reduce max over r of e
l: f32[i:64] = map select(4286578000:u32 < reinterpret_u32(m), 0.0, m) + select(@bitwise_and(reinterpret_u32(m), 255:u32) == 0:u32, 1.0, m)
store y[0 + %i] = l
store w[0 + %i, 0 + %r] = e
)";
    EXPECT_EQ(after(lift_bits, body), body);
}

// ---- block_ranges

std::string loop_of(const Kernel &k) {
    const std::string line = lines(k, "for rto", "for rto");
    return line.substr(0, line.find(" carry"));
}

TEST(TileRanges, BlocksOfAWindow) {
    // Rows 128 io … 128 io + 127 see keys from 299 before the first: blocks of 64 from 2 io - 5 on.
    const Kernel k = through(changed("attention_window", "< 70", "< 300"), "block_ranges");
    EXPECT_EQ(loop_of(k), "for rto in max(io*2, 5) + -5 .. min((key.extent.1 + 63)/64, min((key.extent.1 + "
                          "-1)/64, io*2 + 1) + 1) "
                          "untested max(io*2 + wg, 3) + -3 .. min(key.extent.1/64, io*2 + wg)");
    EXPECT_TRUE(
        has_remark(k, "block_ranges: `rto` leaves out iterations whose elements of `score` are all masked"));
    // A window that no block lies in altogether is tested everywhere.
    EXPECT_EQ(loop_of(through(built("attention_window"), "block_ranges")),
              "for rto in max(io, 1)*2 + -2 .. min((key.extent.1 + 63)/64, min((key.extent.1 + -1)/64, io*2 "
              "+ 1) + 1)");
}

TEST(TileRanges, OnlyTheLastBlockOfFullAttentionIsTested) {
    EXPECT_EQ(loop_of(through(built("attention_full"), "block_ranges")),
              "for rto in 0 .. (key.extent.1 + 63)/64 untested 0 .. key.extent.1/64");
}

TEST(TileRanges, WarpgroupsThatTakeWholeTilesHaveAllRows) {
    Kernel k = built("attention");
    k.plan.ping_pong = true;
    EXPECT_EQ(loop_of(through(k, "block_ranges")), "for rto in 0 .. min((key.extent.1 + 63)/64, "
                                                   "min((key.extent.1 + -1)/64, io*2 + 1) + 1) untested 0 .. "
                                                   "min(key.extent.1/64, io*2)");
}

TEST(TileRanges, AMaskedWeightNeedsNoMaximum) {
    EXPECT_EQ(loop_of(through(built("sigmoid_attention"), "block_ranges")),
              "for rto in 0 .. min((key.extent.1 + 63)/64, min((key.extent.1 + -1)/64, io*2 + 1) + 1) "
              "untested 0 .. "
              "min(key.extent.1/64, io*2 + wg)");
}

// Each of these would be wrong to leave out, and says so.
TEST(TileRanges, WhatIsNotProvedIsNotLeftOut) {
    const std::string all =
        "for rto in 0 .. (key.extent.1 + 63)/64 untested 0 .. min(key.extent.1/64, io*2 + wg)";
    const std::string says =
        "block_ranges: iterations of `rto` whose elements of `{}` are all masked are not left out: ";
    auto check = [&](const std::string &program, const std::string &what, const std::string &by,
                     const std::string &tile, const std::string &why) {
        const Kernel k = through(changed(program, what, by), "block_ranges");
        EXPECT_EQ(loop_of(k), all);
        EXPECT_TRUE(has_remark(k, replaced(says, "{}", tile) + why)) << print(k);
    };
    // A masked key has a small weight, not none.
    check("sigmoid_attention", ", 0.0)\n", ", 0.5)\n", "p", "`o` would become `o_next`");
    // Without the guard of a maximum of nothing, what is carried becomes NaN.
    check("attention", "select(max(o, top) == -inf, 0.0, max(o, top))", "max(o, top)", "score",
          "`o1` would become nan + total1");
    // Every block adds one.
    check("attention", "o1_next: f32[i:128] of o = map ", "o1_next: f32[i:128] of o = map 1.0 + ", "score",
          "`o1` would become 1.0 + o1");
}

// ---- defer_lanes

TEST(TileLanes, ASumThatTheLoopReadsMeetsInIt) {
    const Kernel k = through(changed("attention", "o_next: f32[i:128] of o = map max(o, top)",
                                     "o_next: f32[i:128] of o = map max(o, top + o1)"),
                             "defer_lanes");
    EXPECT_FALSE(k.tile("o1").partial);
    EXPECT_TRUE(through(built("attention"), "defer_lanes").tile("o1").partial);
    EXPECT_TRUE(through(built("gemm_rms"), "defer_lanes").tile("sq").partial);
}

TEST(TileLanes, WithoutAProductThreadsMeetInTheLoop) {
    for (const char *program : {"row_softmax", "layer_norm", "column_sums"}) {
        for (const auto &[name, t] : through(built(program), "defer_lanes").tiles) {
            EXPECT_FALSE(t.partial) << program << " " << name;
        }
    }
}

// ---- pipeline_stage

Kernel staged(Kernel k) {
    return through(std::move(k), "inject_pipeline");
}

TEST(TileStages, TheNextScoresRunUnderTheLastValues) {
    const std::string all = lines(staged(built("attention")), "role consumer");
    const size_t loop = all.find("for rto in 1 ..");
    ASSERT_NE(loop, std::string::npos) << all;
    const size_t body = all.find('\n', loop) + 1;
    EXPECT_EQ(all.substr(body, all.find("}\n", body) - body), R"(wait full ring1
mma_fence
s = mma(0, qs, keys; rd)
advance ring1
mma_commit
wait full ring2
mma_fence
o2_next: f32[d:64, i:128] of o @L1 in o2_next_start = mma(o2_next_start, pv_a1, values; r)
advance ring2
mma_commit
mma_wait 1
release ring1
top = reduce max over r @L2 of score
o_next = map max(o, top*0.125)
row = map select(o_next == -inf, 0.0, o_next)*1.442695
row1 = map exp2_f32(o*1.442695 - row)
p1 = map exp2_f32(score*0.18033688 - row)
total1 = reduce sum over r @L2 of p1
o1_next = map o1*row1 + total1
mma_wait 0
release ring2
pv_a1 = map bf16(p1)
o2_next_start = map o2*row1
o = move o_next
o1 = move o1_next
)");
    // The queries' slot goes back before the last product, which reads none of it.
    const size_t tail = all.find("advance ring\n");
    EXPECT_EQ(all.substr(tail, all.find("} else {", tail) - tail), R"(advance ring
release ring
wait full ring2
mma_fence
o2_next = mma(o2_next_start, pv_a1, values; r)
advance ring2
mma_commit
mma_wait 0
release ring2
)");
}

TEST(TileStages, RefusesWhatWouldChangeTheResult) {
    auto refusal = [](const Kernel &k) -> std::string {
        try {
            staged(k);
        } catch (const Error &e) {
            return e.what();
        }
        return "";
    };
    const std::string help = "   = help: leave out its pipeline_stage\n";
    Kernel k = built("attention");
    k.plan.products["pv"].stage = 2;
    EXPECT_EQ(refusal(k),
              "error[K1124]: `pv` cannot run an iteration of `rto` late: stage 2 is asked for, there are 0 "
              "and 1\n" +
                  help);
    k = built("attention");
    k.plan.producers = 0;
    EXPECT_EQ(refusal(k),
              "error[K1124]: `pv` cannot run an iteration of `rto` late: no producer fills slots ahead\n" +
                  help);
    // Keys that are the values too lie in one slot.
    std::string text = print(built("attention"));
    for (const auto &[what, by] : std::vector<std::pair<std::string, std::string>>{
             {"      values: bf16[d:64, r:64] of value = copy value[0 + %d, rto*64 + %r, ho]\n", ""},
             {"keys: bf16[r:64, rd:64] of key = copy key[",
              "values: bf16[r:64, rd:64] of value = copy value["},
             {"mma(0, qs, keys; rd)", "mma(0, qs, values; rd)"},
             {"[d:64, i:128]", "[rd:64, i:128]"},
             {"y[0 + %d,", "y[0 + %rd,"},
             {"axes d:64, ", "axes "}}) {
        text = replaced(text, what, by);
    }
    EXPECT_EQ(refusal(parse_kernel(text)),
              "error[K1124]: `pv` cannot run an iteration of `rto` late: `s` reads the same slot in time\n" +
                  help);
    // What follows the late product comes too late for what it needs of its own iteration.
    const std::string scaled = "pv*exp_f32(top - select(max(o, top) == -inf, 0.0, max(o, top)))";
    EXPECT_EQ(refusal(changed("attention", scaled, "pv*o")),
              "error[K1124]: `pv` cannot run an iteration of `rto` late: it needs `o`, which is replaced in "
              "time\n" +
                  help);
    // What the next iteration would overwrite waits until the late statements have read it.
    EXPECT_EQ(refusal(changed("attention", scaled, "pv*total")), "");
}

} // namespace
} // namespace kiln::tile
