/** \file
 * Reported times of copies below, at and above the caches: never more than the measured ceiling without a word.
 */
#include "cases_support.h"

#include "dsl/check/BenchKernel.h"
#include "dsl/target/Device.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>

namespace kiln::test {
namespace {

// ---- K46

class CasesTiming : public ::testing::Test {
protected:
    CasesTiming() { setenv("KILN_CACHE_DIR", (folder.path() / "cache").c_str(), 1); }
    ~CasesTiming() override { unsetenv("KILN_CACHE_DIR"); }

    BenchReport bench(int64_t megabytes) {
        BenchRequest request;
        request.build.generator = "case_copy";
        request.build.load = {KILN_BINARY_DIR "/lib/kiln_cases_generators.so"};
        VariantRequest variant;
        variant.target = Target::parse("cpu avx2");
        request.build.variants = {variant};
        int64_t n = megabytes * (1 << 20) / 4;
        request.workload = {std::to_string(megabytes) + " MB", {{"x", {n}}, {"y", {n}}}, {}, {}, true};
        request.baseline = "copy";
        request.seconds = 0.3;
        request.check = false;
        return bench_kernel(request);
    }
    static bool flagged(const BenchReport &r) {
        return std::count(r.row.flags.begin(), r.row.flags.end(), "above the roofline") > 0;
    }

    TemporaryFolder folder;
};

TEST_F(CasesTiming, CopiesStayBelowTheCeilingOrAreQuestioned) {
    Device device = device_for(Target::parse("cpu avx2"));
    Ceilings ceilings = calibrate(device);
    ASSERT_GT(ceilings.copy_bytes_per_s, 0);
    for (int64_t megabytes : {1, 32, 64, 128}) {
        BenchReport r = bench(megabytes);
        ASSERT_TRUE(r.ok) << render_all(r.diagnostics, "");
        SCOPED_TRACE(std::to_string(megabytes) + " MB");
        EXPECT_EQ(r.row.bytes, 2.0 * double(megabytes) * (1 << 20));
        // Both are there, under names of their own.
        EXPECT_GT(r.row.ms, 0);
        EXPECT_GT(r.row.cold_ms, 0);
        nlohmann::json json = to_json(r.row);
        EXPECT_TRUE(json.contains("ms") && json.contains("cold_ms"));
        EXPECT_LE(r.row.ms_low, r.row.ms);
        EXPECT_GE(r.row.ms_high, r.row.ms);
        double warm = r.row.bytes / (r.row.ms * 1e-3), cold = r.row.bytes / (r.row.cold_ms * 1e-3);
        // What the cache holds is judged by its cold time; the rest by either.
        bool cached = r.row.bytes <= double(device.cache_bytes);
        double judged = cached ? cold : warm;
        EXPECT_TRUE(judged <= ceilings.copy_bytes_per_s * 1.03 || flagged(r))
            << judged / 1e9 << " GB/s above the " << ceilings.copy_bytes_per_s / 1e9
            << " measured, and nobody asks";
        EXPECT_EQ(flagged(r), judged > ceilings.copy_bytes_per_s * 1.03);
    }
}

TEST_F(CasesTiming, ATimeBelowTheFloorIsQuestioned) {
    // As if the copy's ceiling were a hundredth of what it is: an honest time must look too good.
    Device device = device_for(Target::parse("cpu avx2"));
    Ceilings slow;
    slow.copy_bytes_per_s = 1e8;
    slow.flops["float32"] = 1e12;
    slow.units = device.units;
    store_ceilings(device, slow);
    for (int64_t megabytes : {1, 64}) {
        BenchReport r = bench(megabytes);
        ASSERT_TRUE(r.ok) << render_all(r.diagnostics, "");
        EXPECT_TRUE(flagged(r)) << megabytes;
        bool said = false;
        for (const Diagnostic &d : r.diagnostics) {
            said = said || (d.code == "K0820" &&
                            d.message.find("that the measured ceilings of cpu:0 allow") != std::string::npos);
        }
        EXPECT_TRUE(said);
    }
}

} // namespace
} // namespace kiln::test
