// What the autoscheduler's problems and spaces say where they cannot be made.
#include "dsl/schedule/Parser.h"
#include "dsl/search/space/Space.h"
#include "dsl/support/Diagnostic.h"

#include <Halide.h>
#include <gtest/gtest.h>

namespace kiln::search {
namespace {

using Halide::Func;
using Halide::Var;

const Target cpu = Target::parse("cpu avx2");

Func brighten() {
    Var x("x"), y("y");
    Func out("out");
    out(x, y) = x * 2 + y;
    return out;
}

template<typename Work>
std::string message_of(const Work &work, const std::string &source = "") {
    try {
        work();
    } catch (const Error &e) {
        return render_all(e.diagnostics, source);
    }
    return "no error";
}

TEST(SearchSpaceError, NoSizesOfAnOutput) {
    Problem facts;
    facts.outputs = {brighten()};
    facts.target = cpu;
    facts.device = nominal_device(cpu);
    facts.extents["out"] = {100};
    EXPECT_EQ(message_of([&] { make_problem(facts); }),
              "error[K1301]: no sizes of the 2-dimensional output `out`\n"
              "   = help: name them, innermost first: `out=1000x1000`\n"
              "\n1 error, 0 warnings\n");
}

TEST(SearchSpaceError, NoEstimateOfAnOutput) {
    Func out = brighten();
    out.set_estimate(Var("x"), 0, 100);
    EXPECT_EQ(message_of([&] { problem_of({out}, cpu, nominal_device(cpu)); }),
              "error[K1302]: no estimate of the output `out` along `y`\n"
              "   = help: give it one in the generator: `output.set_estimates({{0, 1000}, …})`\n"
              "\n1 error, 0 warnings\n");
}

TEST(SearchSpaceError, NoMemberOfAFamilyIsLegal) {
    Problem facts;
    facts.outputs = {brighten()};
    facts.target = cpu;
    facts.device = nominal_device(cpu);
    facts.extents["out"] = {100, 100};
    Problem problem = make_problem(std::move(facts));
    const std::string text = "schedule strips {\n"
                             "  target cpu\n"
                             "  knob rows in {2, 4, 8}\n"
                             "  require rows != 4\n"
                             "  out.split(z, zo, zi, rows);\n"
                             "}\n";
    ParseResult parsed = parse_schedules(text, "strips.sched");
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(message_of([&] { family_space(problem, parsed.schedules.at(0)); }, text),
              "error[K1303]: no member of the family `strips` is legal here\n"
              " --> strips.sched:1:10\n"
              "  |\n"
              "1 | schedule strips {\n"
              "  |          ^^^^^^\n"
              "  = note: 2 of 3: K0107 no loop `…` in `…`\n"
              "  = note: 1 of 3: K0607 the requirement `…` does not hold\n"
              "  = help: `kiln schedule check` says more of each\n"
              "\n1 error, 0 warnings\n");
}

} // namespace
} // namespace kiln::search
