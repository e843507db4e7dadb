// Features of loop nests against the statements that Halide lowers the same schedules to; their estimate, and their speed.
#include "tests/correctness/search_lowered_counts.h"

#include "dsl/schedule/Canonical.h"
#include "dsl/schedule/Parser.h"
#include "dsl/schedule/apply/Apply.h"
#include "dsl/search/features/Features.h"
#include "dsl/search/features/Roofline.h"
#include "dsl/search/space/Space.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <iostream>

namespace kiln::search {
namespace {

using test::LoweredCounts;
using namespace Halide;

const kiln::Target cpu = kiln::Target::parse("cpu avx2");
constexpr int register_bytes = 32;

struct Pipe {
    std::string name;
    std::function<std::vector<Func>()> build; ///< with bounds on everything
    std::map<std::string, std::vector<int64_t>> extents;
};

void fix(Func &f, const std::vector<int> &sizes) {
    for (size_t d = 0; d < sizes.size(); d++) {
        f.output_buffer().dim(static_cast<int>(d)).set_bounds(0, sizes[d]);
    }
}

ImageParam input(const char *name, const std::vector<int> &sizes) {
    ImageParam p(Float(32), static_cast<int>(sizes.size()), name);
    int stride = 1;
    for (size_t d = 0; d < sizes.size(); d++) {
        p.dim(static_cast<int>(d)).set_bounds(0, sizes[d]).set_stride(stride);
        stride *= sizes[d];
    }
    return p;
}

std::vector<Func> product() {
    Var n("n"), m("m");
    Func acc("acc"), y("y");
    ImageParam a = input("a", {256, 192}), b = input("b", {384, 256});
    RDom k(0, 256, "k");
    acc(n, m) = 0.0f;
    acc(n, m) += a(k, m) * b(n, k);
    y(n, m) = max(acc(n, m) + 1.0f, 0.0f);
    fix(y, {384, 192});
    return {y};
}

std::vector<Func> blur() {
    Var x("x"), y("y");
    Func bx("bx"), out("out");
    ImageParam in = input("in", {1026, 514});
    bx(x, y) = (in(x, y) + in(x + 1, y) + in(x + 2, y)) * 0.3f;
    out(x, y) = (bx(x, y) + bx(x, y + 1) + bx(x, y + 2)) * 0.3f;
    fix(out, {1024, 512});
    return {out};
}

std::vector<Func> chain() {
    Var x("x");
    Func a("a"), b("b"), out("out");
    ImageParam in = input("in", {65536});
    a(x) = in(x)*2.0f + 1.0f;
    b(x) = a(x) / (1.0f + exp(a(x)));
    out(x) = max(b(x), 0.0f);
    fix(out, {65536});
    return {out};
}

std::vector<Func> rows() {
    Var j("j"), i("i");
    Func sum("sum"), y("y");
    ImageParam x = input("x", {1024, 256});
    RDom r(0, 1024, "r");
    sum(i) = 0.0f;
    sum(i) += x(r, i) * x(r, i);
    y(j, i) = x(j, i) * (1.0f / (sum(i) + 0.5f));
    fix(y, {1024, 256});
    return {y};
}

std::vector<Func> window() {
    Var x("x"), y("y");
    Func gx("gx"), gy("gy"), out("out");
    ImageParam in = input("in", {516, 260});
    gx(x, y) = in(x + 2, y + 1) - in(x, y + 1);
    gy(x, y) = in(x + 1, y + 2) - in(x + 1, y);
    Expr e = 0.0f;
    for (int v = 0; v < 3; v++) {
        for (int u = 0; u < 3; u++) {
            e += gx(x + u, y + v) * gy(x + u, y + v);
        }
    }
    out(x, y) = e;
    fix(out, {512, 256});
    return {out};
}

std::vector<Pipe> pipes() {
    return {{"product", product, {{"a", {256, 192}}, {"b", {384, 256}}, {"y", {384, 192}}}},
            {"blur", blur, {{"in", {1026, 514}}, {"out", {1024, 512}}}},
            {"chain", chain, {{"in", {65536}}, {"out", {65536}}}},
            {"rows", rows, {{"x", {1024, 256}}, {"y", {1024, 256}}}},
            {"window", window, {{"in", {516, 260}}, {"out", {512, 256}}}}};
}

Problem problem_of_pipe(const Pipe &p) {
    Problem facts;
    facts.outputs = p.build();
    facts.extents = p.extents;
    facts.target = cpu;
    facts.device = nominal_device(cpu, 2);
    return make_problem(std::move(facts));
}

LoweredCounts lowered(const Pipe &p, const Schedule &schedule) {
    std::vector<Func> outputs = p.build();
    FuncMap funcs = funcs_of(outputs);
    apply_schedule(canonical(schedule), funcs, cpu);
    return test::count_lowered(outputs, cpu, register_bytes);
}

/// How far apart two amounts are, as a factor ≥ 1; amounts below `floor` are as good as none.
double apart(double a, double b, double floor) {
    a = std::max(a, floor), b = std::max(b, floor);
    return std::max(a / b, b / a);
}

struct Comparison {
    const char *what;
    double feature, truth;
};

std::vector<Comparison> compare(const Features &f, const LoweredCounts &c) {
    auto sum = [&](std::initializer_list<Feature> all) {
        double s = 0;
        for (Feature one : all) {
            s += f.total(one);
        }
        return s;
    };
    return {
        {"adds and multiplications", sum({Feature::float_adds, Feature::float_muls}), c.adds + c.muls},
        {"special functions", sum({Feature::float_specials}), c.specials},
        {"stores", sum({Feature::vector_stores, Feature::scalar_stores, Feature::scatters}),
         c.vector_stores + c.scalar_stores + c.scatters},
        {"loads", sum({Feature::vector_loads, Feature::scalar_loads, Feature::gathers}),
         c.vector_loads + c.scalar_loads + c.gathers},
        {"gathers", sum({Feature::gathers}), c.gathers},
        {"bytes", sum({Feature::bytes_register}), c.loaded_bytes + c.stored_bytes},
        {"iterations", sum({Feature::iterations}), c.iterations},
    };
}

TEST(SearchFeatures, CountWhatIsLowered) {
    std::map<std::string, std::vector<double>> ratios;
    for (const Pipe &p : pipes()) {
        SCOPED_TRACE(p.name);
        Problem problem = problem_of_pipe(p);
        std::unique_ptr<Space> space = pipeline_space(problem);
        std::vector<Candidate> all = space->seeds();
        Rng rng(5);
        all.resize(std::min<size_t>(all.size(), 10));
        for (int i = 0; i < 10; i++) {
            if (auto c = space->random(rng)) {
                all.push_back(std::move(*c));
            }
        }
        all.push_back(space->plain());
        for (const Candidate &c : all) {
            Features f = features(problem, c.schedule);
            LoweredCounts truth = lowered(p, c.schedule);
            EXPECT_EQ(truth.unknown, 0) << c.text();
            for (const Comparison &x : compare(f, truth)) {
                double floor = std::max(1.0, truth.stored_bytes / 4 * 0.02);
                double off = apart(x.feature, x.truth, floor);
                ratios[x.what].push_back(off);
                EXPECT_LT(off, 4) << x.what << ": " << x.feature << " for " << x.truth << "\n" << c.text();
            }
            EXPECT_EQ(f.largest(Feature::lanes) > 1, truth.widest > 1) << c.text();
        }
    }
    for (auto &[what, all] : ratios) {
        std::sort(all.begin(), all.end());
        std::cerr << what << ": median " << all[all.size() / 2] << ", 90 % " << all[all.size() * 9 / 10]
                  << ", worst " << all.back() << "\n";
        EXPECT_LT(all[all.size() / 2], 1.3) << what;
        EXPECT_LT(all[all.size() * 9 / 10], 1.75) << what;
    }
}

// More lanes, less recomputation, more locality are seen as better; each pair differs in one thing.
TEST(SearchFeatures, TheEstimateKnowsTheBetterOfTwo) {
    auto ms = [&](const Pipe &p, const std::string &body) {
        ParseResult parsed =
            parse_schedules("schedule s {\n  target cpu avx2\n" + body + "}\n", "pair.sched");
        EXPECT_TRUE(parsed.ok()) << render_all(parsed.diagnostics, body);
        Problem problem = problem_of_pipe(p);
        return estimate_ms(features(problem, parsed.schedules.at(0)));
    };
    const std::vector<Pipe> all = pipes();
    const Pipe &p = all[0], &b = all[1], &r = all[3];
    const std::string tile =
        "  y.split(m, mo, mi, 6).split(n, no, ni, 16).split(ni, nu, nv, 8).reorder(nv, nu, mi, mo, no)"
        ".vectorize(nv).unroll(nu).unroll(mi).parallel(no);\n";
    const std::string acc =
        "  acc.compute_at(y, mo);\n  acc.split(n, nu, nv, 8).vectorize(nv).unroll(nu).unroll(m);\n";
    const std::string update =
        "  acc.update().split(n, nu, nv, 8).reorder(nv, nu, m, k).vectorize(nv).unroll(nu).unroll(m);\n";
    EXPECT_LT(ms(p, tile + acc + update) * 3, ms(p, "  acc.compute_root();\n  y.parallel(m);\n"));
    EXPECT_LT(ms(p, tile + acc + update), ms(p, tile + "  acc.compute_at(y, mo);\n"));
    // Recomputed three times, from memory twice, and from the first cache.
    std::string inline_x = "  out.vectorize(x, 8).parallel(y);\n",
                root = "  bx.compute_root().vectorize(x, 8).parallel(y);\n" + inline_x,
                rows = "  out.split(y, yo, yi, 32).vectorize(x, 8).parallel(yo);\n"
                       "  bx.compute_at(out, yi).store_at(out, yo).vectorize(x, 8);\n";
    EXPECT_LT(ms(b, rows), ms(b, root));
    EXPECT_LT(ms(b, "  out.vectorize(x, 8).parallel(y);\n"), ms(b, "  out.parallel(y);\n"));
    EXPECT_LT(ms(b, "  out.vectorize(x, 8).parallel(y);\n"), ms(b, "  out.vectorize(x, 8);\n"));
    EXPECT_LT(ms(r, "  y.vectorize(j, 8).parallel(i);\n  sum.compute_at(y, i);\n  part = "
                    "sum.update().split(r, ro, ri, 32)"
                    ".rfactor(ri, u);\n  part.compute_at(y, i).vectorize(u, 8);\n  part.update().reorder(u, "
                    "ro).vectorize(u, 8);\n"),
              ms(r, "  y.vectorize(j, 8).parallel(i);\n  sum.compute_at(y, i);\n"));
}

TEST(SearchFeatures, ThousandsASecond) {
    for (const Pipe &p : pipes()) {
        Problem problem = problem_of_pipe(p);
        std::unique_ptr<Space> space = pipeline_space(problem);
        std::vector<Candidate> all = space->seeds();
        auto clock = [] {
            return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
        };
        double best = 0;
        for (int round = 0; round < 5; round++) {
            double start = clock();
            int n = 0;
            for (; clock() - start < 0.05;) {
                features(problem, all[static_cast<size_t>(n++) % all.size()].schedule);
            }
            best = std::max(best, n / (clock() - start));
        }
        std::cerr << p.name << ": " << static_cast<int>(best) << " candidates a second\n";
        EXPECT_GT(best, 500) << p.name; // some thousands on a quiet machine
    }
}

TEST(SearchFeatures, EveryColumnHasAUnitAndAFormula) {
    ASSERT_EQ(feature_names().size(), feature_units().size());
    ASSERT_EQ(feature_names().size(), feature_docs().size());
    std::set<std::string> names;
    for (size_t i = 0; i < feature_names().size(); i++) {
        EXPECT_TRUE(names.insert(feature_names()[i]).second) << feature_names()[i];
        EXPECT_FALSE(feature_units()[i].empty());
        EXPECT_FALSE(feature_docs()[i].empty());
    }
}

} // namespace
} // namespace kiln::search
