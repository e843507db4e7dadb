// The passes from tiles to roles, on a kernel written by hand: what must stand where, and what is refused.
#include "dsl/tile/ir/Text.h"
#include "dsl/tile/passes/Passes.h"

#include <gtest/gtest.h>

#include <functional>
#include <sstream>

namespace kiln::tile {
namespace {

using Halide::BFloat;
using Halide::Float;
using Halide::Int;

Expr var(const std::string &name) {
    return Halide::Internal::Variable::make(Int(32), name);
}

/// y = bf16(Σ_k x(k, m) w(k, n) + bias(n)), a block of 128 x 256.
Kernel product() {
    Kernel k;
    k.name = "y";
    k.plan.kernel = "y";
    k.plan.rows = "m";
    k.plan.products["acc"] = {};
    k.plan.copies["x"].stages = 4;
    k.plan.copies["w"].stages = 4;
    k.axes = {{"k", 64}, {"m", 128}, {"n", 256}};
    k.row_axis = "m";
    k.views = {{"x", BFloat(16), 2, false},
               {"w", BFloat(16), 2, false},
               {"bias", Float(32), 1, false},
               {"y", BFloat(16), 2, true}};
    k.grid = {{"no", (var("y.extent.0") + 255) / 256}, {"mo", (var("y.extent.1") + 127) / 128}};
    k.add_tile("acc", Float(32), {"m", "n"}, "acc");
    k.add_tile("acc_next", Float(32), {"m", "n"}, "acc");
    k.add_tile("xs", BFloat(16), {"k", "m"}, "x");
    k.add_tile("ws", BFloat(16), {"k", "n"}, "w");
    k.add_tile("ys", BFloat(16), {"m", "n"}, "y");
    Expr ko = var("ko") * 64;
    For loop{"ko", 0, (var("x.extent.0") + 63) / 64, {{"acc", 0.f, "acc_next"}}, {}};
    loop.body = {{Copy{"xs", {"x", {{ko, "k"}, {var("mo") * 128, "m"}}}}, "x"},
                 {Copy{"ws", {"w", {{ko, "k"}, {var("no") * 256, "n"}}}}, "w"},
                 {Mma{"acc_next", "acc", "xs", "ws", "k", {}, {}}, "acc"}};
    Expr bias = Halide::Internal::Call::make(Float(32), "view:bias", {var("no") * 256 + k.axis_var("n")},
                                             Halide::Internal::Call::PureExtern);
    k.body = {{loop, "acc"},
              {Map{"ys", Halide::cast(BFloat(16), k.ref("acc") + bias), {}}, "y"},
              {Store{{"y", {{var("no") * 256, "n"}, {var("mo") * 128, "m"}}}, "ys"}, "y"}};
    return k;
}

DeviceLimits hopper() {
    DeviceLimits l;
    l.shared_bytes = 232448;
    return l;
}

Kernel lowered(Kernel k) {
    plan_layouts(k);
    plan_shared(k, hopper());
    inject_pipeline(k);
    lower_stores(k);
    return k;
}

/// The lines of the kernel's body without their remarks, from the first that begins with `from` on, `count` of them.
std::string lines(const Kernel &k, const std::string &from, int count) {
    std::istringstream text(print(k));
    std::string out, line;
    while (std::getline(text, line)) {
        line = line.substr(0, line.find("  //"));
        line.erase(0, line.find_first_not_of(' '));
        if ((!out.empty() || line.starts_with(from)) && count-- > 0) {
            out += line + "\n";
        }
    }
    return out;
}

std::string refusal(Kernel k) {
    try {
        lowered(std::move(k));
    } catch (const Error &e) {
        return e.what();
    }
    return "";
}

TEST(TilePasses, TheProducerFillsTheRing) {
    EXPECT_EQ(lines(lowered(product()), "role producer", 8),
              R"(role producer warpgroups 1 from 2 threads 1 registers 40 {
for each tile {
for ko in 0 .. (x.extent.0 + 63)/64 {
wait empty ring
expect ring bytes (min((x.extent.1 + 7)/8, 16) + min((w.extent.1 + 7)/8, 32))*1024
xs: bf16[k:64, m:128] of x @S1 at 0 ring ring = load tma x[ko*64 + %k, mo*128 + %m] rows min((x.extent.1 + 7)/8*8, 128)
ws: bf16[k:64, n:256] of w @S0 at 65536 ring ring = load tma w[ko*64 + %k, no*256 + %n] rows min((w.extent.1 + 7)/8*8, 256)
advance ring
)");
}

// A slot goes back when the product that reads it has ended, and that is one iteration later; a sum over nothing is 0.
TEST(TilePasses, OneGroupOfProductsStaysInFlight) {
    EXPECT_EQ(lines(lowered(product()), "if 0 <", 18),
              R"(if 0 < (x.extent.0 + 63)/64 {
for ko in 0 .. (x.extent.0 + 63)/64 {
wait full ring
mma_fence
acc_next: f32[m:128, n:256] of acc @L0 in acc = mma(acc, xs, ws; k) zero when ko == 0
advance ring
mma_commit
mma_wait 1
if ko > 0 {
release ring
}
}
mma_wait 0
release ring
} else {
acc: f32[m:128, n:256] @L0 = fill 0.0
}
store_wait 1
)");
}

TEST(TilePasses, AStoreWaitsForItsBufferAndFencesItsWrites) {
    EXPECT_EQ(lines(lowered(product()), "store_wait", 7), R"(store_wait 1
barrier 1 + wg threads 128
stage ys rows 0 column 0 at wg*16384 + 196608 @S2 of bf16(acc + bias[no*256 + %n])
proxy_fence
barrier 1 + wg threads 128
tma_store y[no*256 + %n, (mo*2 + wg)*64 + %m] at wg*16384 + 196608 @S2
store_commit
)");
}

// Each warpgroup takes whole tiles, issues its products when it is its turn, and skips the slots of the other's tiles.
TEST(TilePasses, WarpgroupsTakeTilesInTurn) {
    Kernel k = product();
    k.plan.ping_pong = true;
    k = lowered(std::move(k));
    EXPECT_EQ(k.tile("acc").registers.register_count(), 256); // all 128 rows
    EXPECT_EQ(k.rings[0].consumers, 1);
    EXPECT_EQ(lines(k, "role consumer", 8), R"(role consumer warpgroups 2 from 0 threads 128 registers 232 {
if wg == 1 {
barrier 8 threads 256 arrive
}
for each tile {
if turn % 2 == wg {
barrier 8 + wg threads 256
if 0 < (x.extent.0 + 63)/64 {
)");
    EXPECT_EQ(lines(k, "mma_wait 0", 1), "mma_wait 0\n");
    EXPECT_EQ(lines(k, "skip", 1), "skip ring by max((x.extent.0 + 63)/64, 0)\n");
}

// Five slots leave room for one staging box: each store waits for the one before.
TEST(TilePasses, OneStagingBoxWhereTwoDoNotFit) {
    Kernel k = product();
    k.plan.copies["x"].stages = k.plan.copies["w"].stages = 5;
    k.axes["m"] = 192;
    k.axes["n"] = 128;
    k.plan.ping_pong = true;
    k = lowered(std::move(k));
    EXPECT_EQ(k.staging_bytes, 8192);
    EXPECT_EQ(lines(k, "store_wait", 1), "store_wait 0\n");
}

// A start that somebody reads later keeps its registers.
TEST(TilePasses, AProductDoesNotOverwriteAStartInUse) {
    Kernel k = product();
    k.add_tile("first", Float(32), {"m", "n"}, "first");
    k.add_tile("second", Float(32), {"m", "n"}, "second");
    Body body = {{Copy{"xs", {"x", {{0, "k"}, {0, "m"}}}}, "x"},
                 {Copy{"ws", {"w", {{0, "k"}, {0, "n"}}}}, "w"},
                 {Mma{"first", "", "xs", "ws", "k", {}, {}}, "acc"},
                 {Mma{"second", "first", "xs", "ws", "k", {}, {}}, "acc"},
                 {Map{"ys", Halide::cast(BFloat(16), k.ref("first") + k.ref("second")), {}}, "y"}};
    body.push_back(k.body.back());
    k.body = body;
    plan_layouts(k);
    EXPECT_EQ(k.root("second"), "first1");
    EXPECT_EQ(k.root("first"), "first");
}

TEST(TilePasses, RefusesWhatTheHardwareCannotDo) {
    auto with = [](const std::function<void(Kernel &)> &change) {
        Kernel k = product();
        change(k);
        return refusal(std::move(k));
    };
    EXPECT_EQ(with([](Kernel &k) { k.row_axis = "k"; }),
              "error[K1110]: the product in `acc` needs the row axis `k` in one of its operands, and has it "
              "in both\n"
              "   = help: name another Var as `rows` in warpgroups(…)\n");
    EXPECT_EQ(with([](Kernel &k) {
                  k.axes["b"] = 2;
                  Copy *c = k.body[0].as<For>()->body[0].as<Copy>();
                  c->from.dims.push_back({0, "b"});
              }),
              "error[K1111]: `x` would lie in shared memory with three axes\n"
              "   = help: give one of its dimensions a block size of 1\n");
    EXPECT_EQ(
        with([](Kernel &k) {
            Copy *c = k.body[0].as<For>()->body[0].as<Copy>();
            c->from.dims.insert(c->from.dims.begin(), {0, ""});
        }),
        "error[K1112]: `x` is read at one place of its contiguous dimension 0: no copy engine moves that\n"
        "   = help: leave out its staging, so that it is read where it is used\n");
    EXPECT_EQ(with([](Kernel &k) {
                  k.tiles.at("ys").axes = {"m", "n", "k"};
              }),
              "error[K1114]: tile `ys` of `y` has the axes `n` and `k` beside the rows: registers hold one\n"
              "   = help: give one of these dimensions a block size of 1\n");
    EXPECT_EQ(with([](Kernel &k) { k.axes["m"] = 192; }),
              "error[K1115]: 192 rows of `acc` over 2 warpgroups: wgmma takes 64 rows a warpgroup\n"
              "   = help: take a multiple of 128 rows, or other warpgroups\n");
    EXPECT_EQ(with([](Kernel &k) { k.axes["n"] = 264; }),
              "error[K1116]: 264 columns of `acc`: wgmma takes a multiple of 8, at most 256\n");
    EXPECT_EQ(
        with([](Kernel &k) { k.tiles.at("xs").type = Float(32); }),
        "error[K1117]: the product in `acc` reads `x` of type f32: wgmma here takes bfloat16 and float16\n"
        "   = help: mma(fma) multiplies it, in float32\n");
    EXPECT_EQ(with([](Kernel &k) { k.tiles.at("xs").type = Float(16); }),
              "error[K1118]: the product in `acc` reads two types: `x` and `w`\n"
              "   = help: cast one operand to the type of the other\n");
    EXPECT_EQ(with([](Kernel &k) { k.axes["k"] = 24; }),
              "error[K1119]: 24 values of the reduction `k` in one tile: wgmma takes 32 bytes at a time, a "
              "multiple of 16\n");
    EXPECT_EQ(with([](Kernel &k) {
                  k.body[0].as<For>()->body[1] = {Map{"ws", Halide::cast(BFloat(16), 0.f), {}}, "w"};
              }),
              "error[K1120]: the product in `acc` computes its second operand `w` on the way: wgmma reads "
              "that one from "
              "shared memory\n"
              "   = help: let the rows be those of the computed operand: `rows` in warpgroups(…)\n"
              "   = help: where both are computed, compute one before the kernel: a Func of its own with "
              "`compute_root()`\n");
    EXPECT_EQ(with([](Kernel &k) { k.plan.copies["x"].stages = k.plan.copies["w"].stages = 5; }),
              "error[K1121]: `y` needs 263248 bytes of shared memory (5 slots of 49152; 16384 for stores), "
              "the device has "
              "232448\n"
              "   = help: take fewer `stages` or a smaller tile\n");
}

TEST(TilePasses, ProductsByMultiplyAddTakeAnyType) {
    Kernel k = product();
    k.plan.products["acc"].kind = MmaKind::Fma;
    k.tiles.at("xs").type = k.tiles.at("ws").type = Float(32);
    k.axes["k"] = 8;
    EXPECT_EQ(lowered(k).tile("acc").registers.str(),
              "threads(m:2, n:8, m*2:2, n*8:2, m*4:2, m*64:2) registers(n*16:16, m*8:8)");
    k.axes["n"] = 200;
    EXPECT_EQ(refusal(k),
              "error[K1123]: 200 columns of `acc`: products by multiply-add take a multiple of 16 over 2 "
              "warpgroups\n");
}

TEST(TilePasses, OnlyWgmmaTakesAnOperandThatIsComputed) {
    for (auto [kind, name] : {std::pair(MmaKind::Fma, "fma"), std::pair(MmaKind::MmaSync, "mma_sync")}) {
        for (size_t operand : {0, 1}) {
            Kernel k = product();
            k.plan.products["acc"].kind = kind;
            const char *tile = operand == 0 ? "xs" : "ws", *func = operand == 0 ? "x" : "w";
            k.body[0].as<For>()->body[operand] = {Map{tile, Halide::cast(BFloat(16), 0.f), {}}, func};
            EXPECT_EQ(
                refusal(k),
                fmt::format(
                    "error[K1120]: the product in `acc` computes its operand `{}` on the way: `mma({})` "
                    "reads both operands from shared memory, as they were copied\n"
                    "   = help: compute the operand before the kernel: a Func of its own with "
                    "`compute_root()`\n"
                    "   = help: `mma(wgmma)` computes one operand of 16 bits on the way, the one with the "
                    "rows\n",
                    func, name));
        }
    }
}

// Without a producer all threads copy, between barriers, and nothing runs ahead.
TEST(TilePasses, WithoutAProducerAllThreadsCopy) {
    Kernel k = product();
    k.plan.products["acc"].kind = MmaKind::Fma;
    k.plan.copies["x"].kind = k.plan.copies["w"].kind = CopyKind::Plain;
    k.plan.producers = 0;
    k = lowered(std::move(k));
    EXPECT_EQ(k.threads, 256);
    EXPECT_EQ(k.rings[0].depth, 1);
    EXPECT_EQ(lines(k, "for ko", 7),
              R"(for ko in 0 .. (x.extent.0 + 63)/64 {
barrier 0 threads 256
xs: bf16[k:64, m:128] of x @S1 at 0 ring ring = copy x[ko*64 + %k, mo*128 + %m]
ws: bf16[k:64, n:256] of w @S0 at 16384 ring ring = copy w[ko*64 + %k, no*256 + %n]
barrier 0 threads 256
acc_next: f32[m:128, n:256] of acc @L0 in acc = mma(acc, xs, ws; k) zero when ko == 0
}
)");
    EXPECT_EQ(lines(k, "global_store", 1), "global_store y[no*256 + %n, mo*128 + %m] = ys vector 1\n");
}

// Column sums: lanes lie along the columns, and the warps meet in shared memory.
TEST(TilePasses, WhatIsReducedLiesOverTheWarps) {
    Kernel k;
    k.name = "y";
    k.axes = {{"r", 32}, {"n", 256}};
    k.views = {{"x", BFloat(16), 2, false}, {"y", Float(32), 1, true}};
    k.add_tile("sum", Float(32), {"n"}, "sum");
    Expr x = Halide::Internal::Call::make(BFloat(16), "view:x", {k.axis_var("n"), k.axis_var("r")},
                                          Halide::Internal::Call::PureExtern);
    k.body = {{Reduce{"sum", ReduceOp::Sum, "r", Halide::cast<float>(x), {}, {}}, "sum"},
              {Store{{"y", {{0, "n"}}}, "sum"}, "y"}};
    k = lowered(std::move(k));
    EXPECT_EQ(k.body[0].as<Role>()->body[0].as<TileLoop>()->body[0].as<Reduce>()->over.str(),
              "threads(n*8:32, r*4:8) registers(n:8, r:4)");
    EXPECT_EQ(k.tile("sum").registers.str(), "threads(n*8:32, -:8) registers(n:8)");
    EXPECT_EQ(k.scratch_bytes, 8 * 256 * 4);
}

// A block of one row: every warp has a part of it.
TEST(TilePasses, OneRowLiesOverAllWarps) {
    Kernel k;
    k.name = "y";
    k.plan.consumers = 2;
    k.axes = {{"n", 4096}};
    k.views = {{"x", BFloat(16), 2, false}, {"y", BFloat(16), 2, true}};
    k.add_tile("ys", BFloat(16), {"n"}, "y");
    k.body = {{Map{"ys", Halide::cast(BFloat(16), 0.f), {}}, "y"},
              {Store{{"y", {{0, "n"}, {var("m"), ""}}}, "ys"}, "y"}};
    EXPECT_EQ(lowered(k).tile("ys").registers.str(), "threads(n*8:256) registers(n:8, n*2048:2)");
}

// Without a product rows lie over warps: their columns must go round.
TEST(TilePasses, RefusesColumnsThatDoNotGoRound) {
    Kernel k;
    k.name = "y";
    k.plan.consumers = 1;
    k.axes = {{"m", 4}, {"n", 40}};
    k.row_axis = "m";
    k.views = {{"x", BFloat(16), 2, false}, {"y", BFloat(16), 2, true}};
    k.add_tile("ys", BFloat(16), {"m", "n"}, "y");
    k.body = {{Map{"ys", Halide::cast(BFloat(16), 0.f), {}}, "y"},
              {Store{{"y", {{0, "n"}, {0, "m"}}}, "ys"}, "y"}};
    EXPECT_EQ(refusal(k),
              "error[K1113]: 40 columns of axis `n` over 32 threads: each thread needs the same number\n"
              "   = help: let the tile span a multiple of 32 columns\n");
}

} // namespace
} // namespace kiln::tile
