/** \file
 * Schedules whose result would depend on luck: asynchronous stages, ordered updates, levels between block loops. Right
 * in every run, or refused with the reason, and never by Halide's own asserts.
 */
#include "cases_support.h"

namespace kiln::test {
namespace {

std::string schedule(const std::string &op, const std::string &target, const std::string &body) {
    return "schedule s {\n  op " + op + "\n  target " + target + "\n  " + body + "\n}\n";
}

void expect_parts(const std::string &message, std::vector<std::string> parts) {
    parts.push_back("help:");
    parts.push_back("error[K0");
    for (const std::string &part : parts) {
        EXPECT_NE(message.find(part), std::string::npos) << "lacks " << part << "\n" << message;
    }
    for (const char *never : {"Internal Error", "Condition failed", "error[K05", "error[K07"}) {
        EXPECT_EQ(message.find(never), std::string::npos) << "has " << never << "\n" << message;
    }
}

// ---- K27

TEST(CasesSchedule, AsynchronousStagesAreRightInEveryRun) {
    struct Case {
        const char *neighbours, *body;
    };
    for (Case c : {Case{"false", "first.compute_root();\n"
                                 "  middle.store_root().compute_at(out, j).fold_storage(j, 1).async();"},
                   Case{"false", "first.compute_root();\n"
                                 "  middle.store_root().compute_at(out, j).fold_storage(j, 4).async();"},
                   Case{"true", "first.compute_root();\n"
                                "  middle.store_root().compute_at(out, j).fold_storage(j, 4).async();"},
                   Case{"true", "first.store_root().compute_at(middle, j).fold_storage(j, 4).async();\n"
                                "  middle.store_root().compute_at(out, j).fold_storage(j, 4).async();"}}) {
        Params params = {{"neighbours", c.neighbours}};
        Build b{"case_stages", "cpu avx2", params, schedule("case_stages", "cpu avx2", c.body)};
        std::string refused = refusal(b);
        if (!refused.empty()) {
            expect_parts(refused, {"`middle`"});
            ADD_FAILURE() << c.body << " is refused:\n" << refused;
            continue;
        }
        LoadedLibrary &lib = kernel(b);
        const int w = 37, h = 53, more = *c.neighbours == 't' ? 2 : 0;
        std::vector<int32_t> x(w * (h + 2)), y(w * h);
        for (size_t i = 0; i < x.size(); i++) {
            x[i] = int32_t(i * 7919 % 101) - 50;
        }
        auto middle = [&](int i, int j) {
            int32_t first = x[size_t(j * w + i)] * 3 + 1;
            return first * first - j;
        };
        int wrong = 0;
        for (int run = 0; run < 200; run++) {
            std::fill(y.begin(), y.end(), -1);
            View<int32_t> vx(x.data(), {w, h + more}), vy(y.data(), {w, h});
            void *arguments[] = {vx.buffer(), vy.buffer()};
            ASSERT_EQ(lib.call(nullptr, arguments), KILN_OK) << lib.last_message();
            for (int j = 0; j < h; j++) {
                for (int i = 0; i < w; i++) {
                    wrong += y[size_t(j * w + i)] !=
                             (more ? middle(i, j) + 2 * middle(i, j + 1) + 5 * middle(i, j + 2)
                                   : middle(i, j) * 7 + i);
                }
            }
        }
        EXPECT_EQ(wrong, 0) << c.body;
    }
}

TEST(CasesSchedule, AFoldThatLosesRowsIsRefused) {
    expect_parts(refusal({"case_stages",
                          "cpu avx2",
                          {{"neighbours", "true"}},
                          schedule("case_stages", "cpu avx2",
                                   "first.compute_root();\n"
                                   "  middle.store_root().compute_at(out, j).fold_storage(j, 1).async();")}),
                 {"`middle`", "fold of 1", "3 along `j`"});
}

TEST(CasesSchedule, OrderedUpdatesAreRefusedOnEveryKindOfLoop) {
    auto refused = [](const std::string &target, const std::string &body,
                      const std::vector<std::string> &parts) {
        SCOPED_TRACE(target + " " + body);
        expect_parts(refusal({"case_ordered", target, {}, schedule("case_ordered", target, body)}), parts);
    };
    for (const char *target : {"cpu avx2", "opencl", "cuda"}) {
        std::string loop = std::string(target) == "cpu avx2" ? "parallel(r)" : "gpu_blocks(r)";
        std::string place = "last.compute_root();\n  ";
        refused(target, place + "last.update().atomic()." + loop + ";", {"`last", "`r`"});
        refused(target, place + "last.update().reorder(i, r)." + loop + ";", {"`last", "`r`"});
    }
    refused("cpu avx2", "last.compute_root();\n  last.update().atomic().vectorize(r, 8);", {"`last"});
}

TEST(CasesSchedule, AReductionThatAParallelLoopWouldShareIsRefused) {
    // Stored outside of a parallel loop, computed inside: iterations would write one storage.
    std::string message = refusal(
        {"case_stages",
         "cpu avx2",
         {},
         schedule("case_stages", "cpu avx2", "out.parallel(j);\n  middle.store_root().compute_at(out, j);")});
    expect_parts(message, {"`middle`", "`j`"});
}

// ---- K31

TEST(CasesSchedule, LevelsOfGpuLoopsThatCannotBe) {
    const std::string tiles = "out.split(i, bi, ti, 8).split(j, bj, tj, 8).reorder(ti, tj, bi, bj)"
                              ".gpu_blocks(bi, bj).gpu_threads(ti, tj);\n  ";
    struct Case {
        std::string name, body;
        std::vector<std::string> parts;
    };
    for (const char *target : {"opencl", "cuda"}) {
        for (const Case &c :
             {Case{"between the block loops", tiles + "g.compute_at(out, bj);", {"`g`", "`out`", "`bj`"}},
              Case{"a tile inside a tile",
                   tiles + "g.compute_at(out, bi).gpu_tile(i, j, gbi, gbj, gti, gtj, 4, 4);",
                   {"`g`", "`out`", "block"}},
              Case{"registers read by a neighbour",
                   tiles + "g.compute_at(out, bi).store_in(Register).gpu_threads(i, j);",
                   {"`g`", "egister"}},
              Case{"a neighbour's tile in registers, through two Funcs",
                   tiles + "g.compute_at(out, bi).gpu_threads(i, j);\n"
                           "  f.compute_at(out, bi).store_in(Register).gpu_threads(i, j);",
                   {"`f`", "egister"}},
              Case{"an asynchronous copy of an inlined Func", tiles + "g.async();", {"`g`", "inlined"}},
              Case{"threads without blocks", "out.gpu_threads(i);", {"out.gpu_threads(i)", "`i`"}}}) {
            SCOPED_TRACE(std::string(target) + ": " + c.name);
            expect_parts(
                refusal({"case_neighbours", target, {}, schedule("case_neighbours", target, c.body)}),
                c.parts);
        }
        // And the choice that is legal.
        EXPECT_EQ(refusal({"case_neighbours",
                           target,
                           {},
                           schedule("case_neighbours", target,
                                    tiles + "g.compute_at(out, bi).store_in(GPUShared).gpu_threads(i, j);")}),
                  "");
    }
}

} // namespace
} // namespace kiln::test
