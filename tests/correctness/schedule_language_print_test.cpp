// The printers, against files in tests/golden/schedule; the C++ among them is compiled here.
#include "dsl/schedule/Builder.h"
#include "dsl/schedule/Directive.h"
#include "dsl/schedule/Reference.h"
#include "tests/support/golden.h"
#include "tests/support/round_trip.h"
#include "tests/support/schedule_pipelines.h"

#include <set>

namespace kiln::test {
namespace {

const std::filesystem::path golden = std::filesystem::path(KILN_SOURCE_DIR) / "tests/golden/schedule";

Schedule read(const std::string &name) {
    ParseResult parsed = parse_schedules(read_file(golden / (name + ".sched")), name + ".sched");
    EXPECT_TRUE(parsed.ok()) << render_all(parsed.diagnostics, *parsed.source);
    return parsed.schedules.at(0);
}

void expect_prints(const std::string &name, const PipelineInfo &info) {
    expect_round_trip(read_file(golden / (name + ".sched")));
    Schedule s = read(name);
    expect_golden(golden / (name + ".text"), print_text(s));
    expect_golden(golden / (name + ".canonical"), print_text(canonical(s)));
    expect_golden(golden / (name + ".kiln.inc"), print_kiln(s));
    expect_golden(golden / (name + ".halide.inc"), print_halide(s, info));
}

TEST(SchedulePrint, every_directive) {
    expect_prints("every", every_info());
}

// Tile kernels have no form in Halide's own calls.
TEST(SchedulePrint, every_directive_of_tile_kernels) {
    expect_round_trip(read_file(golden / "tile.sched"));
    Schedule s = read("tile");
    expect_golden(golden / "tile.text", print_text(s));
    expect_golden(golden / "tile.canonical", print_text(canonical(s)));
    expect_golden(golden / "tile.kiln.inc", print_kiln(s));
    try {
        print_halide(s, gemm_info());
        ADD_FAILURE() << "printed";
    } catch (const Error &e) {
        EXPECT_EQ(render_all(e.diagnostics, *s.source),
                  "error[K0040]: `tile_kernel` has no form in plain Halide calls\n"
                  " --> tile.sched:8:59\n"
                  "  |\n"
                  "8 |   y.tile(n, m, no, mo, ni, mi, bn, bm).gpu_blocks(no, mo).tile_kernel();\n"
                  "  |                                                           ^^^^^^^^^^^\n"
                  "  = help: print the schedule as text or as Kiln's C++\n"
                  "\n"
                  "1 error, 0 warnings\n");
    }
}

TEST(SchedulePrint, gemm) {
    expect_prints("gemm", gemm_info());
}

// The printed C++ makes the schedule that it was printed from.
TEST(SchedulePrint, kiln_form_is_the_same_value) {
    {
#include "tests/golden/schedule/every.kiln.inc"
        EXPECT_TRUE(s.schedule() == read("every")) << print_text(s.schedule());
    }
    {
#include "tests/golden/schedule/gemm.kiln.inc"
        EXPECT_TRUE(s.schedule() == read("gemm")) << print_text(s.schedule());
    }
    {
#include "tests/golden/schedule/tile.kiln.inc"
        EXPECT_TRUE(s.schedule() == read("tile")) << print_text(s.schedule());
    }
}

// Objects with a name stand for their name, as Halide's do.
TEST(SchedulePrint, builder_takes_named_objects) {
    struct Named {
        std::string text;
        const std::string &name() const { return text; }
    };
    Named y{"y$1"}, acc{"acc"}, n{"n"}, k{"k$x"};
    ScheduleBuilder s("s");
    s(y).split(n, "no", "ni", 8).vectorize("ni");
    s(acc).compute_at(s(y).update(), "no").store_in("Stack");
    StageBuilder part = s(acc).update().rfactor(k, "u").as("part");
    part.compute_root();
    s(y).in(acc).declare();
    s(y).atomic(true).specialize(expr("y.extent(n) > 8")).split(n, "a", "b", kw("factor", 4));
    EXPECT_EQ(print_text(s.schedule()),
              "schedule s {\n"
              "  y.split(n, no, ni, 8).vectorize(ni);\n"
              "  acc.compute_at(y.update(), no).store_in(Stack);\n"
              "  part = acc.update().rfactor(k.x, u);\n"
              "  part.compute_root();\n"
              "  y.in(acc);\n"
              "  y.atomic(true).specialize(y.extent(n) > 8).split(n, a, b, factor = 4);\n"
              "}\n");
    expect_round_trip(print_text(s.schedule()));
    EXPECT_THROW(s.knob("bm of {1}"), Error);
    EXPECT_THROW(s.target("gpu"), Error);
    EXPECT_THROW(expr("1 +"), Error);
}

TEST(SchedulePrint, builder_has_every_directive) {
    std::set<std::string> methods = {
#define KILN_DIRECTIVE(NAME) #NAME,
#include "dsl/schedule/Directives.def"
#undef KILN_DIRECTIVE
    };
    std::set<std::string> registered;
    for (const Directive &d : all_directives()) {
        EXPECT_NE(find_directive(d.name), nullptr);
        if (d.refused.empty()) {
            EXPECT_TRUE(registered.insert(d.name).second) << d.name;
            EXPECT_FALSE(d.doc.empty() || d.legal.empty() || d.family.empty() || d.forms.empty()) << d.name;
        }
    }
    EXPECT_EQ(methods, registered);
}

// every.sched and tile.sched are what they say.
TEST(SchedulePrint, every_is_every) {
    std::set<std::string> used;
    std::set<std::pair<std::string, size_t>> forms;
    Schedule s = read("every");
    std::vector<Statement> statements = s.statements, more = read("tile").statements;
    statements.insert(statements.end(), more.begin(), more.end());
    for (const Macro &m : s.macros) {
        statements.insert(statements.end(), m.body.begin(), m.body.end());
    }
    for (const Statement &statement : statements) {
        for (const DirectiveCall &call : statement.calls) {
            used.insert(call.name);
        }
    }
    for (const Directive &d : all_directives()) {
        EXPECT_TRUE(!d.refused.empty() || used.count(d.name)) << d.name;
    }
}

TEST(SchedulePrint, reference_page_is_up_to_date) {
    expect_golden(std::filesystem::path(KILN_SOURCE_DIR) / "docs/directives.md", directive_reference());
    EXPECT_EQ(directive_reference("nothing"), "");
    EXPECT_NE(directive_reference("hexagon").find("Not taken"), std::string::npos);
}

} // namespace
} // namespace kiln::test
