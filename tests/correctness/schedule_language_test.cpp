// The schedule language: parsing, canonical form, knobs, targets, macros, differences.
#include "dsl/schedule/Diff.h"
#include "dsl/schedule/Directive.h"
#include "dsl/schedule/Macros.h"
#include "dsl/schedule/TargetPattern.h"
#include "tests/support/round_trip.h"

#include <cmath>

namespace kiln::test {
namespace {

std::string in_schedule(const std::string &body) {
    return "schedule s {\n" + body + "\n}\n";
}

/// The statements of the canonical form, one a line.
std::string expanded(const std::string &body, const KnobValues &knobs = {}) {
    std::string out;
    for (const Schedule &s : expect_round_trip(in_schedule(body), knobs)) {
        for (const Statement &statement : canonical(s, knobs).statements) {
            out += print_statement(statement) + "\n";
        }
    }
    return out;
}

TEST(ScheduleLanguage, syntax_tree) {
    std::vector<Schedule> all =
        expect_round_trip("// facts\n"
                          "schedule gemm {\n"
                          "  op gemm\n"
                          "  target cuda sm >= 80\n"
                          "  knob bm in {64, 128}, t in {RoundUp, GuardWithIf}\n"
                          "  require bm >= 64\n"
                          "  // above\n"
                          "  part = acc.update(1).split(k.x, ko, ki, bm / 2, tail = t)  // in\n"
                          "    .rfactor({{ko, u}});  // beside\n"
                          "  x.in({a, b}).compute_at(acc.update(), outermost);\n"
                          "  // below\n"
                          "}\n"
                          "// after\n");
    ASSERT_EQ(all.size(), 1u);
    const Schedule &s = all[0];
    EXPECT_EQ(s.name, "gemm");
    EXPECT_EQ(s.op, "gemm");
    EXPECT_EQ(s.header_comments, std::vector<std::string>{"facts"});
    EXPECT_EQ(s.footer, std::vector<std::string>{"below"});
    EXPECT_EQ(s.file_footer, std::vector<std::string>{"after"});
    ASSERT_TRUE(s.target);
    EXPECT_EQ(s.target->backend, "cuda");
    EXPECT_EQ(s.target->at_least, 80);
    ASSERT_EQ(s.knobs.size(), 2u);
    EXPECT_EQ(s.knobs[0].values, (std::vector<int64_t>{64, 128}));
    EXPECT_EQ(s.knobs[1].names, (std::vector<std::string>{"RoundUp", "GuardWithIf"}));
    EXPECT_EQ(family_size(s), 4);
    ASSERT_EQ(s.statements.size(), 2u);
    const Statement &first = s.statements[0];
    EXPECT_EQ(first.binding, "part");
    EXPECT_EQ(first.stage.func, "acc");
    EXPECT_EQ(first.stage.update, 1);
    EXPECT_EQ(first.comments.above, std::vector<std::string>{"above"});
    EXPECT_EQ(first.comments.beside, "beside");
    ASSERT_EQ(first.calls.size(), 2u);
    EXPECT_EQ(first.calls[0].name, "split");
    EXPECT_EQ(first.calls[0].args[0], Node::name("k.x"));
    EXPECT_EQ(first.calls[0].args[4].keyword, "tail");
    EXPECT_EQ(first.calls[1].comments, std::vector<std::string>{"in"});
    EXPECT_EQ(first.calls[0].name_span, (Span{8, 24, 5}));
    const Statement &second = s.statements[1];
    EXPECT_TRUE(second.stage.is_wrapper);
    EXPECT_EQ(second.stage.wrapper_for, (std::vector<std::string>{"a", "b"}));
    std::optional<StageRef> level = stage_of(second.calls[0].args[0]);
    ASSERT_TRUE(level);
    EXPECT_EQ(level->func, "acc");
    EXPECT_EQ(level->update, 0);
}

TEST(ScheduleLanguage, layout_does_not_count) {
    EXPECT_EQ(expanded("y.split(x,xo,xi,8)\n\n   .vectorize(\n xi\n );"),
              expanded("y.split(x, xo, xi, 8).vectorize(xi);"));
    EXPECT_EQ(parse_schedules("\xef\xbb\xbfschedule s {\r\n\ty.vectorize(x);\r\n}", "").diagnostics.size(),
              0u);
    // Item words may name Funcs.
    EXPECT_EQ(expanded("op.vectorize(x); target.update().unroll(x); knob.serial(x); require.serial(x);"),
              "op.vectorize(x);\ntarget.update().unroll(x);\nknob.serial(x);\nrequire.serial(x);\n");
}

TEST(ScheduleLanguage, shorthands) {
    EXPECT_EQ(expanded("y.vectorize(x, 8).unroll(y, 2, RoundUp).parallel(z, 4);"),
              "y.split(x, x, xv, 8, Auto).vectorize(xv).split(y, y, yu, 2, RoundUp).unroll(yu)"
              ".split(z, z, zt, 4, Auto).parallel(z);\n");
    EXPECT_EQ(expanded("y.vectorize(x).unroll(y).parallel(z);"), "y.vectorize(x).unroll(y).parallel(z);\n");
    EXPECT_EQ(expanded("y.tile(x, y, xo, yo, xi, yi, 8, 4);"),
              "y.split(x, xo, xi, 8, Auto).split(y, yo, yi, 4, Auto).reorder(xi, yi, xo, yo);\n");
    EXPECT_EQ(expanded("y.tile(x, y, xi, yi, 8, 4, RoundUp);"),
              "y.split(x, x, xi, 8, RoundUp).split(y, y, yi, 4, RoundUp).reorder(xi, yi, x, y);\n");
    EXPECT_EQ(expanded("y.tile({x, y, z}, {xi, yi, zi}, {8, 4, 2});"),
              "y.split(x, x, xi, 8, Auto).split(y, y, yi, 4, Auto).split(z, z, zi, 2, Auto)"
              ".reorder(xi, yi, zi, x, y, z);\n");
    EXPECT_EQ(expanded("y.tile({x, y}, {xo, yo}, {xi, yi}, {8, 4}, {RoundUp, Auto});"),
              "y.split(x, xo, xi, 8, RoundUp).split(y, yo, yi, 4, Auto).reorder(xi, yi, xo, yo);\n");
    EXPECT_EQ(expanded("y.gpu_tile(x, xi, 64).gpu_blocks(a, b);"),
              "y.split(x, x, xi, 64, Auto).gpu_blocks(x).gpu_threads(xi).gpu_blocks(a).gpu_blocks(b);\n");
    EXPECT_EQ(expanded("y.gpu_tile(x, y, bx, by, tx, ty, 16, 8, RoundUp);"),
              "y.split(x, bx, tx, 16, RoundUp).split(y, by, ty, 8, RoundUp).reorder(tx, ty, bx, by)"
              ".gpu_blocks(bx).gpu_blocks(by).gpu_threads(tx).gpu_threads(ty);\n");
    EXPECT_EQ(
        expanded("y.gpu_tile(x, y, z, tx, ty, tz, 16, 8, 4);"),
        "y.split(x, x, tx, 16, Auto).split(y, y, ty, 8, Auto).split(z, z, tz, 4, Auto)"
        ".reorder(tx, ty, tz, x, y, z)"
        ".gpu_blocks(x).gpu_blocks(y).gpu_blocks(z).gpu_threads(tx).gpu_threads(ty).gpu_threads(tz);\n");
    EXPECT_EQ(expanded("y.gpu(a, b, c, d);"),
              "y.gpu_blocks(a).gpu_blocks(b).gpu_threads(c).gpu_threads(d);\n");
    EXPECT_EQ(expanded("y.never_partition(x, y).always_partition({z});"),
              "y.partition(x, Never).partition(y, Never).partition(z, Always);\n");
    EXPECT_EQ(expanded("part = acc.update().rfactor(k, u);"), "part = acc.update().rfactor({{k, u}});\n");
    EXPECT_EQ(
        expanded("f.compute_with(g, x).compute_with(g.update(), y, {{x, AlignEnd}, {y, NoAlign}});"),
        "f.compute_with(g, x, {{x, Auto}}).compute_with(g.update(), y, {{x, AlignEnd}, {y, NoAlign}});\n");
}

TEST(ScheduleLanguage, defaults_and_keywords) {
    EXPECT_EQ(expanded("y.split(x, factor = 8, inner = xi, outer = xo);"), "y.split(x, xo, xi, 8, Auto);\n");
    EXPECT_EQ(expanded("f.fold_storage(x, 4).align_bounds(y, 8).atomic();"),
              "f.fold_storage(x, 4, true).align_bounds(y, 8, 0).atomic(false);\n");
    EXPECT_EQ(expanded("f.prefetch(g, x, y).prefetch(g, x, x, strategy = Clamp);"),
              "f.prefetch(g, x, y, 1, GuardWithIf).prefetch(g, x, x, 1, Clamp);\n");
    EXPECT_EQ(expanded("f.bound(x, -4, 8).reorder({x, y}).reorder_storage(y, x);"),
              "f.bound(x, -4, 8).reorder(x, y).reorder_storage(y, x);\n");
    EXPECT_EQ(expanded("x.in(acc); x.in();"), "x.in(acc);\nx.in();\n");
}

// Loops that an expansion makes never take a name that the stage gives elsewhere.
TEST(ScheduleLanguage, names_of_new_loops) {
    EXPECT_EQ(expanded("y.vectorize(x, 8).split(y, yo, xv, 4).vectorize(x, 2);"),
              "y.split(x, x, xv1, 8, Auto).vectorize(xv1).split(y, yo, xv, 4, Auto)"
              ".split(x, x, xv2, 2, Auto).vectorize(xv2);\n");
    EXPECT_EQ(expanded("y.vectorize(x, 8); z.vectorize(x, 8); acc.update().atomic().vectorize(k.x, 8);"),
              "y.split(x, x, xv, 8, Auto).vectorize(xv);\nz.split(x, x, xv, 8, Auto).vectorize(xv);\n"
              "acc.update().atomic(false).split(k.x, k.x, k_xv, 8, Auto).vectorize(k_xv);\n");
}

TEST(ScheduleLanguage, specializations) {
    EXPECT_EQ(expanded("y.specialize(y.extent(x) % 16 == 0 && n > 2 * 4).vectorize(x, 16);"),
              "y.specialize(y.extent(x) % 16 == 0 && n > 8).split(x, x, xv, 16, Auto).vectorize(xv);\n");
    EXPECT_EQ(expanded("y.specialize_fail(\"a \\\"b\\\"\\n\");"), "y.specialize_fail(\"a \\\"b\\\"\\n\");\n");
    EXPECT_EQ(expanded("y.specialize(alpha * 0.5 < -1.5 || !(n == 3));"),
              "y.specialize(alpha * 0.5 < -1.5 || !(n == 3));\n");
}

TEST(ScheduleLanguage, knobs_are_folded) {
    std::string body = "  knob bm in {64, 128}, tail in {RoundUp, GuardWithIf}\n"
                       "  y.split(x, xo, xi, max(bm / 3, 7) + -7 % 4, tail);";
    EXPECT_EQ(expanded(body), "y.split(x, xo, xi, 22, RoundUp);\n");
    EXPECT_EQ(expanded(body, {{"bm", "128"}, {"tail", "GuardWithIf"}}),
              "y.split(x, xo, xi, 43, GuardWithIf);\n");
    // Division and remainder round towards minus infinity, as Halide's.
    for (int a = -7; a <= 7; a++) {
        for (int b : {-3, -2, -1, 1, 2, 3}) {
            std::vector<Diagnostic> none;
            int64_t quotient =
                fold(*parse_expression(std::to_string(a) + " / " + std::to_string(b), none), {}, "", none)
                    .int_value;
            int64_t rest =
                fold(*parse_expression(std::to_string(a) + " % " + std::to_string(b), none), {}, "", none)
                    .int_value;
            EXPECT_EQ(quotient, static_cast<int64_t>(std::floor(static_cast<double>(a) / b)))
                << a << " / " << b;
            EXPECT_EQ(rest, a - quotient * b) << a << " % " << b;
            EXPECT_TRUE(none.empty());
        }
    }
}

TEST(ScheduleLanguage, ranges_hold_both_ends_when_the_step_meets_them) {
    std::vector<Schedule> all =
        expect_round_trip(in_schedule("knob a in {64..256 step 64}, b in {1..6 step 2, 10}, c in {-2..1}"));
    EXPECT_EQ(all[0].knobs[0].values, (std::vector<int64_t>{64, 128, 192, 256}));
    EXPECT_EQ(all[0].knobs[1].values, (std::vector<int64_t>{1, 3, 5, 10}));
    EXPECT_EQ(all[0].knobs[2].values, (std::vector<int64_t>{-2, -1, 0, 1}));
    EXPECT_EQ(family_size(all[0]), 64);
}

TEST(ScheduleLanguage, macros) {
    std::string text = "macro pair(x, xo, xi, n) {\n  .split(x, xo, xi, n);\n  .vectorize(xi);\n}\n"
                       "macro unused(x) {\n  .serial(x);\n}\n" +
                       in_schedule("  macro stage_input(f, c, k, n) {\n"
                                   "    f.in(c).compute_at(c.update(), k).pair(x, xo, xi, n * 2);\n"
                                   "    part = c.update().rfactor(k.x, u);\n"
                                   "  }\n"
                                   "  y.parallel(m).pair(n, no, ni, 8).serial(no);\n"
                                   "  stage_input(w, acc, r, 4);");
    std::vector<Schedule> all = expect_round_trip(text);
    ASSERT_EQ(all.size(), 1u);
    ASSERT_EQ(all[0].macros.size(), 2u); // those that it uses
    Schedule plain = canonical(all[0]);
    ASSERT_EQ(plain.statements.size(), 3u);
    EXPECT_EQ(print_statement(plain.statements[0]),
              "y.parallel(m).split(n, no, ni, 8, Auto).vectorize(ni).serial(no);");
    EXPECT_EQ(print_statement(plain.statements[1]),
              "w.in(acc).compute_at(acc.update(), r).split(x, xo, xi, 8, Auto).vectorize(xi);");
    EXPECT_EQ(print_statement(plain.statements[2]), "part = acc.update().rfactor({{r.x, u}});");
    // What came from a macro points to its use and says what was written there.
    EXPECT_EQ(plain.statements[0].calls[1].expanded_from, "pair(n, no, ni, 8)");
    EXPECT_EQ(plain.statements[0].calls[1].name_span, all[0].statements[0].calls[1].name_span);
}

TEST(ScheduleLanguage, targets) {
    auto pattern = [](const std::string &text) {
        ParseResult r = parse_schedules(in_schedule("target " + text), "");
        EXPECT_TRUE(r.ok()) << text;
        EXPECT_EQ(r.schedules[0].target->str(), text);
        return *r.schedules[0].target;
    };
    auto why = [&](const std::string &text, const std::string &target) {
        std::string reason = "matches";
        bool does = matches(pattern(text), Target::parse(target), &reason);
        EXPECT_EQ(does, reason == "matches") << reason;
        return reason;
    };
    EXPECT_EQ(why("cpu", "cpu avx512"), "matches");
    EXPECT_EQ(why("cpu avx2", "cpu avx512_bf16"), "matches");
    EXPECT_EQ(why("cpu avx512", "cpu avx2"), "it needs `avx512`, the target is `cpu avx2`");
    EXPECT_EQ(why("cpu avx512", "cpu"), "it needs `avx512`, the target is `cpu`");
    EXPECT_EQ(why("cuda sm_90a", "cuda sm_90a"), "matches");
    EXPECT_EQ(why("cuda sm_90a", "cuda sm_90"), "it needs exactly `sm_90a`, the target is `cuda sm_90`");
    EXPECT_EQ(why("cuda sm >= 80", "cuda sm_90a"), "matches");
    EXPECT_EQ(why("cuda sm >= 80", "cuda sm_80"), "matches");
    EXPECT_EQ(why("cuda sm >= 80", "cuda"), "it needs `sm >= 80`, the target is `cuda` (sm 75)");
    EXPECT_EQ(why("opencl", "opencl"), "matches");
    EXPECT_EQ(why("opencl", "cuda"), "it is for `opencl`, the target is `cuda`");
    EXPECT_EQ(target_of(pattern("cpu avx2")).str(), "cpu avx2");
    EXPECT_EQ(target_of(pattern("cuda sm >= 80")).str(), "cuda sm_80");
}

TEST(ScheduleLanguage, differences) {
    auto diff = [](const std::string &a, const std::string &b) {
        return schedule_diff(expect_round_trip(in_schedule(a))[0], expect_round_trip(in_schedule(b))[0]);
    };
    std::string tiled = "y.tile(x, y, xo, yo, xi, yi, 8, 4).vectorize(xi); acc.compute_at(y, xo);";
    EXPECT_EQ(diff(tiled, tiled), "");
    EXPECT_EQ(diff(tiled, "// words\nacc.compute_at(y, xo);\ny.split(x, xo, xi, 8).split(y, yo, yi, 4);\n"
                          "y.reorder(xi, yi, xo, yo).vectorize(xi);"),
              "");
    EXPECT_EQ(diff(tiled, "y.tile(x, y, xo, yo, xi, yi, 16, 4).vectorize(xi).unroll(yi); b.compute_root();"),
              "y:\n"
              "  - split(x, xo, xi, 8, Auto)\n"
              "  + split(x, xo, xi, 16, Auto)\n"
              "  + unroll(yi)\n"
              "acc:\n"
              "  - compute_at(y, xo)\n"
              "b:\n"
              "  + compute_root()\n");
    EXPECT_EQ(diff("target cpu avx2\n knob a in {1, 2}\n y.unroll(x, a);",
                   "op gemm\n knob a in {1}\n y.unroll(x, a);"),
              "- target cpu avx2\n- knob a in {1, 2}\n+ op gemm\n+ knob a in {1}\n");
    // Knobs that swap places show even where their first values are the same.
    EXPECT_EQ(diff("knob a in {1, 2}, b in {1, 2}\n y.unroll(x, a).unroll(z, b);",
                   "knob a in {1, 2}, b in {1, 2}\n y.unroll(x, b).unroll(z, a);"),
              "with a = 2:\ny:\n  - split(x, x, xu, 2, Auto)\n  + split(x, x, xu, 1, Auto)\n"
              "  - split(z, z, zu, 1, Auto)\n  + split(z, z, zu, 2, Auto)\n");
    EXPECT_EQ(diff("y.specialize(n > 8).vectorize(x);", "y.specialize(n > 8).unroll(x);"),
              "y.specialize(n > 8):\n  - vectorize(x)\n  + unroll(x)\n");
    EXPECT_EQ(diff("x.in(acc);", ""), "- x.in(acc)\n");
}

// What is left of a schedule with faults can still be checked, and what was lost is named.
TEST(ScheduleLanguage, faults_do_not_spread) {
    ParseResult parsed = parse_schedules(in_schedule("  acc.vectorize(x;\n"
                                                     "  y.splt(x, xo, xi, 8).unroll(xi);\n"
                                                     "  z.compute_root();"),
                                         "");
    ASSERT_EQ(parsed.diagnostics.size(), 1u);
    ASSERT_EQ(parsed.schedules.size(), 1u);
    CanonicalResult result = canonicalize(parsed.schedules[0]);
    EXPECT_EQ(result.diagnostics.size(), 1u);
    EXPECT_EQ(result.damaged, (std::set<std::string>{"acc", "y"}));
    EXPECT_EQ(print_text(result.schedule), "schedule s {\n  y.unroll(xi);\n  z.compute_root();\n}\n");
    EXPECT_THROW(canonical(parsed.schedules[0]), Error);
}

} // namespace
} // namespace kiln::test
