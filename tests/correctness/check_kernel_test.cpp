// check_kernel: right kernels pass, and each kind of wrong one is refused with its own diagnostic.
#include "dsl/check/BenchKernel.h"
#include "dsl/check/CheckKernel.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace kiln {
namespace {

CheckRequest chain_request() {
    CheckRequest r;
    r.build.generator = "chain_relu";
    r.build.params = {{"type", "float32"}};
    VariantRequest v;
    v.target = Target::parse("cpu avx2");
    r.build.variants = {v};
    r.seed = 12345;
    r.reference_s = 0.5;
    return r;
}

CheckReport check_bad(const std::string &fault, double timeout_s = 20) {
    CheckRequest r = chain_request();
    r.archive = std::string(KILN_BINARY_DIR) + "/lib/check_bad_" + fault + ".so";
    r.workloads = {find_workload("chain_relu", "n67")};
    r.timeout_s = timeout_s;
    return check_kernel(r);
}

std::string text(const CheckReport &r) {
    return r.diagnostics.empty() ? "" : render(r.diagnostics[0], "");
}

std::string codes(const CheckReport &r) {
    std::string out;
    for (const Diagnostic &d : r.diagnostics) {
        out += out.find(d.code) == std::string::npos ? d.code + " " : "";
    }
    return out;
}

class CheckKernel : public testing::Test {
protected:
    // Registers the generators, so that find_workload knows them.
    void SetUp() override {
        static CheckReport first = check_kernel(chain_request());
        ASSERT_TRUE(first.ok) << (first.diagnostics.empty() ? "" : render(first.diagnostics[0], ""));
    }
};

TEST_F(CheckKernel, RightKernelPassesAllProbes) {
    CheckReport r = check_kernel(chain_request());
    EXPECT_TRUE(r.ok) << text(r);
    std::string seen;
    for (const ProbeReport &p : r.probes) {
        EXPECT_TRUE(p.status == ProbeReport::Status::Passed || p.status == ProbeReport::Status::Refused)
            << p.message;
        seen += p.probe + " ";
    }
    for (const char *probe : {"integers", "random", "special", "strided", "odd", "ones", "zero"}) {
        EXPECT_NE(seen.find(probe), std::string::npos) << probe;
    }
    EXPECT_GT(r.bound, 0);
    EXPECT_LE(r.error, r.bound);
    EXPECT_EQ(r.seed, 12345u);
}

TEST_F(CheckKernel, StandInsThatAreRightPass) {
    CheckReport r = check_bad("good");
    EXPECT_TRUE(r.ok) << text(r);
}

TEST_F(CheckKernel, K0806WrongResults) {
    for (const char *fault : {"zeros", "constant", "identity", "half", "slightly", "nan_eater"}) {
        CheckReport r = check_bad(fault);
        EXPECT_FALSE(r.ok) << fault;
        EXPECT_EQ(codes(r), "K0806 ") << fault << "\n" << text(r);
    }
    EXPECT_EQ(text(check_bad("half")),
              "error[K0806]: `y` at (64) was never written, it should be exactly 1.25\n"
              "   = note: 34 of the 67 elements that were compared are wrong, with whole "
              "numbers as inputs\n"
              "   = note: seed 12345\n"
              "   = help: `kiln check --seed 12345` repeats this run\n");
}

TEST_F(CheckKernel, K0807K0808Damage) {
    EXPECT_EQ(text(check_bad("behind")),
              "error[K0807]: the kernel wrote 1 elements behind the end of `y`\n"
              "   = note: with whole numbers as inputs, seed 12345\n"
              "   = help: look at the tail of the outermost split: GuardWithIf writes "
              "nothing outside\n");
    EXPECT_EQ(codes(check_bad("before")), "K0807 ");
    EXPECT_EQ(text(check_bad("input")),
              "error[K0808]: the kernel changed its input `x` at element 33\n"
              "   = note: with whole numbers as inputs, seed 12345\n"
              "   = help: a kernel writes its outputs alone: look for a store with the "
              "wrong buffer\n");
}

TEST_F(CheckKernel, K0809CrashesHangsAndErrors) {
    for (const char *fault : {"crash", "abort", "status"}) {
        EXPECT_EQ(codes(check_bad(fault)), "K0809 ") << fault;
    }
    EXPECT_EQ(codes(check_bad("hang", 0.2)), "K0809 ");
    EXPECT_EQ(text(check_bad("status")),
              "error[K0809]: the kernel `check_bad_status` returned 4 (device error), with "
              "whole numbers as inputs\n"
              "   = note: the driver reported an error\n"
              "   = help: `kiln check --seed 12345` repeats this run\n");
}

TEST_F(CheckKernel, K0805WorkloadsThatDoNotFit) {
    CheckRequest r = chain_request();
    Workload w = find_workload("chain_relu", "n67");
    w.extents.erase("y");
    r.workloads = {w};
    EXPECT_EQ(text(check_kernel(r)), "error[K0805]: workload `n67` has no extents for `y`\n"
                                     "   = note: it names `x`\n"
                                     "   = help: name every buffer of the generator\n");
    try {
        find_workload("chain_relu", "n66");
        FAIL();
    } catch (const Error &e) {
        EXPECT_EQ(e.diagnostics[0].code, "K0805");
        EXPECT_EQ(e.diagnostics[0].helps[0], "did you mean `n67`?");
    }
}

TEST_F(CheckKernel, K0810TasksWhoseAnswerIsFixed) {
    CheckRequest r = chain_request();
    Workload w = find_workload("chain_relu", "n67");
    w.scalars = {{"a", 0.0}, {"b", 2.0}};
    r.workloads = {w};
    CheckReport report = check_kernel(r);
    EXPECT_FALSE(report.ok);
    EXPECT_EQ(text(report),
              "error[K0810]: the answer of `chain_relu` on workload `n67` does not depend on its inputs\n"
              "   = note: four draws of random inputs gave the same outputs within their tolerance\n"
              "   = help: choose sizes or scalars for which the inputs matter\n");
}

TEST_F(CheckKernel, BenchAgainstTheDefaultScheduleAndItself) {
    BenchRequest b;
    b.build = chain_request().build;
    b.workload = find_workload("chain_relu", "2^20");
    b.baseline = "default";
    b.seconds = 0.3;
    BenchReport r = bench_kernel(b);
    ASSERT_TRUE(r.ok) << (r.diagnostics.empty() ? "" : render(r.diagnostics[0], ""));
    EXPECT_GT(r.row.ms, 0);
    EXPECT_GT(r.row.cold_ms, 0);
    EXPECT_LE(r.row.ratio_low, r.row.ratio);
    EXPECT_GE(r.row.ratio_high, r.row.ratio);
    EXPECT_EQ(r.row.shape, "1048576");
    EXPECT_EQ(r.row.bytes, 8.0 * (1 << 20));
    // The default schedule against itself: the interval has 1 in reach.
    EXPECT_LT(r.row.ratio_low, 1.15);
    EXPECT_GT(r.row.ratio_high, 0.87);
}

TEST_F(CheckKernel, K0821UnknownBaseline) {
    BenchRequest b;
    b.build = chain_request().build;
    b.workload = find_workload("chain_relu", "n67");
    b.baseline = "defautl";
    BenchReport r = bench_kernel(b);
    ASSERT_FALSE(r.diagnostics.empty());
    EXPECT_EQ(render(r.diagnostics[0], ""), "error[K0821]: unknown baseline `defautl`\n"
                                            "   = note: baselines are `copy`, `default`, `adams2019`, "
                                            "`mullapudi2016`, `li2018`, `anderson2021`, and "
                                            "`archive:PATH`\n"
                                            "   = help: did you mean `default`?\n");
}

TEST(Results, RowsAreMergedAndReadBack) {
    std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "kiln_results_test.json";
    std::filesystem::remove(path);
    Device device;
    device.name = "a device";
    BenchRow row;
    row.work = "gemm";
    row.shape = "8x8x8";
    row.ms = 2;
    write_results(path, device, "kiln bench", {row});
    BenchRow other = row;
    other.shape = "9x9x9";
    row.ms = 1;
    write_results(path, device, "kiln bench", {row, other});
    std::ifstream in(path);
    nlohmann::json file = nlohmann::json::parse(in);
    ASSERT_EQ(file.at("rows").size(), 2u);
    EXPECT_EQ(file.at("rows")[0].at("ms"), 1);
    EXPECT_EQ(file.at("device"), "a device");
    for (const char *key : {"work", "shape", "type", "target", "schedule", "ms", "baseline", "baseline_ms",
                            "ratio", "ratio_low", "ratio_high", "roofline", "error", "bound"}) {
        EXPECT_TRUE(file.at("rows")[0].contains(key)) << key;
    }
}

TEST(Device, CeilingsAreKeptAndRooflinesFollowThem) {
    std::filesystem::path cache = std::filesystem::path(testing::TempDir()) / "kiln_cache_test";
    std::filesystem::remove_all(cache);
    setenv("KILN_CACHE_DIR", cache.c_str(), 1);
    Device device = device_for(Target::parse("cpu"));
    EXPECT_GE(device.units, 1);
    EXPECT_FALSE(device.ceilings.has_value());
    EXPECT_EQ(roofline_seconds(device, "float32", 1e9, 1e9), 0);
    Ceilings c;
    c.copy_bytes_per_s = 1e10;
    c.flops["float32"] = 1e11;
    c.units = 2;
    store_ceilings(device, c);
    device = device_for(Target::parse("cpu"));
    ASSERT_TRUE(device.ceilings.has_value());
    EXPECT_DOUBLE_EQ(roofline_seconds(device, "float32", 1e11, 1e9), 1);
    EXPECT_DOUBLE_EQ(roofline_seconds(device, "float32", 1e11, 1e9, 1), 2); // one of two threads
    EXPECT_DOUBLE_EQ(roofline_seconds(device, "float32", 1e9, 1e10), 1);
    unsetenv("KILN_CACHE_DIR");
}

TEST(Device, K0903NoDeviceForATarget) {
    try {
        device_for(Target::parse("cuda sm_121a"));
        GTEST_SKIP() << "this machine has that GPU";
    } catch (const Error &e) {
        EXPECT_EQ(e.diagnostics[0].code, "K0903");
        EXPECT_EQ(e.diagnostics[0].message, "no device of this machine runs `cuda sm_121a`");
        EXPECT_EQ(
            e.diagnostics[0].helps,
            std::vector<std::string>{"libraries for it can be built here and run elsewhere: `kiln build`"});
        EXPECT_NE(e.diagnostics[0].notes[0].find("cpu:0"), std::string::npos);
    }
}

} // namespace
} // namespace kiln
