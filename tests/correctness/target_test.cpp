// Target: spellings, round trip, the Halide target strings and the full text of its errors.
#include "dsl/target/SeenBy.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

std::string error_text(std::string_view text) {
    try {
        Target::parse(text);
    } catch (const Error &e) {
        return e.what();
    }
    return "no error";
}

TEST(Target, SpellingsMeanOneTarget) {
    Target expected{Backend::Cpu, "avx512_bf16"};
    for (const char *text : {"cpu avx512_bf16", "cpu-avx512_bf16", "cpu,avx512_bf16", " cpu  avx512_bf16 "}) {
        EXPECT_EQ(Target::parse(text), expected) << text;
    }
}

TEST(Target, EveryFeatureRoundTrips) {
    for (Backend backend : {Backend::Cpu, Backend::Cuda, Backend::OpenCL}) {
        EXPECT_EQ(Target::parse(backend_name(backend)), (Target{backend, ""}));
        for (const std::string &feature : target_features(backend)) {
            Target t{backend, feature};
            EXPECT_EQ(Target::parse(t.str()), t);
            EXPECT_EQ(t.slug(), std::string(backend_name(backend)) + "_" + feature);
        }
    }
}

TEST(Target, HalideFeaturesNeverComeFromTheHost) {
#if defined(__x86_64__) && defined(__linux__)
    const std::string base = "x86-64-linux", tail = "-large_buffers-no_runtime-user_context";
    EXPECT_EQ(Target::parse("cpu").halide(), base + tail);
    EXPECT_EQ(Target::parse("cpu avx2").halide(), base + "-sse41-avx-f16c-fma-avx2" + tail);
    EXPECT_EQ(Target::parse("cpu avx512_bf16").halide(),
              base + "-sse41-avx-f16c-fma-avx2-avx512-avx512_skylake-avx512_cannonlake-avx512_zen4" + tail);
    EXPECT_EQ(Target::parse("cpu amx").halide(),
              base + "-sse41-avx-f16c-fma-avx2-avx512-avx512_skylake-avx512_cannonlake-"
                     "avx512_zen4-avx512_sapphirerapids-no_runtime-user_context")
        << "without 64-bit indices";
    EXPECT_EQ(Target::parse("cpu amx").general(), Target::parse("cpu avx512_bf16"));
    EXPECT_EQ(Target::parse("cuda").halide(), base + "-cuda-cuda_capability_75" + tail);
    EXPECT_EQ(Target::parse("cuda sm_80").halide(), base + "-cuda-cuda_capability_80" + tail);
    EXPECT_EQ(Target::parse("cuda sm_90a").halide(), base + "-cuda-cuda_capability_86" + tail);
    EXPECT_EQ(Target::parse("opencl").halide(), base + "-opencl" + tail);
#endif
}

TEST(Target, LevelsOrderTheFeatures) {
    EXPECT_LT(Target::parse("cpu").level(), Target::parse("cpu sse41").level());
    EXPECT_LT(Target::parse("cpu avx2").level(), Target::parse("cpu avx512").level());
    EXPECT_EQ(Target::parse("cuda").level(), 75);
    EXPECT_EQ(Target::parse("cuda sm_90a").level(), 90);
}

TEST(Target, OlderCodeSeesFewerRegistersAndItsOwnPeak) {
#if defined(__x86_64__)
    Device d;
    d.target = Target::parse("cpu avx512");
    d.limits = limits_of(d.target);
    d.units = 4;
    d.ceilings = Ceilings{};
    d.ceilings->flops = {{"float32", 16}, {"float32/avx2", 8}, {"float32/avx512", 16}, {"float64", 7}};
    Device seen = seen_by(d, Target::parse("cpu avx2"));
    EXPECT_EQ(seen.limits.lanes, 8);
    EXPECT_EQ(seen.limits.vector_registers, 16);
    EXPECT_EQ(seen.units, 4);
    EXPECT_EQ(seen.ceilings->flops.at("float32"), 8);
    EXPECT_EQ(seen.ceilings->flops.at("float64"), 7); // not measured apart
    EXPECT_EQ(seen_by(d, d.target).limits.lanes, 16);
    Device gpu;
    gpu.target = Target::parse("cuda sm_90a");
    gpu.limits = limits_of(gpu.target);
    EXPECT_EQ(seen_by(gpu, Target::parse("cuda sm_80")).limits, gpu.limits);
#endif
}

TEST(Target, K0901UnknownBackend) {
    EXPECT_EQ(error_text("cud sm_90a"), "error[K0901]: unknown backend `cud`\n"
                                        "   = note: backends are `cpu`, `cuda`, `opencl`\n"
                                        "   = help: did you mean `cuda`?\n");
    EXPECT_EQ(error_text(""),
              "error[K0901]: unknown backend ``\n"
              "   = note: backends are `cpu`, `cuda`, `opencl`\n"
              "   = help: write a backend and at most one feature: `cpu avx2`, `cuda sm_90a`, "
              "`opencl`\n");
}

TEST(Target, K0902UnknownFeature) {
    EXPECT_EQ(error_text("cpu avx3"),
              "error[K0902]: unknown feature `avx3` of backend `cpu`\n"
              "   = note: its features are `sse41`, `avx2`, `avx512`, `avx512_bf16`, `amx`\n"
              "   = help: did you mean `avx2`?\n");
    EXPECT_EQ(error_text("opencl fp16"), "error[K0902]: unknown feature `fp16` of backend `opencl`\n"
                                         "   = help: `opencl` has no features: write `opencl`\n");
    EXPECT_EQ(error_text("cpu avx2 avx512"),
              "error[K0902]: target `cpu avx2 avx512` names 2 features, at most one is allowed\n"
              "   = help: each CPU feature includes those before it: write `cpu avx512`\n");
}

} // namespace
} // namespace kiln
