// Sums that several blocks share: in every order of blocks and events as Halide has them and bit for bit the same; planted
// faults; what cannot be split, with the whole message.
#include "dsl/tile/build/Build.h"
#include "dsl/tile/emit/Emit.h"
#include "dsl/tile/interpret/Interpret.h"
#include "dsl/tile/ir/Text.h"
#include "dsl/tile/passes/Runner.h"
#include "dsl/tile/passes/Verify.h"
#include "tests/correctness/tile_reference.h"

#include <gtest/gtest.h>

namespace kiln::tile {
namespace {

using namespace Halide;

const Var n("n"), m("m"), b("b");
const Type half = BFloat(16);

Expr f32(const Expr &e) {
    return cast<float>(e);
}
Expr bf16(const Expr &e) {
    return cast(BFloat(16), e);
}

DeviceLimits hopper() {
    return limits_of(kiln::Target::parse("cuda sm_90a"));
}

TilePlan blocks(int bn, int bm, int parts, const std::vector<std::string> &products = {"acc"}) {
    TilePlan plan;
    plan.kernel = "y";
    plan.blocks = {{"n", "no", bn}, {"m", "mo", bm}};
    plan.grid = {"no", "mo"};
    plan.rows = "m";
    plan.consumers = std::max(1, bm / 64);
    for (const std::string &p : products) {
        plan.products[p] = {};
        plan.split[p]["k"] = 64;
        plan.splits[p] = {parts, {}};
    }
    return plan;
}

struct Product {
    ImageParam x{half, 2, "x"}, w{half, 2, "w"};
    RDom k{0, x.dim(0).extent(), "k"};
    Func acc{"acc"}, y{"y"};
    Product() {
        acc(n, m) = 0.0f;
        acc(n, m) += f32(x(k, m)) * f32(w(k, n));
    }
};

Program plain(int bm, int parts) {
    Product p;
    p.y(n, m) = bf16(max(p.acc(n, m), 0.0f));
    return {"split",
            {p.y},
            blocks(64, bm, parts),
            {p.x, p.w},
            {{{"x", {256, 131}}, {"w", {256, 72}}, {"y", {72, 131}}},
             {{"x", {200, 3}}, {"w", {200, 8}}, {"y", {8, 3}}}}}; // a part without iterations
}

Kernel lowered(const Program &p) {
    return run_passes(build_kernel(p.plan, p.outputs), hopper());
}

/// Early, final, in several orders of blocks and events: Halide's result, and the same bits.
void expect_right(const Program &p, double ulps = 0) {
    Reference reference(p);
    Kernel k = build_kernel(p.plan, p.outputs);
    std::vector<Kernel> stages;
    for (const Pass &pass : passes()) {
        pass.run(k, hopper());
        if (pass.name == "split_reduce" || pass.name == "defer_lanes") {
            stages.push_back(k);
        }
    }
    for (const Diagnostic &d : verify(k, hopper())) {
        ADD_FAILURE() << render(d, "");
    }
    EXPECT_EQ(print(parse_kernel(print(k))), print(k));
    stages.push_back(k);
    for (const Extents &size : p.sizes) {
        const Memory inputs = reference.data(size);
        const Memory wanted = reference.outputs(inputs, size);
        std::string first;
        for (const Kernel &stage : stages) {
            for (unsigned seed = 1; seed < (is_early(stage) ? 2 : 5); seed++) {
                Memory memory = inputs;
                const When when = seed == 1 ? When::Late : seed == 2 ? When::Early : When::Random;
                const Outcome out = interpret(stage, memory, {when, when, when, seed, 3});
                ASSERT_EQ(out.fault.empty() ? compare(memory, wanted, ulps) : out.fault, "") << print(stage);
                const std::vector<uint8_t> &y = memory.at("y").bytes;
                if (&stage == &stages.back()) {
                    first = first.empty() ? std::string(y.begin(), y.end()) : first;
                    EXPECT_EQ(first, std::string(y.begin(), y.end())) << "the order of blocks shows";
                }
            }
        }
    }
}

TEST(TileSplit, product_with_an_epilogue) {
    for (int bm : {64, 128}) {
        for (int parts : {2, 3, 4}) {
            expect_right(plain(bm, parts));
        }
    }
}

TEST(TileSplit, persistent_and_in_turn) {
    Program p = plain(64, 2);
    p.plan.persistent = 8;
    expect_right(p);
    p.plan.consumers = 2;
    p.plan.ping_pong = true;
    expect_right(p);
}

/// Everything that a part must not do twice: a start that is no zero, a second output, a residual through shared memory.
TEST(TileSplit, start_second_output_and_residual) {
    ImageParam x(half, 2, "x"), w(half, 2, "w"), bias(half, 1, "bias"), res(half, 2, "res");
    RDom k(0, x.dim(0).extent(), "k");
    Func acc("acc"), y("y"), raw("raw");
    acc(n, m) = f32(bias(n));
    acc(n, m) += f32(x(k, m)) * f32(w(k, n));
    y(n, m) = bf16(acc(n, m) + f32(res(n, m)));
    raw(n, m) = acc(n, m);
    TilePlan plan = blocks(64, 128, 4);
    plan.copies["res"].stages = 1;
    expect_right({"start",
                  {y, raw},
                  plan,
                  {x, w, bias, res},
                  {{{"x", {256, 131}},
                    {"w", {256, 72}},
                    {"bias", {72}},
                    {"res", {72, 131}},
                    {"y", {72, 131}},
                    {"raw", {72, 131}}}}});
}

/// Two products whose loops become one, and a sum over the same rows.
TEST(TileSplit, loops_that_are_joined) {
    ImageParam x(half, 2, "x"), wg(half, 2, "wg"), wu(half, 2, "wu");
    RDom k(0, x.dim(0).extent(), "k");
    Func gate("gate"), up("up"), y("y");
    gate(n, m) = 0.0f;
    gate(n, m) += f32(x(k, m)) * f32(wg(k, n));
    up(n, m) = 0.0f;
    up(n, m) += f32(x(k, m)) * f32(wu(k, n));
    y(n, m) = bf16(max(gate(n, m), 0.0f) * up(n, m));
    expect_right({"gated",
                  {y},
                  blocks(64, 64, 3, {"gate", "up"}),
                  {x, wg, wu},
                  {{{"x", {256, 70}}, {"wg", {256, 72}}, {"wu", {256, 72}}, {"y", {72, 70}}}}});
}

/// Two products of unequal sums: each part has its share of both.
TEST(TileSplit, loops_of_unequal_length) {
    ImageParam x(half, 2, "x"), w(half, 2, "w"), u(half, 2, "u"), v(half, 2, "v");
    RDom k(0, x.dim(0).extent(), "k"), r(0, u.dim(0).extent(), "k");
    Func left("left"), right("right"), y("y");
    left(n, m) = 0.0f;
    left(n, m) += f32(x(k, m)) * f32(w(k, n));
    right(n, m) = 0.0f;
    right(n, m) += f32(u(r, m)) * f32(v(r, n));
    y(n, m) = left(n, m) + 2.0f * right(n, m);
    expect_right(
        {"unequal",
         {y},
         blocks(64, 64, 2, {"left", "right"}),
         {x, w, u, v},
         {{{"x", {256, 70}}, {"w", {256, 72}}, {"u", {130, 70}}, {"v", {130, 72}}, {"y", {72, 70}}}}});
}

/// No product: rows are summed, and their maximum taken, in parts.
TEST(TileSplit, sums_and_maxima_of_rows) {
    ImageParam x(half, 2, "x");
    RDom r(0, x.dim(0).extent(), "r");
    Func total("total"), top("top"), y("y");
    total(m) = 0.0f;
    total(m) += f32(x(r, m));
    top(m) = Float(32).min();
    top(m) = max(top(m), f32(x(r, m)));
    y(m) = total(m) + top(m);
    TilePlan plan;
    plan.kernel = "y";
    plan.blocks = {{"m", "mo", 16}};
    plan.grid = {"mo"};
    plan.rows = "m";
    plan.producers = 0;
    plan.consumers = 2;
    plan.split = {{"total", {{"r", 256}}}, {"top", {{"r", 256}}}};
    plan.splits = {{"total", {3, {}}}, {"top", {3, {}}}};
    expect_right({"rows", {y}, plan, {x}, {{{"x", {700, 19}}, {"y", {19}}}}});
}

/// A maximum and the sum of exponentials against it, as a Tuple: parts combine by the update itself.
Program running_softmax(int parts) {
    ImageParam x(Float(32), 2, "x");
    RDom ro(0, (x.dim(0).extent() + 255) / 256, "ro"), ri(0, 256, "ri");
    Var t("t");
    Func top("top"), sum("sum"), acc("acc"), y("y");
    Expr inside = t * 256 + ri < x.dim(0).extent();
    Expr value = select(inside, x(t * 256 + ri, m), Float(32).min());
    top(t, m) = Float(32).min();
    top(t, m) = max(top(t, m), value);
    auto safe = [](const Expr &e) { return select(e == Float(32).min(), 0.0f, e); };
    sum(t, m) = 0.0f;
    sum(t, m) += exp(value - safe(top(t, m)));
    acc(m) = Tuple(Float(32).min(), 0.0f);
    Expr a = acc(m)[0], c = top(ro, m), high = max(a, c);
    acc(m) = Tuple(high, acc(m)[1] * exp(a - safe(high)) + sum(ro, m) * exp(c - safe(high)));
    y(m) = log(acc(m)[1]) + acc(m)[0];
    TilePlan plan;
    plan.kernel = "y";
    plan.blocks = {{"m", "mo", 16}};
    plan.grid = {"mo"};
    plan.rows = "m";
    plan.producers = 0;
    plan.consumers = 2;
    plan.split["acc"]["ro"] = 1;
    plan.splits["acc"] = {parts, {}};
    return {"running", {y}, plan, {x}, {{{"x", {2000, 19}}, {"y", {19}}}}};
}

TEST(TileSplit, tuple_with_a_running_maximum) {
    expect_right(running_softmax(3), 8);
}

// ---- faults

bool drop_one(Body &body, const std::function<bool(const Stmt &)> &which) {
    for (size_t i = 0; i < body.size(); i++) {
        if (which(body[i])) {
            body.erase(body.begin() + static_cast<std::ptrdiff_t>(i));
            return true;
        }
        Body *inner = body[i].as<Role>()       ? &body[i].as<Role>()->body
                      : body[i].as<TileLoop>() ? &body[i].as<TileLoop>()->body
                      : body[i].as<Last>()     ? &body[i].as<Last>()->body
                                               : nullptr;
        if (inner && drop_one(*inner, which)) {
            return true;
        }
    }
    return false;
}

std::string finding(const Program &p, const std::function<void(Kernel &)> &plant) {
    Reference reference(p);
    Kernel k = lowered(p);
    plant(k);
    const Memory inputs = reference.data(p.sizes[0]);
    const Memory wanted = reference.outputs(inputs, p.sizes[0]);
    for (unsigned seed = 1; seed < 8; seed++) {
        Memory memory = inputs;
        const Outcome out = interpret(k, memory, {When::Random, When::Random, When::Random, seed, 2});
        const std::string found = out.fault.empty() ? compare(memory, wanted) : out.fault;
        if (!found.empty()) {
            return found;
        }
    }
    return "";
}

void expect_found(const std::string &found, const std::string &text) {
    EXPECT_NE(found.find(text), std::string::npos) << found;
}

TEST(TileSplitFault, missing_statements) {
    const Program p = plain(128, 3);
    expect_found(
        finding(p, [](Kernel &k) { drop_one(k.body, [](const Stmt &s) { return s.as<Publish>(); }); }),
        "not published");
    expect_found(finding(p,
                         [](Kernel &k) {
                             drop_one(k.body, [](const Stmt &s) {
                                 const Barrier *x = s.as<Barrier>();
                                 return x && Internal::is_const(x->id, 15);
                             });
                         }),
                 "a barrier is missing");
    expect_found(finding(p,
                         [](Kernel &k) {
                             drop_one(k.body, [&](const Stmt &s) {
                                 const GlobalStore *g = s.as<GlobalStore>();
                                 return g && !k.view(g->to.view)->is_buffer();
                             });
                         }),
                 "where no block has written");
}

TEST(TileSplitFault, wrong_counts) {
    const Program p = plain(64, 3);
    auto last = [](Kernel &k, const std::function<void(Last &)> &change) {
        walk(k.body, [&](Stmt &s) {
            if (Last *l = s.as<Last>()) {
                change(*l);
            }
        });
    };
    expect_found(finding(p, [&](Kernel &k) { last(k, [](Last &l) { l.parts = 4; }); }), "not all parts came");
    expect_found(finding(p, [&](Kernel &k) { last(k, [](Last &l) { l.parts = 2; }); }),
                 "where no block has written");
    expect_found(finding(p, [&](Kernel &k) { last(k, [](Last &l) { l.at.dims[0].base = 0; }); }), "");
    expect_found(
        finding(p, [&](Kernel &k) { last(k, [](Last &l) { l.at.dims[1].base = l.at.dims[1].base + 7; }); }),
        "no counter");
}

TEST(TileSplitFault, verify_knows_views) {
    Kernel k = lowered(plain(64, 3));
    walk(k.body, [&](Stmt &s) {
        if (Last *l = s.as<Last>()) {
            l->at.view = "y";
        }
    });
    const auto faults = verify(k, hopper());
    ASSERT_FALSE(faults.empty());
    EXPECT_EQ(faults[0].code, "K1198");
}

// ---- refusals

std::string refusal(const Program &p) {
    try {
        lowered(p);
    } catch (const kiln::Error &e) {
        return render_all(e.diagnostics, "");
    }
    return "no refusal";
}

TEST(TileSplitError, no_loop_around_the_tile) {
    Product p;
    p.y(n, m) = bf16(p.acc(n, m));
    TilePlan plan = blocks(64, 64, 2);
    plan.whole["acc"]["k"] = 256;
    EXPECT_EQ(
        refusal({"whole", {p.y}, plan, {p.x, p.w}, {}}),
        "error[K1184]: the sum of `acc` cannot be dealt to several blocks: there is no loop around its tile "
        "that belongs to the block alone\n"
        "   = help: split its RVar: `acc.update().split(k, ko, ki, 64)`, and run that loop inside no "
        "other\n\n1 error, 0 warnings\n");
}

TEST(TileSplitError, a_second_sum_needs_the_first) {
    Product p;
    ImageParam v(half, 2, "v");
    RDom q(0, v.dim(0).extent(), "k");
    Func longer("longer"), y("y");
    longer(n, m) = 0.0f;
    longer(n, m) += f32(p.x(q, m)) * f32(v(q, n)) * p.acc(n, m);
    y(n, m) = longer(n, m);
    TilePlan two = blocks(64, 64, 2, {"acc"});
    two.products["longer"] = {};
    two.split["longer"]["k"] = 64;
    EXPECT_EQ(
        refusal({"behind", {y}, two, {p.x, p.w, v}, {}}),
        "error[K1185]: the sum of `acc` cannot be dealt to several blocks: the loop of `longer` behind it "
        "copies into shared memory, and runs in one of the blocks only\n"
        "   = help: compute `longer` in a kernel of its own, or split its sum\n\n1 error, 0 warnings\n");
}

TEST(TileSplitError, different_parts) {
    ImageParam x(half, 2, "x"), w(half, 2, "w"), u(half, 2, "u");
    RDom k(0, x.dim(0).extent(), "k"), r(0, u.dim(0).extent(), "k");
    Func left("left"), right("right"), y("y");
    left(n, m) = 0.0f;
    left(n, m) += f32(x(k, m)) * f32(w(k, n));
    right(n, m) = 0.0f;
    right(n, m) += f32(x(r, m)) * f32(u(r, n));
    y(n, m) = left(n, m) + right(n, m);
    TilePlan plan = blocks(64, 64, 2, {"left", "right"});
    plan.splits["right"].parts = 4;
    EXPECT_EQ(
        refusal({"unequal", {y}, plan, {x, w, u}, {}}),
        "error[K1186]: the sum of `left` cannot be dealt to several blocks: it is dealt to 2, and that of "
        "`right` in the same kernel to 4\n"
        "   = help: give both as many parts\n\n1 error, 0 warnings\n");
}

TEST(TileSplitError, tiles_from_a_counter) {
    Program p = plain(64, 2);
    p.plan.persistent = 8;
    p.plan.dynamic = true;
    EXPECT_EQ(refusal(p),
              "error[K1187]: the sum of `acc` cannot be dealt to several blocks: its kernel hands tiles "
              "out by a counter, which counts whole tiles\n"
              "   = help: leave out `dynamic`\n\n1 error, 0 warnings\n");
}

TEST(TileSplitError, an_update_that_depends_on_the_order) {
    ImageParam x(Float(32), 2, "x");
    RDom r(0, x.dim(0).extent(), "r");
    Func acc("acc"), y("y");
    acc(m) = 0.0f;
    acc(m) = acc(m) * 0.5f + x(r, m);
    y(m) = acc(m);
    TilePlan plan;
    plan.kernel = "y";
    plan.blocks = {{"m", "mo", 256}};
    plan.grid = {"mo"};
    plan.producers = 0;
    plan.consumers = 2;
    plan.split["acc"]["r"] = 1;
    plan.splits["acc"] = {2, {}};
    const std::string text = refusal({"decay", {y}, plan, {x}, {}});
    EXPECT_EQ(text.substr(0, text.find(": it takes")),
              "error[K1188]: the sum of `acc` cannot be dealt to several blocks: the update of `acc` takes "
              "in 0 values "
              "of an iteration, and a part would stand for one\n"
              "   = help: a sum, product, maximum, minimum or an associative update of a Tuple can be\n\n1 "
              "error, 0 warnings\n");
}

// ---- text

TEST(TileSplitEmit, one_thread_counts_and_all_hear) {
    const EmittedKernel e = emit_cuda(lowered(plain(128, 4)));
    for (const char *line : {"__threadfence();", "comes_last(", "bar_or(15, 256,"}) {
        EXPECT_NE(e.text.find(line), std::string::npos) << line << "\n" << e.text;
    }
    bool workspace = false, counters = false;
    for (const KernelParam &p : e.params) {
        workspace |= p.kind == KernelParam::Kind::Workspace;
        counters |= p.kind == KernelParam::Kind::Counters;
    }
    EXPECT_TRUE(workspace && counters);
    EXPECT_NO_THROW(compile_cubin(e.text, e.name, "sm_90a"));
}

} // namespace
} // namespace kiln::tile
