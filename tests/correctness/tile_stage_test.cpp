/** \file
 * What a tile kernel reads, from its definitions; the C that a launch computes with; and what is refused.
 */
#include "dsl/lower/TileBounds.h"
#include "dsl/lower/TileKernels.h"
#include "dsl/lower/TileShim.h"
#include "dsl/lower/Tools.h"
#include "dsl/support/Files.h"

#include <gtest/gtest.h>

#include <functional>

#include <dlfcn.h>

namespace kiln {
namespace {

using namespace Halide;

const Var n("n"), m("m");

/// [first, last] of each dimension where the extents of outputs and inputs are those of `sizes`.
std::vector<std::pair<int64_t, int64_t>> box(const TileBounds &bounds, const std::string &view,
                                             std::map<std::string, int> sizes) {
    std::map<std::string, Expr> known;
    for (const auto &[name, value] : sizes) {
        known[name] = value;
    }
    for (const auto &[name, value] : bounds.values) {
        known[name] = Internal::simplify(Internal::substitute(known, value));
    }
    std::vector<std::pair<int64_t, int64_t>> out;
    for (const TileRange &r : bounds.reads.at(view)) {
        auto number = [&](const Expr &e) {
            auto value = Internal::as_const_int(Internal::simplify(Internal::substitute(known, e)));
            EXPECT_TRUE(value) << e;
            return value.value_or(-1000);
        };
        out.emplace_back(number(r.first), number(r.last));
    }
    return out;
}

using Box = std::vector<std::pair<int64_t, int64_t>>;

TEST(TileBounds, ProductWithNeighbours) {
    ImageParam x(Float(32), 2, "x"), w(Float(32), 2, "w"), r(Float(32), 2, "r"), b(Float(32), 1, "b");
    RDom k(0, x.dim(0).extent(), "k");
    Func acc("acc"), y("y");
    acc(n, m) = 0.0f;
    acc(n, m) += x(k, m) * w(k, n + 2);
    y(n, m) = acc(n, m) + r(n, max(m - 3, 0)) + b(n / 4);
    TileBounds bounds = tile_bounds({y}, {}, "y");
    std::map<std::string, int> sizes = {
        {"y.min.0", 0}, {"y.min.1", 0}, {"y.extent.0", 100}, {"y.extent.1", 7}, {"x.extent.0", 33}};
    EXPECT_EQ(box(bounds, "x", sizes), (Box{{0, 32}, {0, 6}}));
    EXPECT_EQ(box(bounds, "w", sizes), (Box{{0, 32}, {2, 101}}));
    EXPECT_EQ(box(bounds, "r", sizes), (Box{{0, 99}, {0, 3}}));
    EXPECT_EQ(box(bounds, "b", sizes), (Box{{0, 24}}));
    EXPECT_EQ(bounds.mentioned, (std::set<std::string>{"x.extent.0"}));
    sizes["x.extent.0"] = 0;
    EXPECT_EQ(box(bounds, "w", sizes)[0], (std::pair<int64_t, int64_t>(0, -1)));
}

/// A Func computed before the kernel is a view; what it reads is not the kernel's.
TEST(TileBounds, FuncsBefore) {
    ImageParam x(Float(32), 2, "x"), z(Float(32), 2, "z");
    Func before("before"), y("y");
    before(n, m) = x(n - 5, m) * 2.0f;
    y(n, m) = before(n, m + 1) + before(n + 4, m) + z(m, n);
    TileBounds bounds = tile_bounds({y}, {"before"}, "y");
    std::map<std::string, int> sizes = {
        {"y.min.0", 0}, {"y.min.1", 0}, {"y.extent.0", 10}, {"y.extent.1", 20}};
    EXPECT_EQ(box(bounds, "before", sizes), (Box{{0, 13}, {0, 20}}));
    EXPECT_EQ(box(bounds, "z", sizes), (Box{{0, 19}, {0, 9}}));
    EXPECT_FALSE(bounds.reads.count("x"));
}

/// A sum over part of a dimension reads that part.
TEST(TileBounds, Predicates) {
    ImageParam x(Float(32), 2, "x");
    Param<int> last("last");
    RDom k(0, x.dim(0).extent(), "k");
    k.where(k <= last);
    Func y("y");
    y(m) = 0.0f;
    y(m) += x(k, m);
    TileBounds bounds = tile_bounds({y}, {}, "y");
    EXPECT_EQ(box(bounds, "x", {{"y.min.0", 0}, {"y.extent.0", 4}, {"x.extent.0", 50}, {"last", 20}}),
              (Box{{0, 20}, {0, 3}}));
}

/// Division and remainder are Halide's, in 64 bits.
TEST(TileShim, ExpressionsInC) {
    Expr a = Internal::Variable::make(Int(32), "a"), b = Internal::Variable::make(Int(32), "b");
    const std::vector<Expr> cases = {a / b,
                                     a % b,
                                     max(a, b) - min(a, 3),
                                     select(a < b && b != 0, a * b, -a),
                                     (a + 127) / 128,
                                     cast<int32_t>(cast<uint8_t>(a)),
                                     abs(a - b),
                                     select(!(a >= b) || a == 4, 1, 0)};
    TemporaryFolder folder;
    std::string text = tile_shim_text({}, "kernels");
    for (size_t i = 0; i < cases.size(); i++) {
        text += "int64_t f" + std::to_string(i) + "(int64_t a, int64_t b) {\n    return " +
                shim_expr(cases[i], [](const std::string &name) { return name; }) + ";\n}\n";
    }
    write_file_atomic(folder.path() / "f.c", text);
    std::vector<std::string> cc = c_compiler();
    cc.insert(cc.end(), {"-std=c11", "-O1", "-Wall", "-Wno-unused-function", "-Werror", "-fPIC", "-shared",
                         "-I", runtime_headers().string(), "f.c", "-o", "f.so"});
    run_tool(cc, folder.path());
    void *library = dlopen((folder.path() / "f.so").c_str(), RTLD_NOW);
    ASSERT_NE(library, nullptr) << dlerror();
    for (size_t i = 0; i < cases.size(); i++) {
        auto f = reinterpret_cast<int64_t (*)(int64_t, int64_t)>(
            dlsym(library, ("f" + std::to_string(i)).c_str()));
        for (int x : {-300, -7, -1, 0, 1, 4, 5, 299}) {
            for (int y : {-5, -1, 0, 1, 3, 128}) {
                Expr want = Internal::simplify(
                    Internal::substitute(std::map<std::string, Expr>{{"a", x}, {"b", y}}, cases[i]));
                auto number = Internal::as_const_int(Internal::simplify(cast<int64_t>(want)));
                ASSERT_TRUE(number) << want;
                EXPECT_EQ(f(x, y), *number) << cases[i] << " at " << x << ", " << y;
            }
        }
        EXPECT_EQ(reinterpret_cast<int64_t (*)(int64_t, int64_t)>(dlsym(library, "f4"))(int64_t(1) << 40, 1),
                  int64_t(1) << 33);
    }
    dlclose(library);
}

std::string fault_of(const std::function<void()> &work) {
    try {
        work();
    } catch (const Error &e) {
        return render(e.diagnostics.front(), "");
    }
    return "no fault";
}

TEST(TileStageFaults, ValuesThatALaunchCannotCompute) {
    Expr x = Internal::Variable::make(Float(32), "x");
    EXPECT_EQ(fault_of([&] { shim_expr(cast<int>(x), [](const std::string &name) { return name; }); }),
              "error[K1190]: a launch cannot compute this value\n"
              "   = note: int32((float32)x)\n");
}

TEST(TileStageFaults, IndicesWithoutBounds) {
    ImageParam table(Float(32), 2, "table"), index(Int(32), 1, "index");
    Func y("y");
    y(n, m) = table(n, index(m));
    EXPECT_EQ(
        fault_of([&] { tile_bounds({y}, {}, "y"); }),
        "error[K1191]: the tile kernel of `y` reads dimension 1 of `table` at coordinates without bounds\n"
        "   = help: clamp the index, so that every call can be checked before it runs\n");
    Func clamped("clamped");
    clamped(n, m) = table(n, clamp(index(m), 0, 9));
    EXPECT_EQ(
        box(tile_bounds({clamped}, {}, "clamped"), "table",
            {{"clamped.min.0", 0}, {"clamped.extent.0", 3}, {"clamped.min.1", 0}, {"clamped.extent.1", 3}}),
        (Box{{0, 2}, {0, 9}}));
}

TEST(TileStageFaults, ReadersOfAnotherOutput) {
    ImageParam x(Float(32), 2, "x");
    Func y("y"), top("top"), z("z");
    y(n, m) = x(n, m) + 1.0f;
    top(n, m) = x(n, m) + 2.0f;
    z(n, m) = top(n, m) * 2.0f;
    tile::TilePlan plan;
    plan.kernel = "y";
    Target target = Target::parse("cuda sm_90a");
    EXPECT_EQ(fault_of([&] {
                  make_tile_stage(plan, {y, top}, {{y, top, z}, {x.parameter()}}, target, "s");
              }),
              "error[K1192]: `z` reads `top`, a further output of the tile kernel `y`\n"
              "   = help: make `top` the kernel's own Func: `top.tile_kernel()` and `y.tile_kernel(top)`\n"
              "   = help: or compute `z` in the kernel too\n");
    EXPECT_EQ(
        fault_of([&] {
            make_tile_stage(plan, {y, top}, {{y}, {x.parameter()}}, target, "s");
        }),
        "error[K1192]: `top` is a further output of the tile kernel `y`, but no output of the pipeline\n"
        "   = help: compute it inside the kernel\n");
}

TEST(TileStageFaults, CoordinatesBelowZero) {
    ImageParam x(Float(32), 2, "x");
    Func y("y");
    y(n, m) = x(n - 1, m) + x(n, m);
    tile::TilePlan plan;
    plan.kernel = "y";
    plan.blocks = {{"n", "no", 64}, {"m", "mo", 64}};
    plan.grid = {"no", "mo"};
    plan.rows = "m";
    plan.consumers = 1;
    plan.producers = 0;
    Target target = Target::parse("cuda sm_90a");
    EXPECT_EQ(fault_of([&] {
                  make_tile_stage(plan, {y}, {{y}, {x.parameter()}}, target, "s");
              }),
              "error[K1193]: the tile kernel of `y` reads `x` from -1 on in dimension 0, and tile kernels "
              "count from "
              "0\n"
              "   = help: schedule `y` as loops, or shift the index\n");
}

/// For targets that are not exact the image is PTX, which the driver compiles for what is there.
TEST(TileStage, PortableTargets) {
    ImageParam x(Float(32), 2, "x");
    Func y("y");
    y(n, m) = x(n, m) * 2.0f;
    tile::TilePlan plan;
    plan.kernel = "y";
    plan.blocks = {{"n", "no", 64}, {"m", "mo", 64}};
    plan.grid = {"no", "mo"};
    plan.rows = "m";
    plan.consumers = 1;
    plan.producers = 0;
    TileStage stage = make_tile_stage(plan, {y}, {{y}, {x.parameter()}}, Target::parse("cuda sm_80"), "s");
    EXPECT_NE(stage.compiled.cubin.find(".target sm_80"), std::string::npos);
    std::string text = tile_shim_text({stage}, "kernels");
    EXPECT_NE(text.find(".incbin \\\"s.image\\\""), std::string::npos);
    ASSERT_EQ(stage.views.size(), 2u);
    EXPECT_EQ(stage.views[0].name, "x");
    EXPECT_EQ(stage.views[1].name, "y");
}

} // namespace
} // namespace kiln
