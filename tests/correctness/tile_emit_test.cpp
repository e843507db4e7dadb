// CUDA text of tile kernels: it compiles without spills and without serialised products, says what it always said
// (golden), and faults are reported with their codes.
#include "dsl/tile/build/Build.h"
#include "dsl/tile/emit/CudaDialect.h"
#include "dsl/tile/emit/Emit.h"
#include "dsl/tile/emit/ExprC.h"
#include "dsl/tile/passes/Runner.h"
#include "tests/correctness/tile_programs.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>

namespace kiln::tile {
namespace {

DeviceLimits hopper() {
    DeviceLimits l;
    l.shared_bytes = 232448;
    return l;
}

Kernel kernel_of(const std::string &program, const std::function<void(TilePlan &)> &change = {}) {
    Program p = tile_program(program);
    if (change) {
        change(p.plan);
    }
    Kernel k = build_kernel(p.plan, p.outputs);
    k.name = p.name;
    return run_passes(std::move(k), hopper());
}

void set_block(TilePlan &p, int m, int n) {
    for (BlockDim &b : p.blocks) {
        b.size = b.var == "m" ? m : b.var == "n" ? n : b.size;
    }
}

/// The diagnostic that `f` ends in, rendered.
std::string fault(const std::function<void()> &f) {
    try {
        f();
    } catch (const Error &e) {
        return render(e.diagnostics.at(0), "");
    }
    return "no fault";
}

// First, while NVRTC has not been opened yet: a library that was found is kept.
TEST(TileEmit, SaysWhereItLookedForNvrtc) {
    setenv("KILN_NVRTC", "/nowhere/libnvrtc.so", 1);
    EXPECT_EQ(fault([] { compile_cubin("", "k", "sm_90a"); }),
              "error[K1150]: tile kernels for CUDA need NVRTC, and it was not found\n"
              "   = note: tried `/nowhere/libnvrtc.so`\n"
              "   = help: install CUDA 12.8 or later, or the Python package `nvidia-cuda-nvrtc`\n"
              "   = help: or let `KILN_NVRTC` name the file `libnvrtc.so`\n");
    unsetenv("KILN_NVRTC");
}

bool has_nvrtc() {
    try {
        compile_ptx("", "nothing", "compute_90");
        return true;
    } catch (const Error &e) {
        return e.diagnostics.at(0).code != "K1150";
    }
}

#define NEEDS_NVRTC()                                                                                        \
    if (!has_nvrtc()) {                                                                                      \
        GTEST_SKIP() << "no NVRTC on this machine";                                                          \
    }

TEST(TileEmit, ReportsTextThatDoesNotCompile) {
    NEEDS_NVRTC();
    EXPECT_EQ(fault([] { compile_cubin("__device__ int f() { return y; }", "k", "sm_90a"); }),
              "error[K1151]: the text of kernel `k` does not compile\n"
              "   = note: k.cu(1): error: identifier \"y\" is undefined\n"
              "   = note:   __device__ int f() { return y; }\n"
              "   = note:                               ^\n"
              "   = note: 1 error detected in the compilation of \"k.cu\".\n");
}

/// 200 values that live at once, in a thread that may have 64 registers.
TEST(TileEmit, RefusesSpills) {
    NEEDS_NVRTC();
    std::string text =
        "extern \"C\" __global__ void __launch_bounds__(1024, 1) k(float *p) {\n    float x[200];\n"
        "#pragma unroll\n    for (int i = 0; i < 200; i++) x[i] = p[i * 1024];\n    __syncthreads();\n"
        "#pragma unroll\n    for (int i = 0; i < 200; i++) p[i * 1024] = x[199 - i] * x[i];\n}\n";
    const std::string said = fault([&] { compile_cubin(text, "k", "sm_90a"); });
    const std::string before =
        "error[K1152]: kernel `k` needs more registers than it has: 64 registers a thread, ";
    ASSERT_EQ(said.substr(0, before.size()), before) << said;
    const size_t end = said.find(" bytes");
    EXPECT_GT(std::stoi(said.substr(before.size(), end - before.size())), 0);
    EXPECT_EQ(said.substr(end), " bytes are spilled to memory\n"
                                "   = help: take a smaller tile, more `warpgroups`, or other `registers`\n");
}

/// Two products in flight, and a read of the first sum before the wait: ptxas runs one product after the other.
TEST(TileEmit, RefusesSerialisedProducts) {
    NEEDS_NVRTC();
    CudaDialect d;
    const std::string f = d.wgmma({64, Halide::BFloat(16), false, false, false});
    d.use("wgmma_fence"), d.use("wgmma_commit"), d.use("wgmma_wait");
    const std::string text =
        d.prelude() +
        "extern \"C\" __global__ void __launch_bounds__(128, 1) k(float *p, u64 a) {\n"
        "    float s[32];\n#pragma unroll\n    for (int i = 0; i < 32; i++) s[i] = p[i];\n"
        "    for (int n = 0; n < 10; n++) {\n        wgmma_fence();\n        " +
        f +
        "(s, a, a, 1);\n        wgmma_commit();\n#pragma unroll\n"
        "        for (int i = 0; i < 32; i++) s[i] = s[i] * p[i];\n    }\n    wgmma_wait<0>();\n"
        "#pragma unroll\n    for (int i = 0; i < 32; i++) p[i] = s[i];\n}\n";
    const std::string said = fault([&] { compile_cubin(text, "k", "sm_90a"); });
    EXPECT_EQ(said.substr(0, said.find(", at")),
              "error[K1152]: products of kernel `k` would run one after another");
    EXPECT_NE(said.find("note: (C75"), std::string::npos) << said;
}

TEST(TileEmit, RefusesWhatNoInstructionDoes) {
    Kernel k = kernel_of("gemm_nt");
    walk(k.body, [&](Stmt &s) {
        if (const Mma *m = s.as<Mma>()) {
            std::swap(k.tiles.at(m->dst).registers.threads[0], k.tiles.at(m->dst).registers.threads[1]);
        }
    });
    EXPECT_EQ(fault([&] { emit_cuda(k); }),
              "error[K1153]: the product `acc_next` has no form in a kernel: wgmma leaves its sum in another "
              "layout than "
              "threads(m:8, n*2:4, m*16:4, m*64:2) registers(n:2, m*8:2, n*8:8)\n");
}

// ---- instructions

/// Every wrapper in a kernel of its own: a function that nobody calls is not assembled.
TEST(TileEmit, AssemblesEveryInstruction) {
    NEEDS_NVRTC();
    CudaDialect d;
    for (const std::string &name : CudaDialect::names()) {
        d.use(name);
    }
    std::string kernels;
    int number = 0;
    auto call = [&](const std::string &statement) {
        kernels +=
            fmt::format("extern \"C\" __global__ void __launch_bounds__(128, 1) k{}(float *p, u32 *q, u64 a, "
                        "const __grid_constant__ TensorMap map) {{\n    {}\n}}\n",
                        number++, statement);
    };
    const std::string
        load = "float s[128];\n#pragma unroll\nfor (int i = 0; i < 128; i++) s[i] = p[i]; wgmma_fence();",
        store =
            "wgmma_commit(); wgmma_wait<0>();\n#pragma unroll\nfor (int i = 0; i < 128; i++) p[i] = s[i];";
    std::string integers = load + store;
    for (size_t at; (at = integers.find("float s")) != std::string::npos;) {
        integers.replace(at, 5, "int");
    }
    auto products = [&](Halide::Type t, int n) {
        for (int form = 0; form < (t.bits() == 16 ? 6 : 1); form++) {
            const WgmmaShape shape{n, t, form >= 4, form % 2 == 1 && form < 4,
                                   form >= 4 ? form == 5 : form >= 2};
            const std::string f = d.wgmma(shape),
                              operand = shape.a_in_registers ? "q[0], q[1], q[2], q[3]" : "a";
            const std::string whole = t.is_float() ? load : integers.substr(0, load.size() - 2);
            call(fmt::format("{} {}(s, {}, a + 1, q[5]); {}", whole, f, operand, store));
        }
    };
    for (int n : {8, 24, 176, 256}) {
        products(Halide::BFloat(16), n);
    }
    products(Halide::Float(16), 64);
    products(Halide::Float(32), 40);
    products(Halide::Int(8), 96);
    products(Halide::UInt(8), 32);
    for (const Halide::Type &t : {Halide::BFloat(16), Halide::Float(16)}) {
        call(fmt::format(
            "float s[4] = {{p[0], p[1], p[2], p[3]}}; u32 x[4] = {{q[0], q[1], q[2], q[3]}}; {}(s, x, q[4], "
            "q[5]); p[0] = s[0] + s[1] + s[2] + s[3];",
            d.mma_sync(t)));
    }
    std::string at;
    for (int rank = 1; rank <= 5; rank++) {
        at += fmt::format(", {}", rank);
        call(fmt::format("{}(q[0], map, q[1]{});", d.tma_load(rank, false), at));
        call(fmt::format("{}(q[0], map, q[1]{}, (u16)3);", d.tma_load(rank, true), at));
        call(fmt::format("{}(map, q[0]{});", d.tma_store(rank), at));
    }
    for (const char *s :
         {"mbar_init(q[0], 2); mbar_init_fence(); mbar_expect(q[0], 64); mbar_arrive(q[0]); mbar_wait(q[0], "
          "1); "
          "mbar_wait(q[0], 0);",
          "mbar_arrive_remote(q[0], 1); cluster_start(); q[0] = cluster_rank();", "prefetch_map(map);",
          "store_commit(); store_wait<1>(); proxy_fence();",
          "copy_16(q[0], p, 16); copy_8(q[0], p, 3); copy_4(q[0], p, 0); copy_arrive(q[1]); copy_wait();",
          "u32 w[4]; ldmatrix_4(w, q[0]); stmatrix_4(q[1], w[0], w[1], w[2], w[3]); stmatrix_2(q[2], w[0], "
          "w[1]);",
          "u32 w[4]; ldmatrix_4t(w, q[0]); stmatrix_4t(q[1], w[0], w[1], w[2], w[3]); stmatrix_2t(q[2], "
          "w[0], "
          "w[1]);",
          "registers_up<232>(); bar_sync(q[0], 128); bar_arrive(q[0], 256); registers_down<40>();",
          "launch_next(); wait_for_previous(); p[0] = shuffle_xor(p[1], 4);",
          "p[0] = divide(p[1], p[2]) + reciprocal(p[3]) + square_root(p[4]) + reciprocal_root(p[5]) + "
          "exp2_approx(p[6]) + one_plus_tanh(p[7]) + max_nan(p[1], p[2]) + min_nan(p[1], p[2]);",
          "p[0] = bf16_to_f32(f32_to_bf16(p[1])) + f16_to_f32(f32_to_f16(p[2])); q[0] = pack_bf16(p[1], "
          "p[2]) + "
          "pack_f16(p[1], p[2]) + half_of(q[1], 1) + byte_of(q[1], 3);",
          "q[0] = divide_by(q[1], a) + whole_div(q[1], q[2]) + whole_mod(q[1], q[2]) + whole_div_u(q[1], "
          "q[2]) "
          "+ whole_mod_u(q[3], q[4]); q[1] = whole_div_l(a, 3) + whole_mod_l(a, -3);",
          "q[0] = (u32)descriptor(q[0], 16, 1024, 1) + shared_address(p); p[0] = max_f64(p[1], p[2]) + "
          "min_f64(p[1], p[2]);"}) {
        call(s);
    }
    for (int bits : {8, 16, 32}) {
        for (int count = 32 / bits; count * bits <= 128; count *= 2) {
            call(fmt::format("u32 w[4]; {}(w, p, q[0]); {}(p + 4, w, q[1]);", d.vector_load(bits, count),
                             d.vector_store(bits, count)));
        }
    }
    EXPECT_EQ(fault([&] { compile_cubin(d.prelude() + kernels, "instructions", "sm_90a"); }), "no fault");
}

// ---- whole kernels

void expect_compiles(const Kernel &k, const EmitOptions &options = {}) {
    const EmittedKernel e = emit_cuda(k, options);
    EXPECT_EQ(fault([&] {
                  const CompiledKernel c = compile_cubin(e.text, e.name, "sm_90a");
                  EXPECT_EQ(c.spill_bytes, 0);
                  EXPECT_GT(c.registers, 0);
                  EXPECT_TRUE(c.warnings.empty()) << k.name << ": " << c.warnings[0];
                  EXPECT_EQ(c.cubin.substr(1, 3), "ELF");
              }),
              "no fault")
        << k.name;
}

TEST(TileEmit, CompilesEveryProgram) {
    NEEDS_NVRTC();
    for (const Program &p : tile_programs()) {
        expect_compiles(kernel_of(p.name));
    }
}

/// The schedules that reach the speed of libraries, and the kinds of products and copies that need no Hopper.
TEST(TileEmit, CompilesUnderOtherPlans) {
    NEEDS_NVRTC();
    auto other = [](const char *program, int m, int n, const std::function<void(TilePlan &)> &change) {
        expect_compiles(kernel_of(program, [&](TilePlan &p) {
            set_block(p, m, n);
            change(p);
        }));
    };
    other("gemm_bias_gelu", 128, 256, [](TilePlan &p) { p.persistent = 8; });
    other("gemm_nn", 128, 192, [](TilePlan &p) { p.persistent = 8; });
    other("gemm_nt", 128, 168, [](TilePlan &p) { p.persistent = 1; });
    other("gemm_bias_gelu", 128, 128, [](TilePlan &p) {
        p.persistent = 8;
        p.ping_pong = true;
    });
    other("gemm_nt", 64, 32, [](TilePlan &p) {
        p.consumers = 1;
        p.launch_ahead = true;
    });
    other("gemm_nt", 192, 128, [](TilePlan &p) { p.consumers = 3; });
    other("gemm_residual", 128, 128, [](TilePlan &p) {
        p.persistent = 8;
        p.dynamic = true;
    });
    other("gemm_batched", 128, 64, [](TilePlan &p) { p.persistent = 8; });
    other("gemm_nn", 128, 128, [](TilePlan &p) {
        for (auto &[name, c] : p.copies) {
            c.kind = CopyKind::CpAsync;
        }
    });
}

/// Without needs, on GPUs before Hopper.
TEST(TileEmit, CompilesForOlderGpus) {
    NEEDS_NVRTC();
    for (const Kernel &k : {kernel_of("row_softmax"), kernel_of("column_sums")}) {
        const EmittedKernel e = emit_cuda(k, {false});
        EXPECT_TRUE(e.needs.empty());
        EXPECT_EQ(fault([&] {
                      EXPECT_NE(compile_ptx(e.text, e.name, "compute_80").find(".target sm_80"),
                                std::string::npos);
                  }),
                  "no fault");
    }
}

TEST(TileEmit, SaysWhatALaunchNeeds) {
    const EmittedKernel e = emit_cuda(kernel_of("gemm_bias_gelu"));
    EXPECT_EQ(e.name, "gemm_bias_gelu_kernel");
    EXPECT_EQ(e.threads, 384);
    EXPECT_FALSE(e.persistent);
    std::map<std::string, std::pair<int, int>> needs;
    for (const EmittedKernel::Need &n : e.needs) {
        needs[n.view] = {n.address_alignment, n.stride_alignment};
    }
    const std::map<std::string, std::pair<int, int>> expected = {
        {"x", {16, 16}}, {"w", {16, 16}}, {"y", {16, 16}}, {"bias", {4, 0}}};
    EXPECT_EQ(needs, expected);
    ASSERT_GE(e.params.size(), 4u);
    EXPECT_EQ(e.params[0].kind, KernelParam::Kind::TensorMap);
    EXPECT_EQ(e.params[0].map, (TensorMapParam{"x", {64, 128}, 128, 1}));
    EXPECT_EQ(e.params[1].map, (TensorMapParam{"w", {64, 64}, 128, 1}));
    EXPECT_EQ(e.params[2].map, (TensorMapParam{"y", {64, 64}, 128}));
    EXPECT_EQ(e.params[3].kind, KernelParam::Kind::Pointer);
    EXPECT_EQ(e.params[3].view, "bias");
}

/// tests/golden/tile holds the text of a few kernels, so that a change of what is emitted is seen in review.
TEST(TileEmit, SaysWhatItAlwaysSaid) {
    for (const char *name : {"gemm_bias_gelu", "gemm_f32", "row_softmax", "attention"}) {
        const std::string path = fmt::format("{}/tests/golden/tile/{}.cu", KILN_SOURCE_DIR, name);
        const std::string text = emit_cuda(kernel_of(name)).text;
        if (std::getenv("KILN_UPDATE_GOLDEN")) {
            std::ofstream(path) << text;
        }
        std::ifstream in(path);
        std::stringstream golden;
        golden << in.rdbuf();
        EXPECT_TRUE(text == golden.str()) << path << " differs: KILN_UPDATE_GOLDEN=1 writes it anew";
    }
}

} // namespace
} // namespace kiln::tile
