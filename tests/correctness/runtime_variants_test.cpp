/** \file
 * Several variants behind one name: which one runs, why, and that each gives the same answer.
 */
#include "runtime_support.h"

namespace kiln::test {
namespace {

VariantRequest variant(const char *target, std::vector<VariantCondition> conditions = {}) {
    VariantRequest v;
    v.target = Target::parse(target);
    v.conditions = std::move(conditions);
    return v;
}

using What = VariantCondition::What;

BuildRequest chain_with(std::vector<VariantRequest> variants, const std::filesystem::path &folder) {
    BuildRequest request = request_for("test_chain", {}, folder);
    request.variants = std::move(variants);
    return request;
}

TEST(Variants, ByShapeAndAlignment) {
    TemporaryFolder folder;
    LoadedLibrary lib =
        load(chain_with({variant("cpu avx2", {{What::ExtentMultipleOf, "y", 0, 8},
                                              {What::AlignedTo, "x", 0, 32},
                                              {What::AlignedTo, "y", 0, 32}}),
                         variant("cpu avx2", {{What::ExtentAtMost, "y", 0, 4}}), variant("cpu")},
                        folder.path()));
    alignas(64) float x[64], y[64];
    for (int i = 0; i < 64; i++) {
        x[i] = static_cast<float>(i - 30);
    }
    auto run = [&](int w, int offset, std::string *reason) {
        View<float> vx(x + offset, {w, 2}), vy(y + offset, {w, 2});
        float a = 2, b = 1;
        void *arguments[] = {vx.buffer(), &a, &b, vy.buffer()};
        const kiln_entry_variant *chosen = lib.choose(nullptr, arguments, reason);
        EXPECT_EQ(lib.call(nullptr, arguments), KILN_OK) << lib.last_message();
        for (int i = 0; i < 2 * w; i++) {
            EXPECT_EQ(y[offset + i], std::max(2 * x[offset + i] + 1, 0.0f));
        }
        return static_cast<int>(chosen - lib.info().variants);
    };
    std::string reason;
    EXPECT_EQ(run(16, 0, &reason), 0);
    EXPECT_EQ(reason, "");
    EXPECT_EQ(lib.last_choice(), "test_chain: `cpu avx2`, schedule `default_cpu_avx2`");
    EXPECT_EQ(run(16, 1, &reason), 2);
    EXPECT_EQ(reason,
              "`cpu avx2`: `x` is not aligned to 32 bytes; `cpu avx2`: extent 0 of `y` is 16, above 4");
    EXPECT_EQ(run(3, 0, &reason), 1);
    EXPECT_EQ(reason, "`cpu avx2`: extent 0 of `y` is 3, no multiple of 8");
    EXPECT_EQ(run(13, 0, &reason), 2);
    EXPECT_EQ(lib.last_choice(),
              "test_chain: `cpu`, schedule `default_cpu`; passed over: `cpu avx2`: extent 0 of `y` "
              "is 13, no multiple of 8; `cpu avx2`: extent 0 of `y` is 13, above 4");
}

TEST(Variants, ByProcessor) {
    // Whatever this machine is, the first variant that it can run runs.
    TemporaryFolder folder;
    LoadedLibrary lib =
        load(chain_with({variant("cpu avx512"), variant("cpu avx2"), variant("cpu")}, folder.path()));
    Array<float> x({19, 3}), y({19, 3});
    x.fill(2);
    ChainCall call{x.buffer(), y.buffer()};
    ASSERT_EQ(call.run(lib), KILN_OK) << lib.last_message();
    EXPECT_EQ(y.at(18, 2), std::max(2 * x.at(18, 2) + 1, 0.0f));
    bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                  __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512cd");
    std::string rest = "; passed over: `cpu avx512`: the processor lacks what `cpu avx512` needs";
    EXPECT_EQ(lib.last_choice(), avx512 ? "test_chain: `cpu avx512`, schedule `default_cpu_avx512`"
                                        : "test_chain: `cpu avx2`, schedule `default_cpu_avx2`" + rest);
}

TEST(Variants, ByBackend) {
    // No GPU driver here or none that is asked for: the CPU takes over, and says why.
    TemporaryFolder folder;
    LoadedLibrary lib = load(chain_with({variant("cuda"), variant("cpu avx2")}, folder.path()));
    Array<float> x({19, 3}), y({19, 3});
    ChainCall call{x.buffer(), y.buffer()};
    ASSERT_EQ(call.run(lib), KILN_OK) << lib.last_message();
    if (lib.last_choice().find("libcuda") == std::string::npos) {
        GTEST_SKIP() << "a CUDA driver is here";
    }
    EXPECT_EQ(lib.last_choice(),
              "test_chain: `cpu avx2`, schedule `default_cpu_avx2`; passed over: `cuda`: the CUDA "
              "driver was not found: libcuda.so.1 could not be opened");
    LoadedLibrary cuda = load(chain_with({variant("cuda")}, folder.path() / "cuda"));
    EXPECT_EQ(call.run(cuda), KILN_NO_DEVICE);
    EXPECT_EQ(cuda.last_message(),
              "test_chain: `cuda`: the CUDA driver was not found: libcuda.so.1 could not be opened");
    EXPECT_EQ(cuda.prepare(nullptr), KILN_NO_DEVICE);
    EXPECT_EQ(cuda.last_message(),
              "test_chain: `cuda`: the CUDA driver was not found: libcuda.so.1 could not be opened");
}

/// Code with 32-bit indices: all elements count, and what a stride spans.
TEST(Variants, BySpan) {
    TemporaryFolder folder;
    LoadedLibrary lib = load(chain_with(
        {variant("cpu avx2", {{What::ElementsAtMost, "x", 0, 40}}), variant("cpu")}, folder.path()));
    float x[64] = {}, y[64];
    auto chosen = [&](int w, int h, int stride) {
        View<float> vx(x, {w, h}), vy(y, {w, h});
        vx.buffer()->dim[1].stride = stride;
        float a = 2, b = 1;
        void *arguments[] = {vx.buffer(), &a, &b, vy.buffer()};
        std::string reason;
        EXPECT_TRUE(lib.choose(nullptr, arguments, &reason)) << lib.last_message();
        return reason;
    };
    EXPECT_EQ(chosen(20, 2, 20), "");
    EXPECT_EQ(chosen(7, 6, 7), "`cpu avx2`: `x` spans more than 40 elements");
    EXPECT_EQ(chosen(2, 2, 20), "");
    EXPECT_EQ(chosen(2, 2, -20), "");
    EXPECT_EQ(chosen(2, 2, 21), "`cpu avx2`: `x` spans more than 40 elements");
    EXPECT_EQ(chosen(2, 2, -21), "`cpu avx2`: `x` spans more than 40 elements");
    EXPECT_EQ(chosen(0, 2, 21), "`cpu avx2`: `x` spans more than 40 elements");
}

} // namespace
} // namespace kiln::test
