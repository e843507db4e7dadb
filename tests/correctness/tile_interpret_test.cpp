// The interpreter against Halide, over every program and every stage of the compiler.
#include "dsl/tile/build/Build.h"
#include "dsl/tile/interpret/Interpret.h"
#include "dsl/tile/ir/Text.h"
#include "dsl/tile/passes/Verify.h"
#include "tests/correctness/tile_reference.h"
#include "tests/correctness/tile_texts.h"

#include <gtest/gtest.h>

namespace kiln::tile {
namespace {

DeviceLimits hopper() {
    return limits_of(Target::parse("cuda sm_90a"));
}

/// Float functions that Halide and the C library compute to different last places.
bool has_functions(const Kernel &k) {
    class Find : public Halide::Internal::IRGraphVisitor {
        using IRGraphVisitor::visit;
        void visit(const Halide::Internal::Call *op) override {
            found |= op->call_type == Halide::Internal::Call::PureExtern && op->name.rfind("view:", 0) != 0;
            IRGraphVisitor::visit(op);
        }

    public:
        bool found = false;
    };
    Find f;
    walk(k.body, [&](const Stmt &s) { each_expr(s, [&](const Expr &e) { e.accept(&f); }); });
    return f.found;
}

std::string refusal(const std::string &value, Memory memory) {
    const std::string text =
        "kernel t {\n  axes i:8\n  input x: f32 rank 1\n  output y: f32 rank 1\n  body {\n"
        "    a: f32[i:8] = map " +
        value + "\n    store y[0 + %i] = a\n  }\n}\n";
    try {
        const Kernel k = parse_kernel(text);
        return interpret(k, memory).fault;
    } catch (const Error &e) {
        return render(e.diagnostics.at(0), "");
    }
}

TEST(TileInterpretInput, IsChecked) {
    const Array eight(Halide::Float(32), {8});
    EXPECT_EQ(refusal("x[%i]", {{"x", eight}, {"y", eight}}), "");
    EXPECT_EQ(refusal("x[%i]", {{"x", eight}}), "error[K1167]: view `y` has no array\n");
    EXPECT_EQ(refusal("x[%i]", {{"x", Array(Halide::Float(32), {8, 2})}, {"y", eight}}),
              "error[K1167]: view `x` is f32 of rank 1, its array f32 of rank 2\n");
    EXPECT_EQ(refusal("gamma_f32(x[%i])", {{"x", eight}, {"y", eight}}),
              "error[K1167]: the interpreter does not know the function `gamma_f32`\n"
              "   = help: it knows Halide's arithmetic, comparisons, bit operations and float functions\n");
    EXPECT_EQ(refusal("x[%i]", {{"x", eight}, {"y", Array(Halide::Float(32), {9})}}),
              "`y` is not written at (8)");
}

class TileInterpret : public testing::TestWithParam<std::string> {};

TEST_P(TileInterpret, AgreesWithHalideAtEveryStage) {
    Reference reference(tile_program(GetParam()));
    const Program &p = reference.program();
    std::vector<std::pair<std::string, Kernel>> stages;
    Kernel k = build_kernel(p.plan, p.outputs);
    stages.push_back({"build", k});
    auto check = [&](const std::string &stage) {
        std::string found;
        for (const Diagnostic &d : verify(k, hopper())) {
            found += render(d, "");
        }
        ASSERT_EQ(found, "") << "after " << stage << "\n" << print(k);
    };
    ASSERT_NO_FATAL_FAILURE(check("build"));
    for (const Pass &pass : passes()) {
        const std::string before = print(k);
        pass.run(k, hopper());
        ASSERT_NO_FATAL_FAILURE(check(pass.name));
        EXPECT_EQ(print(parse_kernel(print(k))), print(k));
        if (print(k) != before) {
            stages.push_back({pass.name, k});
        }
    }
    const double ulps = has_functions(k) ? 4 : 0;
    for (const Extents &size : p.sizes) {
        const Memory inputs = reference.data(size);
        const Memory wanted = reference.outputs(inputs, size);
        for (const auto &[name, kernel] : stages) {
            const bool is_end = name == stages.front().first || name == stages.back().first;
            if (!is_end && &size != &p.sizes.back()) {
                continue; // between the ends the ragged size says all
            }
            for (int m = 0; m < (name == stages.back().first ? 3 : 1); m++) {
                Memory memory = inputs;
                const When when = m == 0 ? When::Early : m == 1 ? When::Late : When::Random;
                const Outcome out = interpret(kernel, memory, {when, when, when, unsigned(m), 2});
                const std::string fault = out.fault.empty() ? compare(memory, wanted, ulps) : out.fault;
                ASSERT_EQ(fault, "") << "after " << name << " in mode " << m << "\n" << print(kernel);
            }
        }
    }
}

std::vector<std::string> names() {
    std::vector<std::string> all;
    for (const Program &p : tile_programs()) {
        all.push_back(p.name);
    }
    return all;
}

INSTANTIATE_TEST_SUITE_P(Programs, TileInterpret, testing::ValuesIn(names()),
                         [](const auto &info) { return info.param; });

} // namespace
} // namespace kiln::tile
