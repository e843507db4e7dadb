// Text of tile IR: what is printed reads back the same, and faults in it are shown where they stand.
#include "dsl/tile/ir/Text.h"

#include "tests/correctness/tile_texts.h"

#include <gtest/gtest.h>

namespace kiln::tile {
namespace {

TEST(TileText, PrintsWhatItParsed) {
    EXPECT_EQ(print(parse_kernel(gemm_text())), gemm_text());
    EXPECT_EQ(print(parse_kernel(every_statement_text())), every_statement_text());
}

/// The text says everything: field by field where two kernels could print alike and differ.
TEST(TileText, ReadsMeaning) {
    const Kernel k = parse_kernel(every_statement_text());
    ASSERT_EQ(k.body.size(), 2u);
    const Role *producer = k.body[0].as<Role>();
    ASSERT_TRUE(producer);
    EXPECT_EQ(producer->first_warpgroup, 1);
    EXPECT_EQ(producer->threads, 1);
    EXPECT_EQ(producer->registers, 40);
    EXPECT_EQ(k.body[0].func, "y");
    EXPECT_EQ(k.plan.split.at("f").at("r"), 32);
    EXPECT_EQ(k.plan.copies.at("x").kind, CopyKind::CpAsync);
    EXPECT_EQ(k.plan.products.at("f").stage, 1);
    EXPECT_EQ(k.tile("s").space, Space::Shared);
    EXPECT_EQ(k.tile("s").shared.swizzle, 128);
    EXPECT_EQ(k.tile("s").ring, "r0");
    EXPECT_EQ(k.tile("c1").alias, "c");
    EXPECT_TRUE(k.tile("z").partial);
    EXPECT_EQ(k.tile("c").registers.register_count(), 16);
    EXPECT_EQ(k.tile("u").type, Halide::UInt(8));
    EXPECT_EQ(k.tile("unused").func, "");
    ASSERT_EQ(k.rings.size(), 2u);
    EXPECT_EQ(k.rings[1].consumers, 2);
    const Body &inside = k.body[1].as<Role>()->body;
    const Skip *skip = inside[0].as<Skip>();
    ASSERT_TRUE(skip);
    EXPECT_EQ(skip->ring, "r0");
    const For *f = inside[1].as<For>();
    ASSERT_TRUE(f);
    EXPECT_TRUE(f->untested_from.defined() && f->untested_to.defined());
    ASSERT_EQ(f->carry.size(), 2u);
    EXPECT_TRUE(Halide::Internal::is_negative_const(f->carry[1].init));
    const Mma *m = f->body[2].as<Mma>();
    ASSERT_TRUE(m);
    EXPECT_EQ(m->start, "c");
    EXPECT_TRUE(m->zero_when.defined());
    EXPECT_TRUE(m->limit.defined());
    EXPECT_EQ(f->body[3].func, "again");
    const Map *map = inside[2].as<Map>();
    ASSERT_TRUE(map);
    EXPECT_TRUE(map->unless.defined());
    EXPECT_EQ(k.axes_of(map->value), std::set<std::string>{"i"});
}

TEST(TileText, ReadsNumbersOfEveryType) {
    for (const char *e : {"0.1",
                          "-0.0",
                          "3.0",
                          "1e+30",
                          "16777216.0",
                          "nan",
                          "inf",
                          "-inf",
                          "0.1:f64",
                          "1.5:bf16",
                          "-2.25:f16",
                          "-128:i8",
                          "9223372036854775807:i64",
                          "18446744073709551615:u64",
                          "-2147483648",
                          "true",
                          "a - (b - c)",
                          "a - b - c",
                          "a/(b*c)",
                          "a % 3/b",
                          "(a < b) == false",
                          "!(a < b)",
                          "min(a, b) + max(a, 2)",
                          "a - -3"}) {
        const std::string text =
            std::string("kernel k {\n  plan {\n    warpgroups 2, 1\n    registers 0, 0\n  }\n  body {\n") +
            "    if (let v = " + e + " in true) {\n    }\n  }\n}\n";
        EXPECT_EQ(print(parse_kernel(text)), text);
    }
}

std::string fault(const std::string &text) {
    try {
        parse_kernel(text, "k.ir");
    } catch (const Error &e) {
        return render(e.diagnostics.at(0), text);
    }
    return "no fault";
}

std::string in_body(const std::string &line) {
    return "kernel k {\n  axes m:64\n  input x: f32 rank 1\n  body {\n    " + line + "\n  }\n}\n";
}

TEST(TileText, ShowsFaultsWhereTheyStand) {
    EXPECT_EQ(fault(in_body("a: f32[m:64] = map x[%m] ? 1")),
              R"(error[K1160]: this character has no meaning here
 --> k.ir:5:30
  |
5 |     a: f32[m:64] = map x[%m] ? 1
  |                              ^
)");
    EXPECT_EQ(fault(in_body("a: f32[m:64] = map x[%m")), R"(error[K1161]: expected `]`, found `}`
 --> k.ir:6:3
  |
6 |   }
  |   ^
)");
    EXPECT_EQ(fault(in_body("a: f3[m:64] = fill 0.0")), R"(error[K1162]: expected a type, found `f3`
 --> k.ir:5:8
  |
5 |     a: f3[m:64] = fill 0.0
  |        ^^
  = help: types are bool, i8 … i64, u8 … u64, f16, bf16, f32 and f64
)");
    EXPECT_EQ(fault(in_body("a: f32[m:64] = map x[%m] + 1")), R"(error[K1163]: `+` of f32 and i32
 --> k.ir:5:30
  |
5 |     a: f32[m:64] = map x[%m] + 1
  |                              ^
  = help: write the cast: `f32(…)`, or the constant's type: `3:i64`
)");
    EXPECT_EQ(fault(in_body("a = fill 0.0")), R"(error[K1164]: tile `a` is declared nowhere
 --> k.ir:5:5
  |
5 |     a = fill 0.0
  |     ^
  = help: state its type and axes where it is first defined: `a: f32[m:128]`
)");
    EXPECT_EQ(fault(in_body("a: f32[m:64] = map xs[%m]")), R"(error[K1164]: no view `xs`
 --> k.ir:5:24
  |
5 |     a: f32[m:64] = map xs[%m]
  |                        ^^
  = help: did you mean `x`?
)");
    EXPECT_EQ(fault(in_body("mma_wait 3000000000")), R"(error[K1165]: 3000000000 does not fit into 32 bits
 --> k.ir:5:14
  |
5 |     mma_wait 3000000000
  |              ^^^^^^^^^^
)");
    EXPECT_EQ(fault(in_body("a: f32[m:32] = fill 0.0")),
              R"(error[K1166]: axis `m` of 32 elements, but `axes` says 64
 --> k.ir:5:12
  |
5 |     a: f32[m:32] = fill 0.0
  |            ^
)");
}

} // namespace
} // namespace kiln::tile
