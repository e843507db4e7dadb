/** \file
 * Faults of building a library, with their whole messages, and what a build leaves behind.
 */
#include "dsl/lower/BuildLibrary.h"
#include "dsl/lower/Condition.h"
#include "dsl/lower/LibraryRequest.h"
#include "dsl/lower/LoadLibrary.h"
#include "dsl/lower/Tools.h"
#include "dsl/support/Files.h"

#include <gtest/gtest.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace kiln {
namespace {

namespace fs = std::filesystem;

std::string read(const fs::path &path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

class BuildErrors : public ::testing::Test {
protected:
    BuildRequest request(const std::string &generator, std::vector<std::string> targets = {"cpu"}) {
        BuildRequest r;
        r.generator = generator;
        r.load = {KILN_BINARY_DIR "/lib/kiln_test_generators.so"};
        r.output_dir = folder.path() / "out";
        for (const std::string &target : targets) {
            VariantRequest v;
            v.target = Target::parse(target);
            r.variants.push_back(v);
        }
        return r;
    }

    /// The diagnostics of a build that fails and leaves nothing.
    std::string refused(const BuildRequest &r) {
        BuildResult result = build_library(r);
        EXPECT_FALSE(result.ok);
        EXPECT_TRUE(!fs::exists(r.output_dir) || fs::is_empty(r.output_dir));
        return render_all(result.diagnostics, "");
    }

    TemporaryFolder folder;
};

TEST_F(BuildErrors, Crash) {
    BuildRequest r = request("test_bad_news");
    EXPECT_EQ(refused(r), R"(error[K0701]: the build of `test_bad_news` for `cpu` crashed: Aborted
   = note: the end is near
   = help: take directives out of the schedule to find the one that does it, and report it as a fault of Kiln

1 error, 0 warnings
)");
    r.params["what"] = "crash";
    EXPECT_EQ(refused(r), R"(error[K0701]: the build of `test_bad_news` for `cpu` crashed: Segmentation fault
   = help: take directives out of the schedule to find the one that does it, and report it as a fault of Kiln

1 error, 0 warnings
)");
    r.params["what"] = "exit";
    EXPECT_EQ(refused(r),
              R"(error[K0701]: the build of `test_bad_news` for `cpu` ended with exit status 3 and no result
   = help: take directives out of the schedule to find the one that does it, and report it as a fault of Kiln

1 error, 0 warnings
)");
}

TEST_F(BuildErrors, Hang) {
    BuildRequest r = request("test_bad_news");
    r.params["what"] = "hang";
    r.timeout_s = 1.5;
    EXPECT_EQ(refused(r), R"(error[K0702]: the build of `test_bad_news` for `cpu` did not end in 1.5 s
   = help: the schedule may unroll too much; a longer limit can be set

1 error, 0 warnings
)");
}

TEST_F(BuildErrors, Memory) {
    BuildRequest r = request("test_bad_news");
    r.params["what"] = "memory";
    r.memory_limit_bytes = size_t(3) << 30;
    EXPECT_EQ(refused(r),
              R"(error[K0703]: the build of `test_bad_news` for `cpu` needs more than 3072 MiB of memory
   = help: the schedule may unroll too much; a higher limit can be set

1 error, 0 warnings
)");
}

TEST_F(BuildErrors, MissingTool) {
    setenv("KILN_BUILD_TOOL", "/nowhere/kiln-build", 1);
    EXPECT_EQ(refused(request("test_chain")),
              R"(error[K0704]: the build tool is missing: there is no `/nowhere/kiln-build`
   = help: KILN_BUILD_TOOL names it; without that, bin/kiln-build is taken

1 error, 0 warnings
)");
    unsetenv("KILN_BUILD_TOOL");
    setenv("CC", "no-such-compiler", 1);
    std::string text = refused(request("test_chain"));
    unsetenv("CC");
    EXPECT_EQ(text, R"(error[K0704]: `no-such-compiler` cannot be started
   = help: a C compiler and binutils are needed: on Debian and Ubuntu `apt-get install gcc binutils`

1 error, 0 warnings
)");
}

TEST_F(BuildErrors, Folder) {
    BuildRequest r = request("test_chain");
    std::ofstream(folder.path() / "file") << "x";
    r.output_dir = folder.path() / "file" / "out";
    EXPECT_EQ(refused(r), fmt::format("error[K0705]: cannot make the folder `{}`: Not a directory\n"
                                      "   = help: name another output folder, or make this one writable\n\n"
                                      "1 error, 0 warnings\n",
                                      r.output_dir.string()));
}

TEST_F(BuildErrors, AllFilesOrNone) {
    for (const char *file : {"test_chain.json", "test_chain.h", "test_chain.a"}) {
        BuildRequest r = request("test_chain");
        r.output_dir = folder.path() / file / "out";
        fs::create_directories(r.output_dir / file);
        EXPECT_EQ(render_all(build_library(r).diagnostics, ""),
                  fmt::format("error[K0705]: cannot write `{}`: a folder of that name is there\n"
                              "   = help: name another output folder, or make this one writable\n\n"
                              "1 error, 0 warnings\n",
                              (r.output_dir / file).string()));
        EXPECT_EQ(std::distance(fs::directory_iterator(r.output_dir), fs::directory_iterator()), 1) << file;
    }
}

TEST_F(BuildErrors, CompilerFails) {
    setenv("CC", "false", 1);
    std::string text = refused(request("test_chain"));
    unsetenv("CC");
    EXPECT_EQ(text.rfind("error[K0706]: `false` failed\n   = note: the command was `false -std=c11 ", 0), 0u)
        << text;
    EXPECT_NE(text.find("`\n   = help: run the command by itself to see more; CC names another C compiler\n"),
              std::string::npos)
        << text;
}

TEST_F(BuildErrors, DiskIsFull) {
    fs::path compiler = folder.path() / "full";
    std::ofstream(compiler) << "#!/bin/sh\necho 'a.o: No space left on device' >&2\nexit 1\n";
    fs::permissions(compiler, fs::perms::owner_all);
    setenv("CC", compiler.c_str(), 1);
    std::string text = refused(request("test_chain"));
    unsetenv("CC");
    EXPECT_NE(text.find("   = note: a.o: No space left on device\n"
                        "   = help: make room on that disk, or name an output folder on another\n"),
              std::string::npos)
        << text;
}

TEST_F(BuildErrors, Name) {
    BuildRequest r = request("test_chain");
    r.function_name = "int";
    EXPECT_EQ(refused(r), R"(error[K0707]: `int` cannot be the name of a kernel
   = note: it becomes a function in C and C++
   = help: use letters, digits and single `_`: --name NAME

1 error, 0 warnings
)");
    r.function_name = "halide_x";
    EXPECT_EQ(refused(r), R"(error[K0707]: `halide_x` cannot be the name of a kernel
   = note: names with `__`, a leading `_`, `kiln_` or `halide_` are taken
   = help: use letters, digits and single `_`: --name NAME

1 error, 0 warnings
)");
}

TEST_F(BuildErrors, NoVariants) {
    EXPECT_EQ(refused(request("test_chain", {})),
              "error[K0708]: `test_chain` was given no target to build for\n\n1 error, 0 warnings\n");
}

TEST_F(BuildErrors, DifferentArguments) {
    EXPECT_EQ(refused(request("test_moody", {"cpu avx2", "cpu"})),
              R"(error[K0709]: variants `cpu avx2` and `cpu` of `test_moody` have different arguments
   = note: argument 0: input `x`: float32, 1 dimensions against input `x`: int32, 1 dimensions
   = help: a generator's arguments must not depend on the target; build two libraries otherwise

1 error, 0 warnings
)");
}

TEST_F(BuildErrors, HalideRefuses) {
    EXPECT_EQ(refused(request("test_refused")),
              R"(error[K0710]: Halide cannot compile `test_refused` for `cpu`
   = note: Error: this generator is never satisfied

1 error, 0 warnings
)");
}

TEST_F(BuildErrors, NoSchedule) {
    BuildRequest r = request("test_chain");
    r.variants[0].schedule_file = "mine.sched";
    r.variants[0].schedule_text =
        "schedule other {\n  op other_generator\n}\nschedule big {\n  op test_chain\n  "
        "target cpu avx512\n}\n";
    EXPECT_EQ(refused(r), R"(error[K0711]: no schedule for `test_chain` on `cpu`
  --> mine.sched
   = note: `other` is for the generator `other_generator`
   = note: `big` is for another target: it needs `avx512`, the target is `cpu`
   = help: name another file or target, or take the default schedule

1 error, 0 warnings
)");
    r.variants[0].schedule_name = "bog";
    EXPECT_EQ(refused(r), R"(error[K0711]: no schedule `bog`
  --> mine.sched
   = note: there are `other`, `big`
   = help: did you mean `big`?

1 error, 0 warnings
)");
}

TEST_F(BuildErrors, Conditions) {
    using What = VariantCondition::What;
    BuildRequest r = request("test_chain");
    r.variants[0].conditions = {{What::ExtentMultipleOf, "y", 0, 8}};
    EXPECT_EQ(refused(r), R"(error[K0712]: every variant of `test_chain` for cpu has conditions
   = note: a call that meets none of them would find no code
   = help: add a variant without conditions, last: the general fallback

1 error, 0 warnings
)");
    r = request("test_chain", {"cpu", "cpu"});
    r.variants[0].conditions = {{What::ExtentAtLeast, "z", 0, 8}};
    EXPECT_EQ(
        refused(r),
        R"(error[K0714]: condition `extent_at_least` of variant `cpu` names `z`, which is no buffer of `test_chain`
   = note: its buffers are `x`, `y`

1 error, 0 warnings
)");
    r.variants[0].conditions = {{What::ExtentAtLeast, "y", 2, 8}};
    EXPECT_EQ(
        refused(r),
        R"(error[K0714]: condition `extent_at_least` of variant `cpu` names dimension 2 of `y`, which has 2

1 error, 0 warnings
)");
    r.variants[0].conditions = {{What::AlignedTo, "y", 0, 24}};
    EXPECT_EQ(
        refused(r),
        R"(error[K0714]: condition `aligned_to` of variant `cpu` has the value 24, it must be a power of two

1 error, 0 warnings
)");
    r.variants[0].conditions = {*parse_condition("device.is(cpu)")};
    EXPECT_EQ(refused(r),
              R"(error[K0714]: condition `device.is(cpu)` of variant `cpu`: only OpenCL's devices are asked
   = help: leave it out: a target of another backend says what it runs on

1 error, 0 warnings
)");
}

TEST_F(BuildErrors, TooMany) {
    EXPECT_EQ(refused(request("test_wide")),
              "error[K0713]: `test_wide` has 34 arguments, at most 32 are possible\n\n1 error, 0 warnings\n");
}

TEST_F(BuildErrors, RequestFile) {
    fs::path file = folder.path() / "request.json";
    auto fault = [&](const char *text) {
        std::ofstream(file) << text;
        try {
            read_library_request(file);
        } catch (const Error &error) {
            return render_all(error.diagnostics, "");
        }
        return std::string("no fault");
    };
    EXPECT_EQ(fault("not json"),
              fmt::format("error[K0716]: `{}` is no request for a library: it is not JSON\n"
                          "   = help: kiln_add_kernels writes such files; configure the project "
                          "again\n\n1 error, 0 warnings\n",
                          file.string()));
}

TEST_F(BuildErrors, FolderOfSchedules) {
    fs::create_directories(folder.path() / "gemm");
    std::ofstream(folder.path() / "gemm" / "cpu_avx2.sched") << "schedule all { op gemm target cpu avx2 }";
    std::ofstream(folder.path() / "gemm" / "rows.sched") << "schedule rows { op gemm target cpu avx2 }";
    std::ofstream(folder.path() / "variants.txt")
        << "# first\n\ngemm cpu_avx2 rows x.extent(1) <= 32 # few\n";
    std::vector<std::string> list = {folder.path().string()};
    std::vector<VariantRequest> chosen = choose_schedules("gemm", Target::parse("cpu avx2"), list);
    ASSERT_EQ(chosen.size(), 2u);
    EXPECT_EQ(fs::path(chosen[0].schedule_file).stem(), "rows");
    EXPECT_EQ(chosen[0].conditions.size(), 1u);
    EXPECT_EQ(fs::path(chosen[1].schedule_file).stem(), "cpu_avx2");
    EXPECT_TRUE(chosen[1].conditions.empty());
    auto fault = [&](const char *target) {
        try {
            choose_schedules("gemm", Target::parse(target), list);
        } catch (const Error &error) {
            return render_all(error.diagnostics, "");
        }
        return std::string("no fault");
    };
    EXPECT_EQ(
        fault("opencl"),
        fmt::format("error[K0711]: no schedule for `gemm` on `opencl`\n  --> {0}\n   = note: there is no "
                    "`{0}/gemm/opencl.sched`\n   = help: add a file with one, or `default` at the end of the "
                    "list\n\n1 error, 0 warnings\n",
                    folder.path().string()));
    // The file for the most features of the target, with its variants.
    chosen = choose_schedules("gemm", Target::parse("cpu avx512_bf16"), list);
    ASSERT_EQ(chosen.size(), 2u);
    EXPECT_EQ(fs::path(chosen[1].schedule_file).stem(), "cpu_avx2");
    EXPECT_EQ(chosen[1].target.str(), "cpu avx512_bf16");
    // Of AMX only what is for it, with its general target behind.
    std::ofstream(folder.path() / "gemm" / "tiles.sched") << "schedule tiles { op gemm target cpu amx }";
    std::ofstream(folder.path() / "variants.txt", std::ios::app) << "gemm cpu_amx tiles type=bfloat16\n";
    auto for_amx = [&](const std::vector<std::string> &where, const std::string &type) {
        std::string out;
        for (const VariantRequest &v :
             choose_schedules("gemm", Target::parse("cpu amx"), where, {{"type", type}})) {
            out += v.target.str() + " " + fs::path(v.schedule_file).stem().string() + "; ";
        }
        return out;
    };
    EXPECT_EQ(for_amx(list, "bfloat16"), "cpu amx tiles; cpu avx512_bf16 rows; cpu avx512_bf16 cpu_avx2; ");
    EXPECT_EQ(for_amx(list, "float32"), "cpu avx512_bf16 rows; cpu avx512_bf16 cpu_avx2; ");
    EXPECT_EQ(for_amx({(folder.path() / "gemm" / "tiles.sched").string()}, "bfloat16"),
              "cpu amx tiles; cpu avx512_bf16 ; ");
    // By parameters of the generator: such a schedule stands for all calls.
    std::ofstream(folder.path() / "gemm" / "narrow.sched") << "schedule narrow { op gemm target cpu avx2 }";
    std::ofstream(folder.path() / "variants.txt") << "gemm cpu_avx2 rows type=float32 x.extent(1) <= 32\n"
                                                     "gemm cpu_avx2 narrow type=bfloat16\n";
    auto stems = [&](const std::map<std::string, std::string> &params) {
        std::string out;
        for (const VariantRequest &v : choose_schedules("gemm", Target::parse("cpu avx2"), list, params)) {
            out += fs::path(v.schedule_file).stem().string() + (v.conditions.empty() ? "; " : " if; ");
        }
        return out;
    };
    EXPECT_EQ(stems({}), "cpu_avx2; ");
    EXPECT_EQ(stems({{"type", "float32"}}), "rows if; cpu_avx2; ");
    EXPECT_EQ(stems({{"type", "bfloat16"}, {"batch", "1"}}), "narrow; ");

    std::ofstream(folder.path() / "variants.txt") << "gemm cpu_avx2 narrow type!=bfloat16 batch=2f\n";
    EXPECT_EQ(stems({{"type", "bfloat16"}, {"batch", "2"}}), "cpu_avx2; ");
    EXPECT_EQ(stems({{"type", "float32"}, {"batch", "2"}}), "narrow; ");
    EXPECT_EQ(stems({{"type", "float32"}, {"batch", "1"}}), "cpu_avx2; ");

    // Values of knobs, several conditions, and schedules for calls that the plain one does not take.
    std::ofstream(folder.path() / "variants.txt")
        << "gemm cpu_avx2 narrow type=int8 behind x.extent(1) <= 4\n"
           "gemm cpu_avx2 rows[a=1,b=2] x.extent(1) <= 32, x.extent(0) >= 8\n"
           "gemm cpu_avx2 rows behind\n"
           "gemm cpu_avx2 narrow behind\n"; // never: the one before serves all calls
    EXPECT_EQ(stems({}), "rows if; cpu_avx2; rows; ");
    EXPECT_EQ(stems({{"type", "int8"}}), "rows if; cpu_avx2; narrow if; rows; ");
    chosen = choose_schedules("gemm", Target::parse("cpu avx2"), list);
    EXPECT_EQ(chosen[0].conditions.size(), 2u);
    EXPECT_EQ(chosen[0].knobs, (std::map<std::string, std::string>{{"a", "1"}, {"b", "2"}}));

    std::ofstream(folder.path() / "variants.txt") << "gemm cpu_avx2 rows\n";
    EXPECT_EQ(
        fault("opencl"),
        fmt::format("error[K0717]: `gemm cpu_avx2 rows` is no variant of a generator\n --> "
                    "{}/variants.txt:1:1\n  = help: write `GENERATOR TARGET SCHEDULE CONDITION`, such as "
                    "`gemm cpu_avx2 few_rows x.extent(1) <= 32` or `attention cuda with_lse lse=true`\n\n"
                    "1 error, 0 warnings\n",
                    folder.path().string()));

    // Kinds of device.
    std::ofstream(folder.path() / "gemm" / "opencl.sched") << "schedule all { op gemm target opencl }";
    std::ofstream(folder.path() / "gemm" / "tiles.sched") << "schedule tiles { op gemm target opencl }";
    std::ofstream(folder.path() / "variants.txt")
        << "gemm opencl tiles type=float32 device.is(gpu), x.extent(1) >= 512\n";
    chosen = choose_schedules("gemm", Target::parse("opencl"), list, {{"type", "float32"}});
    ASSERT_EQ(chosen.size(), 2u);
    ASSERT_EQ(chosen[0].conditions.size(), 2u);
    EXPECT_EQ(chosen[0].conditions[0],
              (VariantCondition{VariantCondition::What::DeviceIs, "", 0, 4})); // CL_DEVICE_TYPE_GPU
    std::ofstream(folder.path() / "variants.txt") << "gemm opencl tiles x.extent(1) >= 5, device.is(fpga)\n";
    EXPECT_EQ(fault("opencl"),
              fmt::format("error[K0718]: `fpga` of `device.is(fpga)` is no kind of device\n --> "
                          "{}/variants.txt:1:1\n  = note: OpenCL's kinds are `cpu`, `gpu`, `accelerator`\n\n"
                          "1 error, 0 warnings\n",
                          folder.path().string()));
}

TEST_F(BuildErrors, LoadLibrary) {
    try {
        LoadedLibrary lib(folder.path() / "none.a");
        FAIL();
    } catch (const Error &error) {
        EXPECT_EQ(render_all(error.diagnostics, ""),
                  fmt::format("error[K0720]: no library `{}`\n\n1 error, 0 warnings\n",
                              (folder.path() / "none.a").string()));
    }
}

TEST_F(BuildErrors, SameRequestSameBytes) {
    BuildRequest r = request("test_product", {"cpu avx2", "cpu"});
    BuildResult first = build_library(r);
    ASSERT_TRUE(first.ok) << render_all(first.diagnostics, "");
    r.output_dir = folder.path() / "elsewhere" / "deep";
    BuildResult second = build_library(r);
    ASSERT_TRUE(second.ok);
    EXPECT_EQ(first.key, second.key);
    for (auto [a, b] : {std::pair(first.archive, second.archive), std::pair(first.header, second.header),
                        std::pair(first.json, second.json)}) {
        EXPECT_EQ(read(a), read(b));
        EXPECT_EQ(read(a).find(folder.path().string()), std::string::npos)
            << a << " names a path of this machine";
    }
    // Nothing but the three files stays.
    EXPECT_EQ(std::distance(fs::directory_iterator(r.output_dir), fs::directory_iterator()), 3);
}

TEST_F(BuildErrors, EveryFactChangesTheKey) {
    // K43: a parameter, a target, a schedule, a condition, the name.
    BuildRequest base = request("test_product", {"cpu avx2"});
    std::vector<BuildRequest> requests(5, base);
    requests[1].params["type"] = "bfloat16";
    requests[2].variants[0].target = Target::parse("cpu");
    requests[3].variants[0].schedule_text = "schedule s {\n  op test_product\n  c.vectorize(n, 4);\n}\n";
    requests[4].function_name = "another";
    std::vector<std::string> keys;
    for (BuildRequest &r : requests) {
        BuildResult result = build_library(r);
        ASSERT_TRUE(result.ok) << render_all(result.diagnostics, "");
        keys.push_back(result.key);
    }
    std::sort(keys.begin(), keys.end());
    EXPECT_EQ(std::unique(keys.begin(), keys.end()), keys.end());
}

TEST_F(BuildErrors, AFailedBuildKeepsTheOldLibrary) {
    BuildRequest r = request("test_chain");
    ASSERT_TRUE(build_library(r).ok);
    std::string before = read(r.output_dir / "test_chain.a");
    r.variants[0].schedule_text = "schedule broken {";
    EXPECT_FALSE(build_library(r).ok);
    EXPECT_EQ(read(r.output_dir / "test_chain.a"), before);
}

TEST_F(BuildErrors, JsonSaysWhatIsTrueOfThisKernel) {
    auto json_of = [&](const BuildRequest &r) {
        BuildResult built = build_library(r);
        EXPECT_TRUE(built.ok) << render_all(built.diagnostics, "");
        return nlohmann::json::parse(read(built.json));
    };
    nlohmann::json chain = json_of(request("test_chain"));
    EXPECT_EQ(chain["guards"], nlohmann::json({"rank", "type", "extent", "overlap", "stride", "range"}));
    EXPECT_TRUE(chain["numerics"]["deterministic"]);
    EXPECT_FALSE(chain["numerics"].contains("accumulation")) << "it has no 16-bit floats";
    BuildRequest product = request("test_product");
    product.params["type"] = "bfloat16";
    EXPECT_EQ(json_of(product)["numerics"]["accumulation"], "float32 for 16-bit operands");
    EXPECT_FALSE(json_of(request("test_pair"))["numerics"].contains("special_values")) << "it has no floats";
    // Threads add to one sum in whichever order they come.
    BuildRequest rows = request("test_scratch_root");
    rows.variants[0].schedule_text =
        "schedule s {\n  op test_scratch_root\n  target cpu\n  rows.compute_root();\n"
        "  rows.update().atomic().parallel(r);\n}\n";
    EXPECT_FALSE(json_of(rows)["numerics"]["deterministic"]);
}

TEST_F(BuildErrors, JsonSaysTheContract) {
    BuildRequest r = request("test_product", {"cuda sm_80"});
    r.params["type"] = "float16";
    BuildResult built = build_library(r);
    ASSERT_TRUE(built.ok) << render_all(built.diagnostics, "");
    nlohmann::json j = nlohmann::json::parse(read(built.json));
    EXPECT_EQ(j["arguments"][0]["type"], "float16") << "the contract's type, not the storage's";
    EXPECT_EQ(j["arguments"][1]["dimensions"][1]["extent"], "a.extent.0");
    EXPECT_EQ(j["arguments"][2]["dimensions"][0]["stride"], 1);
    EXPECT_EQ(j["params"]["type"], "float16");
    EXPECT_EQ(j["key"], built.key);
    EXPECT_EQ(j["variants"][0]["target"], "cuda sm_80");
    EXPECT_NE(j["variants"][0]["schedule"].get<std::string>().find("gpu_threads"), std::string::npos);
    // The GPU's code is in the library.
    EXPECT_NE(read(built.archive).find(".target sm_80"), std::string::npos);
}

} // namespace
} // namespace kiln
