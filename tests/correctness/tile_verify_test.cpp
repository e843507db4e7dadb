// Every rule of `verify` broken once in an otherwise sound kernel, with the whole message; and the runner of passes.
#include "dsl/tile/ir/Text.h"
#include "dsl/tile/passes/Runner.h"
#include "dsl/tile/passes/Verify.h"
#include "tests/correctness/tile_texts.h"

#include <cstring>
#include <gtest/gtest.h>

#include <functional>

namespace kiln::tile {
namespace {

DeviceLimits hopper() {
    return limits_of(Target::parse("cuda sm_90a"));
}

struct Broken {
    const char *name;
    bool lowered;
    std::function<void(Kernel &)> plant;
    const char *message; ///< of the first fault
};

template<typename T>
T &first(Kernel &k) {
    T *found = nullptr;
    walk(k.body, [&](Stmt &s) {
        if (T *t = s.as<T>(); t && !found) {
            found = t;
        }
    });
    return *found;
}

/// The kernel whose output leaves without staging, so that a map computes all of it at once.
Kernel direct() {
    Kernel k = parse_kernel(gemm_text());
    k.plan.direct = true;
    return run_passes(std::move(k), hopper());
}

/// Clusters of two blocks along the first loop, each of which loads half of x for both.
void in_twos(Kernel &k) {
    k.grid[0].cluster = 2;
    k.rings[0].blocks = 2;
    first<Expect>(k).bytes = k.rings[0].bytes;
    walk(k.body, [](Stmt &s) {
        if (Load *l = s.as<Load>()) {
            l->rows = Expr();
            if (l->dst == "xs") {
                l->parts = 2;
                l->part = Halide::Internal::Variable::make(Halide::Int(32), "cluster.rank");
                l->blocks = 3;
            }
        } else if (Release *r = s.as<Release>()) {
            r->blocks = 3;
        }
    });
    k.body[0].as<Role>()->body.push_back({Drain{k.rings[0].name}, "y"});
}

const std::vector<Broken> &all_broken() {
    static const std::vector<Broken> all = {
        {"ReadBeforeDefined", false, [](Kernel &k) { std::swap(k.body[1], k.body[2]); },
         R"(error[K1190]: `y0` is read before it is defined
   = note: in `store y[no*64 + %n, mo*128 + %m] = y0`, of `y`
)"},
        {"DefinedTwice", false, [](Kernel &k) { k.body.insert(k.body.begin() + 1, k.body[1]); },
         R"(error[K1190]: `y0` is defined twice
   = note: in `y0 = map bf16(max(acc + f32(bias[no*64 + %n]), 0.0))`, of `y`
)"},
        {"NoTile", false, [](Kernel &k) { first<Mma>(k).a = "xx"; }, R"(error[K1190]: no tile `xx`
   = note: in `acc_next = mma(acc, xx, ws; k)`, of `acc`
)"},
        {"NextNotDefined", false,
         [](Kernel &k) { std::erase_if(first<For>(k).body, [](const Stmt &s) { return s.as<Mma>(); }); },
         R"(error[K1190]: `acc_next`, the next value of `acc`, is not defined in the loop
   = note: in `for ko in 0 .. (x.extent.0 + 63)/64 carry acc = 0.0 then acc_next`, of `acc`
)"},
        {"NotDefinedInRole", true,
         [](Kernel &k) {
             k = direct();
             Body &tile = k.body[1].as<Role>()->body[0].as<TileLoop>()->body;
             std::erase_if(tile, [](const Stmt &s) { return s.as<Map>(); });
         },
         R"(error[K1190]: `y0` is read, and nothing in its role defines it
   = note: in `global_store y[no*64 + %n, mo*128 + %m] = y0 vector 1`, of `y`
)"},
        {"NotDefinedForBox", true,
         [](Kernel &k) {
             Body &tile = k.body[1].as<Role>()->body[0].as<TileLoop>()->body;
             tile.erase(tile.begin());
         },
         R"(error[K1190]: `acc` is read, and nothing in its role defines it
   = note: in `stage y0 rows 0 column 0 at wg*16384 + 73728 @S2 of bf16(max(acc + f32(bias[no*64 + %n]), 0.0))`, of `y`
)"},
        {"NoView", false, [](Kernel &k) { first<Copy>(k).from.view = "z"; }, R"(error[K1191]: no view `z`
   = note: in `xs = copy z[ko*64 + %k, mo*128 + %m]`, of `x`
)"},
        {"Rank", false, [](Kernel &k) { first<Copy>(k).from.dims.pop_back(); },
         R"(error[K1191]: `x` has 2 dimensions, the region names 1
   = note: in `xs = copy x[ko*64 + %k]`, of `x`
)"},
        {"AxisTwice", false, [](Kernel &k) { first<Copy>(k).from.dims[1].axis = "k"; },
         R"(error[K1191]: the axis `k` runs along two dimensions of `x`
   = note: in `xs = copy x[ko*64 + %k, mo*128 + %k]`, of `x`
)"},
        {"BaseOfAxis", false, [](Kernel &k) { first<Copy>(k).from.dims[1].base = k.axis_var("m"); },
         R"(error[K1191]: the base of a dimension of `x` is not the same for the whole block
   = note: in `xs = copy x[ko*64 + %k, %m + %m]`, of `x`
)"},
        {"ValueOverForeignAxis", false,
         [](Kernel &k) { first<Map>(k).value = Halide::cast(Halide::BFloat(16), k.axis_var("k")); },
         R"(error[K1191]: the value of `y0` depends on the axis `k`, which it lacks
   = note: in `y0 = map bf16(%k)`, of `y`
)"},
        {"ValueOfOtherType", false, [](Kernel &k) { first<Map>(k).value = k.ref("acc"); },
         R"(error[K1191]: `y0` is bf16, its value f32
   = note: in `y0 = map acc`, of `y`
)"},
        {"SummedAxis", false, [](Kernel &k) { first<Mma>(k).axis = "n"; },
         R"(error[K1191]: an operand of the product lacks the axis `n` that is summed
   = note: in `acc_next = mma(acc, xs, ws; n)`, of `acc`
)"},
        {"StoreLacksAxis", false, [](Kernel &k) { first<Store>(k).to.dims[0].axis = ""; },
         R"(error[K1191]: `y0` and the region it is stored to: axes `m` against `m`, `n`
   = note: in `store y[no*64, mo*128 + %m] = y0`, of `y`
)"},
        {"NotStored", false, [](Kernel &k) { k.body.pop_back(); },
         R"(error[K1198]: the output `y` is not stored
)"},
        {"StoredTwice", false, [](Kernel &k) { k.body.push_back(k.body.back()); },
         R"(error[K1198]: the output `y` is stored twice
   = note: in `store y[no*64 + %n, mo*128 + %m] = y0`, of `y`
)"},
        {"InputStored", false, [](Kernel &k) { first<Store>(k).to.view = "x"; },
         R"(error[K1198]: the input `x` is stored to
   = note: in `store x[no*64 + %n, mo*128 + %m] = y0`, of `y`
)"},
        {"ElementsTwice", true, [](Kernel &k) { k.tiles.at("y0").registers.registers[0].stride = 2; },
         R"(error[K1192]: the layout of tile `y0`, threads(n*2:4, m:8, m*16:4, m*64:2) registers(n*2:2, m*8:2, n*8:8), does not hold each element once: steps of 2 along `n` where 1 is due
)"},
        {"ElementsMissing", true, [](Kernel &k) { k.tiles.at("y0").registers.registers.pop_back(); },
         R"(error[K1192]: the layout of tile `y0`, threads(n*2:4, m:8, m*16:4, m*64:2) registers(n:2, m*8:2), does not hold each element once: 8 elements along `n`, which has 64
)"},
        {"OtherThreads", true,
         [](Kernel &k) {
             k = direct();
             k.tiles.at("y0").registers = row_major_threads("m", 128, "n", 64, 8, 2);
         },
         R"(error[K1192]: thread 0 needs elements of `acc` along `m` that others hold: threads(n*2:4, m:8, m*16:4, m*64:2) registers(n:2, m*8:2, n*8:8) is read at threads(n*2:32, m*16:8) registers(n:2, m:16)
   = note: in `y0 = map bf16(max(acc + f32(bias[no*64 + %n]), 0.0))`, of `y`
)"},
        {"AliasOfOtherLayout", true, [](Kernel &k) { k.tiles.at("y0").alias = "acc"; },
         R"(error[K1192]: `y0` lies in the registers of `acc`, whose layout or width is another
)"},
        {"UnlessInOtherRegisters", true,
         [](Kernel &k) {
             k = direct();
             first<Map>(k).unless = Halide::Internal::const_true();
         },
         R"(error[K1192]: `y0` keeps its value where `unless` holds, and lies in the registers of no tile that it reads
   = note: in `y0 = map bf16(max(acc + f32(bias[no*64 + %n]), 0.0)) unless true`, of `y`
)"},
        {"SharedAxes", true, [](Kernel &k) { k.tiles.at("xs").shared.outer = "n"; },
         R"(error[K1192]: `xs` in shared memory lies along other axes than it has (k:64 n:128 slab 64 pitch 128 swizzle 128)
)"},
        {"SlotBytes", true, [](Kernel &k) { k.rings[0].bytes -= 1024; },
         R"(error[K1193]: a slot of ring `ring` counts 23552 bytes, its tiles have 24576
)"},
        {"ExpectedBytes", true, [](Kernel &k) { first<Expect>(k).bytes -= 16; },
         R"(error[K1193]: (min((x.extent.1 + 7)/8, 16) + min((w.extent.1 + 7)/8, 8))*1024 - 16 bytes are expected in a slot of `ring`, (min((x.extent.1 + 7)/8, 16) + min((w.extent.1 + 7)/8, 8))*1024 arrive
   = note: in `expect ring bytes (min((x.extent.1 + 7)/8, 16) + min((w.extent.1 + 7)/8, 8))*1024 - 16`, of `x`
)"},
        {"BoxOfOtherType", true, [](Kernel &k) { first<StageStore>(k).value = k.ref("acc"); },
         R"(error[K1191]: `y0` is bf16, its value f32
   = note: in `stage y0 rows 0 column 0 at wg*16384 + 73728 @S2 of acc`, of `y`
)"},
        {"BoxInOtherThreads", true,
         [](Kernel &k) { k.tiles.at("y0").registers = row_major_threads("m", 128, "n", 64, 8, 2); },
         R"(error[K1192]: thread 0 needs elements of `acc` along `m` that others hold: threads(n*2:4, m:8, m*16:4, m*64:2) registers(n:2, m*8:2, n*8:8) is read at threads(n*2:32, m*16:8) registers(n:2, m:16)
   = note: in `stage y0 rows 0 column 0 at wg*16384 + 73728 @S2 of bf16(max(acc + f32(bias[no*64 + %n]), 0.0))`, of `y`
)"},
        {"LoadedPartsOverlap", true,
         [](Kernel &k) {
             in_twos(k);
             first<Load>(k).part = 0;
         },
         R"(error[K1193]: not each of the 2 parts of `xs` comes once to each block of the cluster
   = note: in `xs = load tma x[ko*64 + %k, mo*128 + %m] part 0 of 2 to 3`, of `x`
)"},
        {"TooManyBlocks", true, [](Kernel &k) { k.grid[0].cluster = 32; },
         R"(error[K1193]: clusters of 32 blocks, the device takes 8
)"},
        {"NotToldToOthers", true,
         [](Kernel &k) {
             in_twos(k);
             first<Release>(k).blocks = Expr();
         },
         R"(error[K1193]: a slot of `ring` is given back to other blocks of the cluster than fill it, or its barrier counts another number of them (2)
   = note: in `release ring`
)"},
        {"NotDrained", true,
         [](Kernel &k) {
             in_twos(k);
             k.body[0].as<Role>()->body.pop_back();
         },
         R"(error[K1193]: blocks of a cluster fill `ring` for each other, and nobody drains it before its block ends
)"},
        {"RingOfTile", true, [](Kernel &k) { k.rings[0].tiles.pop_back(); },
         R"(error[K1193]: `ws` names the ring `ring`, which does not list it once
)"},
        {"NoRing", true, [](Kernel &k) { first<Wait>(k).ring = "none"; }, R"(error[K1193]: no ring `none`
   = note: in `wait empty none`, of `x`
)"},
        {"BoxTooTall", true,
         [](Kernel &k) {
             k.axes["m"] = 512;
             k.plan.consumers = 8;
             k.tiles.at("xs").shared.outer_extent = 512;
             k.rings[0].bytes += 384 * 128;
             for (const char *t : {"acc", "acc_next", "y0"}) {
                 k.tiles.at(t).registers = wgmma_fragment("m", 512, "n", 64, 8);
             }
         },
         R"(error[K1194]: a box of 64 by 512 elements: TMA moves at most 256 along each dimension
   = note: in `xs = load tma x[ko*64 + %k, mo*128 + %m] rows min((x.extent.1 + 7)/8*8, 128)`, of `x`
)"},
        {"SwizzleSpan", true, [](Kernel &k) { k.tiles.at("xs").shared.swizzle = 64; },
         R"(error[K1194]: rows of 128 bytes in a swizzle of 64: they must lie within its span
   = note: in `xs = load tma x[ko*64 + %k, mo*128 + %m] rows min((x.extent.1 + 7)/8*8, 128)`, of `x`
)"},
        {"Inner", true,
         [](Kernel &k) { std::swap(first<Load>(k).from.dims[0], first<Load>(k).from.dims[1]); },
         R"(error[K1194]: TMA needs the contiguous dimension of `x` innermost in shared memory, there lies `k`
   = note: in `xs = load tma x[mo*128 + %m, ko*64 + %k] rows min((x.extent.1 + 7)/8*8, 128)`, of `x`
)"},
        {"SlotAlignment", true, [](Kernel &k) { k.tiles.at("xs").offset += 512; },
         R"(error[K1194]: `xs` lies at byte 512: with a swizzle of 128 it must be a multiple of 1024
   = note: in `xs = load tma x[ko*64 + %k, mo*128 + %m] rows min((x.extent.1 + 7)/8*8, 128)`, of `x`
)"},
        {"SharedOverlap", true, [](Kernel &k) { k.tiles.at("ws").offset = 16384; },
         R"(error[K1195]: `xs` ends at byte 49152 of shared memory, `ws` begins at 16384
)"},
        {"SharedTooMuch", true, [](Kernel &k) { k.shared_bytes = 300000; },
         R"(error[K1195]: 300000 bytes of shared memory, the device has 232448
   = help: take fewer `stages` or a smaller tile
)"},
        {"SharedOutside", true, [](Kernel &k) { k.shared_bytes = 65536; },
         R"(error[K1195]: `ws` lies at bytes 49152 to 73728 of shared memory, the kernel asks for 65536
)"},
        {"Threads", true, [](Kernel &k) { k.threads = 1152; },
         R"(error[K1196]: 1152 threads: whole warpgroups of 128, at most 1024
)"},
        {"Registers", true, [](Kernel &k) { k.body[1].as<Role>()->registers = 32; },
         R"(error[K1196]: the tiles of role `consumer` take 48 registers of each thread at once, it has 32
   = help: take a smaller tile, or more warpgroups for it
)"},
        {"RegistersOfRoles", true, [](Kernel &k) { k.body[0].as<Role>()->registers = 232; },
         R"(error[K1197]: the roles ask for 89088 registers, a multiprocessor has 65536
   = help: state fewer in registers(…)
)"},
        {"RegisterStep", true, [](Kernel &k) { k.body[0].as<Role>()->registers = 41; },
         R"(error[K1197]: role `producer` asks for 41 registers: a multiple of 8 from 24 to 256
)"},
        {"TwoRoles", true, [](Kernel &k) { k.body[0].as<Role>()->first_warpgroup = 1; },
         R"(error[K1197]: warpgroup 1 has two roles, `producer` and `consumer`
)"},
        {"NobodyFills", true,
         [](Kernel &k) {
             Body &b = k.body[0].as<Role>()->body[0].as<TileLoop>()->body[0].as<For>()->body;
             std::erase_if(b, [](const Stmt &s) { return s.as<Load>(); });
             k.body[1].as<Role>()->body[0].as<TileLoop>()->body.clear();
             k.body[1].as<Role>()->body[0].as<TileLoop>()->body = {
                 {Fill{"y0", Halide::cast(Halide::BFloat(16), 0)}, "y"},
                 {GlobalStore{{"y", {{0, "n"}, {0, "m"}}}, "y0", 1}, "y"}};
         },
         R"(error[K1193]: (min((x.extent.1 + 7)/8, 16) + min((w.extent.1 + 7)/8, 8))*1024 bytes are expected in a slot of `ring`, 0 arrive
   = note: in `expect ring bytes (min((x.extent.1 + 7)/8, 16) + min((w.extent.1 + 7)/8, 8))*1024`, of `x`
)"},
        {"ConsumersOfRing", true, [](Kernel &k) { k.rings[0].consumers = 3; },
         R"(error[K1197]: 2 warpgroups of role `consumer` give back slots of `ring`, which counts 3
)"},
        {"ProductRows", true, [](Kernel &k) { k.plan.consumers = 4; },
         R"(error[K1199]: 128 rows over 4 warpgroups: wgmma takes 64 rows of each
   = note: in `acc_next = mma(acc, xs, ws; k) zero when ko == 0`, of `acc`
)"},
        {"ProductFragment", true,
         [](Kernel &k) {
             for (const char *t : {"acc", "acc_next", "y0"}) {
                 k.tiles.at(t).registers = row_major_threads("m", 128, "n", 64, 8, 2);
             }
         },
         R"(error[K1199]: `acc_next` does not lie as wgmma leaves it, but threads(n*2:32, m*16:8) registers(n:2, m:16)
   = note: in `acc_next = mma(acc, xs, ws; k) zero when ko == 0`, of `acc`
)"},
        {"ProductTypes", true, [](Kernel &k) { k.tiles.at("xs").type = Halide::Float(16); },
         R"(error[K1199]: a product of f16 and bf16 into f32
   = note: in `acc_next = mma(acc, xs, ws; k) zero when ko == 0`, of `acc`
)"},
    };
    return all;
}

Kernel sound(bool lowered) {
    Kernel k = parse_kernel(gemm_text());
    return lowered ? run_passes(k, hopper()) : k;
}

TEST(TileVerify, FindsNothingInSoundKernels) {
    for (bool lowered : {false, true}) {
        EXPECT_TRUE(verify(sound(lowered), hopper()).empty());
    }
}

class TileVerifyRule : public testing::TestWithParam<size_t> {};

TEST_P(TileVerifyRule, SaysWhatIsWrong) {
    const Broken &b = all_broken()[GetParam()];
    Kernel k = sound(b.lowered);
    b.plant(k);
    const std::vector<Diagnostic> found = verify(k, hopper());
    ASSERT_FALSE(found.empty());
    EXPECT_EQ(render(found[0], ""), b.message);
}

INSTANTIATE_TEST_SUITE_P(Rules, TileVerifyRule, testing::Range<size_t>(0, all_broken().size()),
                         [](const auto &info) { return all_broken()[info.param].name; });

/// 128 x 192 sums are 192 registers of each thread of a warpgroup. The 16-bit copies of all take 96 more, those of one box 16.
TEST(TileVerify, CountsStoresByTheirBoxes) {
    std::string text = gemm_text();
    for (const auto &[narrow, wide] : {std::pair{"n:64", "n:192"},
                                       {"n: 64", "n: 192"},
                                       {"no*64", "no*192"},
                                       {"(y.extent.0 + 63)/64", "(y.extent.0 + 191)/192"}}) {
        for (size_t at = text.find(narrow); at != std::string::npos;
             at = text.find(narrow, at + strlen(wide))) {
            text.replace(at, strlen(narrow), wide);
        }
    }
    Kernel k = parse_kernel(text);
    k.plan.ping_pong = true;
    EXPECT_NO_THROW(run_passes(k, hopper()));
    k.plan.direct = true;
    try {
        run_passes(k, hopper());
        FAIL() << "all of the copies fit";
    } catch (const Error &e) {
        EXPECT_EQ(e.diagnostics[0].message,
                  "the tiles of role `consumer` take 288 registers of each thread at once, it has 232");
    }
}

TEST(TilePasses, AreNamedTimedAndDumped) {
    std::vector<PassRun> log;
    const Kernel start = parse_kernel(gemm_text());
    const Kernel end = run_passes(start, hopper(), &log);
    ASSERT_EQ(log.size(), passes().size());
    EXPECT_EQ(log.front().before, gemm_text());
    EXPECT_EQ(log.back().after, print(end));
    for (size_t i = 0; i < log.size(); i++) {
        EXPECT_EQ(log[i].name, passes()[i].name);
        EXPECT_GE(log[i].seconds, 0);
        EXPECT_TRUE(i == 0 || log[i].before == log[i - 1].after);
    }
    const std::string text = explain_passes(log);
    EXPECT_NE(text.find("plan_layouts ("), std::string::npos);
    EXPECT_NE(text.find("role producer"), std::string::npos);
    const std::string one = explain_passes(log, "lower_stores");
    EXPECT_EQ(one.rfind("lower_stores (", 0), 0u);
    EXPECT_NE(one.find("before\nkernel y {"), std::string::npos);
    EXPECT_NE(one.find("tma_store y["), std::string::npos);
}

TEST(TilePasses, SayAfterWhichPassAKernelIsUnsound) {
    Kernel k = parse_kernel(gemm_text());
    k.body.pop_back();
    try {
        run_passes(k, hopper());
        FAIL();
    } catch (const Error &e) {
        EXPECT_EQ(render(e.diagnostics.at(0), ""),
                  "error[K1198]: the output `y` is not stored\n   = note: after build\n");
    }
}

} // namespace
} // namespace kiln::tile
