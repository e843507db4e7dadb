// The schedules of schedules/ as a build takes them from that folder: each computes what its algorithm says.
#include "dsl/check/CheckKernel.h"
#include "dsl/check/Groups.h"
#include "dsl/lower/LibraryRequest.h"
#include "dsl/support/Files.h"
#include "dsl/target/Detect.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

using Params = std::map<std::string, std::string>;
const std::string schedules = KILN_SOURCE_DIR "/schedules";

/// On the named workloads, else on the generator's first three.
CheckReport expect_right(BuildRequest build, const std::vector<std::string> &names = {}) {
    CheckRequest r;
    r.build = std::move(build);
    ensure_generator(r.build);
    for (const std::string &name : names) {
        r.workloads.push_back(find_workload(r.build.generator, name));
    }
    if (names.empty()) {
        r.workloads = find_generator_info(r.build.generator)->workloads;
        r.workloads.resize(std::min<size_t>(3, r.workloads.size()));
    }
    r.quick = true;
    r.seed = 4711;
    r.reference_s = 0.2;
    r.timeout_s = 60;
    CheckReport report = check_kernel(r);
    EXPECT_TRUE(report.ok) << r.build.generator << " " << r.build.variants[0].target.str() << "\n"
                           << (report.diagnostics.empty() ? "" : render(report.diagnostics[0], ""));
    EXPECT_FALSE(report.probes.empty());
    return report;
}

BuildRequest from_folder(const std::string &generator, const char *target, const Params &params = {}) {
    BuildRequest build;
    build.generator = generator;
    build.params = params;
    const std::vector<std::string> folder = {schedules};
    build.variants = choose_schedules(generator, Target::parse(target), folder, params);
    for (const VariantRequest &v : build.variants) {
        EXPECT_NE(v.schedule_text, "") << "the default schedule";
    }
    return build;
}

/// The first schedule that a call meets: what is not given is the generator's default, and a number may be spelled otherwise.
TEST(HandSchedules, DefaultsOfParametersChoose) {
    auto first = [](const std::string &generator, const Params &params) {
        BuildRequest build;
        build.generator = generator;
        ensure_generator(build);
        const std::vector<VariantRequest> chosen =
            choose_schedules(generator, Target::parse("cuda sm_90a"), {schedules}, params);
        return std::filesystem::path(chosen.front().schedule_file).stem().string();
    };
    EXPECT_EQ(first("gemm", {}), "cuda_sm_90a_f32");
    EXPECT_EQ(first("gemm", {{"type", "bfloat16"}}), "cuda_sm_90a_skinny");
    const std::string d128 = "cuda_sm_90a_d128", bf16 = "bfloat16";
    auto holds = [&](const Params &params, const std::string &stem) {
        const std::vector<VariantRequest> chosen =
            choose_schedules("attention", Target::parse("cuda sm_90a"), {schedules}, params);
        return std::any_of(chosen.begin(), chosen.end(), [&](const VariantRequest &v) {
            return std::filesystem::path(v.schedule_file).stem().string() == stem;
        });
    };
    BuildRequest attention;
    attention.generator = "attention";
    ensure_generator(attention);
    EXPECT_TRUE(holds({{"type", bf16}}, d128 + "_full"));
    EXPECT_TRUE(holds({{"type", bf16}, {"softcap", "0.0"}}, d128 + "_full"));
    EXPECT_FALSE(holds({{"type", bf16}, {"softcap", "30"}}, d128 + "_full"));
    EXPECT_FALSE(holds({{"type", bf16}, {"mask", "causal"}}, d128 + "_full"));
}

TEST(HandSchedules, EveryGeneratorOnTheCpu) {
    for (const char *generator :
         {"chain_relu", "gelu_residual", "swiglu", "gemm", "softmax", "layer_norm", "rms_norm"}) {
        expect_right(from_folder(generator, "cpu avx2"));
    }
}

// A second output is served by the same schedule on a CPU, by one that variants.txt names on a GPU.
TEST(HandSchedules, AttentionWithAndWithoutLogSumExp) {
    const std::vector<std::string> works = {"q13 k29", "q29 k13 causal", "q70 k130 window"};
    for (const char *lse : {"false", "true"}) {
        expect_right(from_folder("attention", "cpu avx2", {{"lse", lse}}), works);
    }
    expect_right(from_folder("attention", "opencl", {{"lse", "true"}}), {"q29 k13 causal"});
}

// The loops that make AVX512-BF16's dot products, with the same lanes on AVX2: odd and even lengths of k.
TEST(HandSchedules, ProductsByPairs) {
    VariantRequest variant;
    variant.target = Target::parse("cpu avx2");
    variant.schedule_file = schedules + "/gemm/cpu_avx512_bf16_pairs.sched";
    variant.schedule_text = read_text_file(variant.schedule_file, "schedule");
    const std::string target = "target  cpu avx512_bf16";
    size_t at = variant.schedule_text.find(target);
    ASSERT_NE(at, std::string::npos);
    variant.schedule_text.replace(at, target.size(), "target  cpu avx2");
    BuildRequest build;
    build.generator = "gemm";
    build.params = {{"pairs", "on"}};
    build.variants = {variant};
    expect_right(build, {"37x53x29 bf16", "37x53x29 tt", "3x17x19x23", "1x1x1", "64"});
}

// Sums in AMX's tile registers; on a machine without them a variant behind serves the calls, and must be right.
TEST(HandSchedules, ProductsInTileRegisters) {
    BuildRequest build = from_folder("gemm", "cpu amx", {{"type", "bfloat16"}});
    ASSERT_EQ(build.variants.front().target.str(), "cpu amx");
    VariantRequest least;
    least.target = Target::parse("cpu");
    build.variants.push_back(least);
    const std::vector<std::string> features = detect_cpu().features;
    const bool has = std::find(features.begin(), features.end(), "amx") != features.end();
    for (const ProbeReport &probe : expect_right(build, {"37x53x29 bf16", "1024 bf16"}).probes) {
        EXPECT_EQ(probe.variant, has ? "gemm: `cpu amx`, schedule `gemm_amx`" : probe.variant);
        EXPECT_EQ(probe.variant.find("passed over: `cpu amx`: the ") == std::string::npos, has)
            << probe.variant;
    }
}

/// Of the many schedules of a library it is said which one the tile compiler refuses.
TEST(HandSchedules, ARefusedKernelNamesItsFile) {
    TemporaryFolder folder;
    BuildRequest build;
    build.generator = "softmax";
    build.params = {{"type", "bfloat16"}};
    build.output_dir = folder.path();
    ensure_generator(build);
    VariantRequest v;
    v.target = Target::parse("cuda sm_90a");
    v.schedule_file = schedules + "/softmax/cuda_sm_90a_rows.sched";
    v.schedule_text = read_text_file(v.schedule_file, "schedule");
    v.knobs = {{"columns", "8192"}, {"groups", "1"}, {"registers", "40"}};
    build.variants = {v};
    const BuildResult result = build_library(build);
    EXPECT_FALSE(result.ok);
    ASSERT_FALSE(result.diagnostics.empty());
    EXPECT_EQ(result.diagnostics.back().code, "K1152");
    EXPECT_EQ(result.diagnostics.back().file, v.schedule_file);
}

} // namespace
} // namespace kiln
