// `autoscheduler=Kiln` on pipelines that know nothing of Kiln: what it returns computes what the definitions say.
#include "dsl/search/plugin/Parameters.h"
#include "dsl/support/Diagnostic.h"

#include <Halide.h>
#include <gtest/gtest.h>

#include <cmath>

namespace {

using namespace Halide;

void load() {
    static const bool once = [] {
        load_plugin(KILN_BINARY_DIR "/lib/libautoschedule_kiln.so");
        return true;
    }();
    (void)once;
}

AutoschedulerParams parameters(std::map<std::string, std::string> more = {}) {
    more.emplace("parallelism", "2");
    more.emplace("candidates", "300");
    return {"Kiln", std::move(more)};
}

Target host() {
    return Target("x86-64-linux-avx2-avx-fma-f16c-sse41");
}

/// A 3 x 3 blur whose two Funcs share a name, of an image with its edges repeated, and a sum of each row.
struct Rows {
    ImageParam in{Float(32), 2, "in"};
    Func f{"f"}, g{"f"}, sum{"sum"}, out{"out"};
    Var x{"x"}, y{"y"};
    int width = 300, height = 70;

    Rows() {
        Func edge = BoundaryConditions::repeat_edge(in);
        f(x, y) = edge(x - 1, y) + edge(x, y) + edge(x + 1, y);
        g(x, y) = f(x, y - 1) + f(x, y) + f(x, y + 1);
        RDom k(0, width, "k");
        sum(y) += g(k, y);
        out(x, y) = g(x, y) / (1 + abs(sum(y)));
        in.set_estimates({{0, width}, {0, height}});
        out.set_estimates({{0, width}, {0, height}});
    }

    /// `height` rows, of which there may be other ones than estimated.
    void check(const Target &target, int height) {
        Buffer<float> image(width, height);
        image.for_each_element(
            [&](int i, int j) { image(i, j) = static_cast<float>((i * 7 + j * 13) % 11) - 5; });
        in.set(image);
        Buffer<float> got(width, height);
        out.realize(Pipeline::RealizationArg(got), target);
        got.copy_to_host();
        auto at = [&](int i, int j) {
            return static_cast<double>(image(std::clamp(i, 0, width - 1), std::clamp(j, 0, height - 1)));
        };
        for (int j = 0; j < height; j++) {
            std::vector<double> row(width);
            double all = 0;
            for (int i = 0; i < width; i++) {
                for (int n = 0; n < 9; n++) {
                    row[i] += at(i + n % 3 - 1, j + n / 3 - 1);
                }
                all += row[i];
            }
            for (int i = 0; i < width; i++) {
                ASSERT_NEAR(got(i, j), row[i] / (1 + std::fabs(all)), 1e-4) << i << ", " << j;
            }
        }
    }
};

std::string fault_of(const std::function<void()> &work) {
    try {
        work();
    } catch (const CompileError &e) {
        return e.what();
    }
    return "no fault";
}

TEST(SearchPlugin, SchedulesAPlainPipelineForTheCpu) {
    load();
    Rows rows;
    AutoSchedulerResults results = Pipeline(rows.out).apply_autoscheduler(host(), parameters());
    // A schedule was chosen, in words that Halide writes to `.schedule.h`.
    EXPECT_NE(results.schedule_source.find("pipeline.get_func("), std::string::npos)
        << results.schedule_source;
    EXPECT_NE(results.schedule_source.find(".vectorize("), std::string::npos) << results.schedule_source;
    rows.check(host(), rows.height);
    rows.check(host(), 3);
    // The same again: it depends on nothing but the seed.
    Rows again;
    EXPECT_EQ(Pipeline(again.out).apply_autoscheduler(host(), parameters()).schedule_source,
              results.schedule_source);
}

TEST(SearchPlugin, SchedulesForGpusThatAreNotHere) {
    load();
    for (const char *name : {"x86-64-linux-sse41-cuda-cuda_capability_80", "x86-64-linux-sse41-opencl"}) {
        Rows rows;
        Target target(name);
        AutoSchedulerResults results = Pipeline(rows.out).apply_autoscheduler(target, parameters());
        EXPECT_NE(results.schedule_source.find("gpu_"), std::string::npos) << name << "\n"
                                                                           << results.schedule_source;
        rows.out.compile_to_module({rows.in}, "rows", target); // Halide takes it
    }
}

TEST(SearchPlugin, SaysWhatItDoesNotKnow) {
    load();
    auto run = [](const AutoschedulerParams &given, const Target &target,
                  const std::function<void(Rows &)> &change) {
        Rows rows;
        change(rows);
        Pipeline(rows.out).apply_autoscheduler(target, given);
    };
    auto nothing = [](Rows &) {};
    EXPECT_EQ(fault_of([&] {
                  run({"Kiln", {{"beam_siz", "3"}}}, host(), nothing);
              }),
              "error[K1354]: `autoscheduler=Kiln` has no parameter `beam_siz`\n"
              "   = note: it has parallelism, beam_size, time_budget, candidates, seed, weights_path\n"
              "   = help: did you mean `autoscheduler.beam_size`?\n\n1 error, 0 warnings\n");
    EXPECT_EQ(fault_of([&] {
                  run({"Kiln", {{"parallelism", "many"}}}, host(), nothing);
              }),
              "error[K1355]: `autoscheduler.parallelism=many` is not an integer from 1 to 4096\n"
              "   = note: `parallelism`: threads that CPU code will run on\n\n1 error, 0 warnings\n");
    EXPECT_EQ(fault_of([&] { run(parameters(), Target("x86-64-linux-vulkan"), nothing); }),
              "error[K1356]: `autoscheduler=Kiln` does not know the target `x86-64-linux-vulkan`\n"
              "   = note: it schedules for CPUs, CUDA and OpenCL\n"
              "   = help: leave the other device's feature out of the target\n\n1 error, 0 warnings\n");
    EXPECT_EQ(fault_of([&] { run(parameters(), host(), [](Rows &r) { r.sum.compute_root(); }); }),
              "error[K1357]: `sum` has a schedule before the autoscheduler runs\n"
              "   = note: an autoscheduler chooses the whole schedule\n"
              "   = help: schedule by hand only where `!using_autoscheduler()`\n\n1 error, 0 warnings\n");
}

} // namespace
