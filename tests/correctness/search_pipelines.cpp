#include "tests/correctness/search_pipelines.h"

#include <random>

namespace kiln::test {

namespace {

using namespace Halide;

Expr mix(const Expr &a, const Expr &b) {
    return (a * 37 + b * 101 + a * b * 7) % 251 - 99;
}

Func source(const char *name) {
    Var x("x"), y("y");
    Func in(name);
    in(x, y) = mix(x, y);
    return in;
}

std::vector<Func> chain_of_40() {
    Var x("x"), y("y");
    Func last = source("in");
    for (int i = 0; i < 40; i++) {
        Func next("s" + std::to_string(i));
        next(x, y) = (last(x, y) + last(x + 1, y) * 2 + last(x, y + 1)) % 4093;
        last = next;
    }
    Func out("out");
    out(x, y) = last(x, y) + 1;
    return {out};
}

std::vector<Func> deep_graph() {
    Var x("x"), y("y");
    std::mt19937 rng(7);
    std::vector<Func> all = {source("in"), source("other")};
    for (int i = 0; i < 48; i++) {
        Func next("n" + std::to_string(i));
        Func a = all[all.size() - 1 - rng() % std::min<size_t>(all.size(), 4)],
             b = all[all.size() - 1 - rng() % std::min<size_t>(all.size(), 7)];
        int dx = static_cast<int>(rng() % 2), dy = static_cast<int>(rng() % 2);
        next(x, y) = (a(x, y) + b(x + dx, y + dy) * 3) % 2039;
        all.push_back(next);
    }
    Func out("out");
    out(x, y) = all.back()(x, y) - all[all.size() - 2](x, y);
    return {out};
}

std::vector<Func> gather() {
    Var x("x"), y("y");
    Func in = source("in"), where("where"), table("table"), out("out");
    where(x) = clamp(mix(x, 5), 0, 40);
    table(x, y) = in(x, y) * 2;
    out(x, y) = table(x / 16, x % 16) + table(where(x), y) + in(clamp(in(x, y), 0, 9), y);
    return {out};
}

std::vector<Func> scatter() {
    Var x("x"), y("y"), b("b");
    Func in = source("in"), counts("counts"), dealt("dealt"), out("out");
    RDom r(0, 16, 0, 9, "r"), p(0, 16, "p");
    counts(b) = 0;
    counts(clamp(in(r.x, r.y), 0, 15)) += 1;
    dealt(x) = -1;
    dealt((p * 5) % 16) = p;
    out(x, y) = counts(x % 16) + dealt(x % 16) * y;
    return {out};
}

std::vector<Func> scans() {
    Var x("x"), y("y");
    Func in = source("in"), along("along"), down("down"), out("out");
    RDom r(1, 30, "r"), q(1, 11, "q");
    along(x, y) = in(x, y);
    along(r, y) = (along(r - 1, y) + in(r, y)) % 1009;
    down(x, y) = along(clamp(x, 0, 30), y);
    down(x, q) = (down(x, q - 1) * 3 + along(clamp(x, 0, 30), q)) % 1009;
    out(x, y) = down(x, clamp(y, 0, 11));
    return {out};
}

std::vector<Func> updates() {
    Var x("x"), y("y");
    Func in = source("in"), f("f"), out("out");
    RDom r(0, 5, "r"), k(0, 4, 0, 3, "k");
    f(x, y) = in(x, y);
    f(x, y) += in(x + r, y) * 3;
    f(x, 0) = x;
    f(x, y) = max(f(x, y), in(x, y + 1));
    f(x, y) += in(x + k.x, y + k.y);
    out(x, y) = f(x, y) + f(x, 0);
    return {out};
}

std::vector<Func> tuples() {
    Var x("x"), y("y");
    Func in = source("in"), pair("pair"), carried("carried"), out("out");
    RDom r(0, 12, "r");
    pair(x, y) = Tuple(in(x, y), in(x, y + 1) * 2);
    carried(x) = Tuple(-1000, 0);
    Expr m = carried(x)[0], n = carried(x)[1];
    carried(x) = Tuple(max(m, pair(x, r)[0]), n + pair(x, r)[1]);
    out(x, y) = carried(x)[0] + carried(x)[1] * 3 + pair(x, y)[0] + y;
    return {out};
}

std::vector<Func> three_outputs() {
    Var x("x"), y("y");
    Func in = source("in"), shared("shared"), a("a"), b("b"), c("c");
    RDom r(0, 7, "r");
    shared(x, y) = in(x, y) + in(x + 1, y);
    a(x, y) = shared(x, y) * 2;
    b(x, y) = 0;
    b(x, y) += shared(x, y + r) * in(r, y);
    c(x, y) = a(x, y) + b(x, y) % 17;
    return {a, b, c};
}

std::vector<Func> layers() {
    Var x("x"), y("y"), c("c");
    Func in("in");
    in(c, x, y) = mix(c + 3 * x, y);
    Func last = in;
    for (int i = 0; i < 7; i++) {
        std::string n = std::to_string(i);
        Func conv("conv" + n), relu("relu" + n);
        RDom r(0, 4, 0, 3, 0, 3, "r" + n);
        conv(c, x, y) = c;
        conv(c, x, y) += last(r.x, x + r.y, y + r.z) * mix(c + r.x, r.y * 3 + r.z + i);
        relu(c, x, y) = max(conv(c, x, y), 0) % 61;
        last = relu;
    }
    Func out("out");
    out(x, y) = last(0, x, y) + last(3, x, y);
    return {out};
}

std::vector<Func> borders() {
    Var x("x"), y("y");
    Func a = source("a"), b = source("b");
    Func near = BoundaryConditions::repeat_edge(a, {{0, 20}, {0, 10}}),
         mirrored = BoundaryConditions::mirror_interior(b, {{0, 20}, {0, 10}});
    Func blur("blur"), out("out");
    blur(x, y) = near(x - 1, y) + near(x + 1, y) + mirrored(x, y - 2);
    out(x, y) = blur(x, y - 1) + blur(x, y + 1) + mirrored(x + 3, y);
    return {out};
}

std::vector<Func> one_value() {
    Var x("x"), y("y");
    Func in = source("in"), sum("sum"), out("out");
    RDom r(0, 50, "r");
    sum(x) = 0;
    sum(x) += in(x, r);
    out(x, y) = sum(x) + in(x, y);
    return {out};
}

} // namespace

std::vector<TestPipeline> hard_pipelines() {
    return {{"chain_of_40", chain_of_40, {40, 24}},
            {"deep_graph", deep_graph, {40, 24}},
            {"gather", gather, {96, 13}},
            {"scatter", scatter, {48, 7}},
            {"scans", scans, {31, 12}},
            {"updates", updates, {53, 19}},
            {"tuples", tuples, {61, 9}},
            {"three_outputs", three_outputs, {45, 17}},
            {"layers", layers, {20, 9}},
            {"borders", borders, {43, 21}},
            {"one_value", one_value, {1, 1}},
            {"chain_1x1", chain_of_40, {1, 1}}};
}

search::Problem problem_of_test(const TestPipeline &pipeline, const Target &target) {
    search::Problem facts;
    facts.outputs = pipeline.build();
    facts.target = target;
    facts.device = search::nominal_device(target);
    for (const Func &f : facts.outputs) {
        facts.extents[schedule_name(f.function())] = std::vector<int64_t>(
            pipeline.sizes.begin(),
            pipeline.sizes.begin() + std::min<int>(f.dimensions(), static_cast<int>(pipeline.sizes.size())));
    }
    return search::make_problem(std::move(facts));
}

} // namespace kiln::test
