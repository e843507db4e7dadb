// Faults of checks, benchmarks, counted work and devices: the whole messages.
#include "dsl/check/BenchKernel.h"
#include "dsl/check/CheckKernel.h"
#include "dsl/lower/Work.h"
#include "dsl/support/Files.h"
#include "dsl/target/Device.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cstdlib>
#include <functional>
#include <regex>

namespace kiln {
namespace {

const std::string lib = KILN_BINARY_DIR "/lib/";

std::string all(const std::vector<Diagnostic> &diagnostics) {
    std::string out;
    for (const Diagnostic &d : diagnostics) {
        out += render(d, "");
    }
    return out;
}

std::string fault_of(const std::function<void()> &work) {
    try {
        work();
    } catch (const Error &e) {
        return all(e.diagnostics);
    }
    return "no fault";
}

Workload vector_of_67(std::map<std::string, double> scalars) {
    return {"n67", {{"x", {67}}, {"y", {67}}}, std::move(scalars), {}, false};
}

CheckRequest check_request(const std::string &generator) {
    CheckRequest r;
    r.build.generator = generator;
    VariantRequest v;
    v.target = Target::parse("cpu avx2");
    r.build.variants = {v};
    r.seed = 12345;
    r.quick = true;
    r.reference_s = 0.2;
    return r;
}

/// Ceilings and devices of their own.
class KernelErrors : public testing::Test {
protected:
    void SetUp() override { setenv("KILN_CACHE_DIR", folder.path().c_str(), 1); }
    void TearDown() override { unsetenv("KILN_CACHE_DIR"); }
    TemporaryFolder folder;
};

TEST_F(KernelErrors, K0811ACopyWouldPass) {
    CheckRequest r = check_request("copy_of_x");
    r.build.load = {lib + "faulty_copies.so"};
    r.workloads = {vector_of_67({})};
    CheckReport report = check_kernel(r);
    EXPECT_FALSE(report.ok);
    EXPECT_EQ(
        all(report.diagnostics),
        "error[K0811]: on workload `n67` of `copy_of_x` a kernel that does no work would pass: an input "
        "may be copied\n"
        "   = help: choose sizes or scalars for which the outputs differ from each other\n");
}

TEST_F(KernelErrors, K0805SizesThatNoBufferHas) {
    for (auto [extent, expected] :
         {std::pair(int64_t(-4), "error[K0805]: workload `n67` gives `x` the extent -4\n"
                                 "   = help: an extent is 0 or more\n"),
          {int64_t(1) << 40, "error[K0805]: workload `n67` gives `x` an extent or a stride beyond 2^31 - 1\n"
                             "   = help: use smaller extents\n"}}) {
        CheckRequest r = check_request("chain_relu");
        r.workloads = {vector_of_67({{"a", 1.5}, {"b", -0.25}})};
        r.workloads[0].extents["x"] = r.workloads[0].extents["y"] = {extent};
        CheckReport report = check_kernel(r);
        EXPECT_FALSE(report.ok);
        ASSERT_FALSE(report.diagnostics.empty());
        EXPECT_EQ(render(report.diagnostics[0], ""), expected);
        EXPECT_TRUE(report.probes.empty());
    }
}

TEST_F(KernelErrors, K0812CannotRunHere) {
    CheckRequest r = check_request("chain_relu");
    r.archive = lib + "check_bad_unsupported.so";
    r.workloads = {vector_of_67({{"a", 1.5}, {"b", -0.25}})};
    CheckReport report = check_kernel(r);
    EXPECT_FALSE(report.ok);
    ASSERT_FALSE(report.diagnostics.empty());
    EXPECT_EQ(render(report.diagnostics[0], ""),
              "error[K0812]: the kernel `check_bad_unsupported` cannot run on this machine\n"
              "   = note: the driver reported an error\n"
              "   = help: `kiln device` lists what runs here; build for one of its targets\n");
}

BenchRequest bench_request(const std::string &baseline) {
    BenchRequest b;
    b.build = check_request("chain_relu").build;
    b.workload = vector_of_67({{"a", 1.5}, {"b", -0.25}});
    b.baseline = baseline;
    b.seconds = 0.02;
    b.check = false;
    return b;
}

TEST_F(KernelErrors, K0820FasterThanTheCeilingsAllow) {
    // A machine that was measured while it stood still: one byte a second.
    Device device = device_for(Target::parse("cpu avx2"));
    Ceilings slow;
    slow.copy_bytes_per_s = 1;
    slow.units = device.units;
    store_ceilings(device, slow);
    BenchReport report = bench_kernel(bench_request(""));
    EXPECT_TRUE(report.ok);
    ASSERT_FALSE(report.diagnostics.empty());
    // 67 floats in and out take 536 s at that speed.
    std::string pattern =
        "warning\\[K0820\\]: [0-9.e-]+ ms is less than the 5.36e\\+05 ms that the measured "
        "ceilings of cpu:0 allow\n"
        "   = help: calibrate on an idle machine \\(`kiln device --calibrate`\\); if it stays, "
        "the work is not what it seems\n";
    EXPECT_TRUE(std::regex_match(render(report.diagnostics[0], ""), std::regex(pattern)))
        << all(report.diagnostics);
    EXPECT_EQ(report.row.flags.at(0), "above the roofline");
}

TEST_F(KernelErrors, K0822SearcherGivesUp) {
    BenchReport report = bench_kernel(bench_request("anderson2021"));
    EXPECT_FALSE(report.ok);
    EXPECT_EQ(all(report.diagnostics),
              "error[K0822]: Halide's searcher `anderson2021` gives no schedule for `chain_relu`\n"
              "   = note: `anderson2021` threw an exception: Error: Specified target "
              "(x86-64-linux-avx-avx2-f16c-fma-sse41) does not support GPU\n"
              "   = help: choose another baseline\n");
}

TEST_F(KernelErrors, K0903NoSuchDevice) {
    std::string text = fault_of([] { device_for(Target::parse("cuda sm_121a")); });
    if (text == "no fault") {
        GTEST_SKIP() << "this machine has that GPU";
    }
    // What there is instead depends on the machine.
    std::regex pattern("error\\[K0903\\]: no device of this machine runs `cuda sm_121a`\n"
                       "(   = note: .*\n)+"
                       "   = help: libraries for it can be built here and run elsewhere: `kiln build`\n");
    EXPECT_TRUE(std::regex_match(text, pattern)) << text;
}

TEST_F(KernelErrors, K0904DeviceFailsWhileMeasured) {
    Device device;
    device.target = Target::parse("opencl");
    device.name = "a device that was unplugged";
    device.platform = "no such platform";
    device.units = 1;
    device.memory_bytes = int64_t(1) << 30;
    std::string text = fault_of([&] { calibrate(device); });
    std::regex pattern("error\\[K0904\\]: device opencl:0 \\(a device that was unplugged\\) failed while its "
                       "ceilings were measured\n"
                       "(   = note: calibrating opencl:0 (.*\n)+)"
                       "   = help: a driver that works elsewhere points at Kiln; please report the notes\n");
    EXPECT_TRUE(std::regex_match(text, pattern)) << text;
}

TEST_F(KernelErrors, K0715SizesLeaveARegionOpen) {
    Halide::ImageParam x(Halide::Int(32), 1, "x");
    Halide::Func table("table"), y("y");
    Halide::Var i("i");
    table(i) = i * i;
    table.compute_root();
    y(i) = table(x(i)); // any int32 may be asked for
    Workload w;
    w.name = "open";
    w.extents = {{"x", {8}}, {"y", {8}}};
    EXPECT_EQ(
        fault_of([&] { count_work({y}, w); }),
        "error[K0715]: the sizes of workload `open` do not tell how much of `table` is needed along `0`\n"
        "   = help: give it extents of all buffers and values of all scalars, and clamp indices that "
        "depend on data\n");
}

} // namespace
} // namespace kiln
