// OpenCL C of tile kernels, run on the device at hand (PoCL in CI) against Halide.
#define CL_TARGET_OPENCL_VERSION 120
#include "dsl/tile/build/Build.h"
#include "dsl/tile/passes/Runner.h"
#include "tests/correctness/tile_launch.h"

#include <CL/cl.h>
#include <gtest/gtest.h>

#include <numeric>

namespace kiln::tile {
namespace {

/// One device with a queue; null where there is none.
struct OpenCl {
    cl_context context = nullptr;
    cl_device_id device = nullptr;
    cl_command_queue queue = nullptr;

    OpenCl() {
        cl_platform_id platform = nullptr;
        cl_uint count = 0;
        if (clGetPlatformIDs(1, &platform, &count) != CL_SUCCESS || count == 0 ||
            clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, nullptr) != CL_SUCCESS) {
            return;
        }
        context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, nullptr);
        queue = context ? clCreateCommandQueue(context, device, 0, nullptr) : nullptr;
    }
    ~OpenCl() {
        if (queue) {
            clReleaseCommandQueue(queue);
        }
        if (context) {
            clReleaseContext(context);
        }
    }
};

/// "" or what went wrong.
std::string run(const OpenCl &cl, const EmittedKernel &e, Memory &m) {
    const char *text = e.text.c_str();
    cl_int error = 0;
    cl_program program = clCreateProgramWithSource(cl.context, 1, &text, nullptr, &error);
    if (clBuildProgram(program, 1, &cl.device, "-cl-denorms-are-zero", nullptr, nullptr) != CL_SUCCESS) {
        std::string log(1 << 16, '\0');
        clGetProgramBuildInfo(program, cl.device, CL_PROGRAM_BUILD_LOG, log.size(), log.data(), nullptr);
        return log.substr(0, 2000) + e.text;
    }
    cl_kernel kernel = clCreateKernel(program, e.name.c_str(), &error);
    std::map<std::string, cl_mem> buffers;
    cl_uint at = 0;
    auto put = [&](auto v) { error |= clSetKernelArg(kernel, at++, sizeof v, &v); };
    for (const KernelParam &p : e.params) {
        if (p.kind == KernelParam::Kind::Pointer) {
            Array &a = m.at(p.view);
            cl_mem &b = buffers[p.view];
            b = b ? b
                  : clCreateBuffer(cl.context, CL_MEM_COPY_HOST_PTR, a.bytes.size(), a.bytes.data(), &error);
            put(b);
        } else if (p.kind == KernelParam::Kind::Value) {
            put(static_cast<cl_int>(evaluate(p.value, m)));
        } else if (p.kind == KernelParam::Kind::Reciprocal) {
            put(static_cast<cl_ulong>(reciprocal_of(evaluate(p.value, m))));
        } else {
            return "a parameter that OpenCL lacks";
        }
    }
    size_t blocks = 1;
    for (const GridLoop &g : e.grid) {
        blocks *= static_cast<size_t>(evaluate(g.extent, m));
    }
    blocks = e.persistent ? std::min<size_t>(blocks, 2) : blocks;
    const size_t local = static_cast<size_t>(e.threads), global = blocks * local;
    error |= clEnqueueNDRangeKernel(cl.queue, kernel, 1, nullptr, &global, &local, 0, nullptr, nullptr);
    for (auto &[name, b] : buffers) {
        Array &a = m.at(name);
        error |=
            clEnqueueReadBuffer(cl.queue, b, CL_TRUE, 0, a.bytes.size(), a.bytes.data(), 0, nullptr, nullptr);
        clReleaseMemObject(b);
    }
    clReleaseKernel(kernel);
    clReleaseProgram(program);
    return error == CL_SUCCESS ? "" : fmt::format("OpenCL error {}", error);
}

void check(const OpenCl &cl, const std::string &program, const std::function<void(TilePlan &)> &change = {},
           const EmitOptions &options = {}) {
    Reference reference(tile_program(program));
    Program p = tile_program(program);
    p.plan.producers = 0;
    for (auto &[name, c] : p.plan.copies) {
        c.kind = CopyKind::Plain;
    }
    for (auto &[name, m] : p.plan.products) {
        m.kind = MmaKind::Fma;
    }
    if (change) {
        change(p.plan);
    }
    Kernel k = build_kernel(p.plan, p.outputs);
    k.name = program;
    DeviceLimits limits = limits_of(Target::parse("cuda sm_90a"));
    const EmittedKernel e = emit_opencl(run_passes(std::move(k), limits), options);
    for (const Extents &size : reference.program().sizes) {
        const Memory inputs = reference.data(size), wanted = reference.outputs(inputs, size);
        Memory m;
        for (const auto &[name, a] : inputs) {
            m[name] = options.vectors ? spread(a) : a;
        }
        const Memory before = m;
        const std::string fault = run(cl, e, m);
        ASSERT_EQ(fault.empty() ? compare(m, wanted, 4) : fault, "") << program;
        EXPECT_EQ(written_outside(before, m, wanted), "") << program;
    }
}

TEST(TileOpenCl, ComputesWhatHalideDoes) {
    const OpenCl cl;
    if (!cl.queue) {
        GTEST_SKIP() << "no OpenCL device";
    }
    for (const char *program : {"row_softmax", "layer_norm", "column_sums", "gemm_tt"}) {
        check(cl, program);
    }
    check(cl, "gemm_f32", {}, {false}); // dense rows, no vectors
    check(cl, "gemm_bias_gelu", [](TilePlan &p) { p.persistent = 2; });
}

TEST(TileOpenCl, RefusesHopper) {
    Program p = tile_program("gemm_nt");
    Kernel k = build_kernel(p.plan, p.outputs);
    k.name = "gemm_nt";
    k = run_passes(std::move(k), limits_of(Target::parse("cuda sm_90a")));
    try {
        emit_opencl(k);
        FAIL();
    } catch (const Error &e) {
        EXPECT_EQ(render(e.diagnostics.at(0), ""), "error[K1153]: the producer of `gemm_nt` has no form in a "
                                                   "kernel: in OpenCL all threads of a block do the "
                                                   "same\n");
    }
}

} // namespace
} // namespace kiln::tile
