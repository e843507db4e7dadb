/** \file
 * OpenCL kernels, run on whatever device the loader finds (PoCL where tests run): host and device memory, the
 * caller's context and queue, first calls from many threads, messages that say what was needed and found.
 */
#define CL_TARGET_OPENCL_VERSION 120
#include "runtime_support.h"

#include <CL/cl.h>

#include <cstdlib>
#include <thread>

namespace kiln::test {
namespace {

/// A copy of the library with a runtime of its own: nothing initialised yet.
LoadedLibrary fresh(const std::string &generator, const std::string &target) {
    TemporaryFolder folder;
    return load(request_for(generator, {target}, folder.path()));
}

struct Device {
    cl_platform_id platform = nullptr;
    cl_device_id device = nullptr;
    cl_context context = nullptr;
    cl_command_queue queue = nullptr;
    Device() {
        clGetPlatformIDs(1, &platform, nullptr);
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, nullptr);
        context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, nullptr);
        queue = clCreateCommandQueue(context, device, 0, nullptr);
    }
    /// Another device of another one's context.
    Device(const Device &other, cl_device_id another)
        : platform(other.platform), device(another), context(other.context) {
        clRetainContext(context);
        queue = clCreateCommandQueue(context, device, 0, nullptr);
    }
    Device(const Device &) = delete;
    /// On devices that lie in one context.
    explicit Device(const std::vector<cl_device_id> &devices) : device(devices[0]) {
        context = clCreateContext(nullptr, static_cast<cl_uint>(devices.size()), devices.data(), nullptr,
                                  nullptr, nullptr);
        queue = clCreateCommandQueue(context, device, 0, nullptr);
    }
    ~Device() {
        clReleaseCommandQueue(queue);
        clReleaseContext(context);
    }
};

/// Two devices of a platform, or two parts of its one device; none where that cannot be parted.
std::vector<cl_device_id> two_devices() {
    Device whole;
    std::vector<cl_device_id> found(64);
    cl_uint count = 0;
    clGetDeviceIDs(whole.platform, CL_DEVICE_TYPE_ALL, 64, found.data(), &count);
    const cl_device_partition_property each[] = {CL_DEVICE_PARTITION_EQUALLY, 1, 0};
    if (count < 2 &&
        (clCreateSubDevices(whole.device, each, 64, found.data(), &count) != CL_SUCCESS || count < 2)) {
        return {};
    }
    found.resize(2);
    return found;
}

class OpenCL : public ::testing::Test {
protected:
    void SetUp() override {
        cl_uint count = 0;
        if (clGetPlatformIDs(0, nullptr, &count) != CL_SUCCESS || count == 0) {
            GTEST_SKIP() << "no OpenCL platform on this machine";
        }
    }
};

TEST_F(OpenCL, HostBuffersOfEveryOddSize) {
    LoadedLibrary &lib = library("test_chain", "opencl");
    for (auto [w, h] :
         {std::pair(1, 1), std::pair(3, 5), std::pair(17, 2), std::pair(257, 3), std::pair(1001, 1)}) {
        Array<float> x({w, h}), y({w, h});
        x.fill(w);
        ChainCall call{x.buffer(), y.buffer()};
        ASSERT_EQ(call.run(lib), KILN_OK) << lib.last_message();
        ASSERT_EQ(lib.copy_to_host(nullptr, y.buffer()), 0);
        for (int j = 0; j < h; j++) {
            for (int i = 0; i < w; i++) {
                ASSERT_EQ(y.at(i, j), std::max(2 * x.at(i, j) + 1, 0.0f)) << w << "x" << h;
            }
        }
        EXPECT_TRUE(y.guards_untouched());
        lib.device_free(nullptr, x.buffer());
        lib.device_free(nullptr, y.buffer());
    }
}

TEST_F(OpenCL, EmptySizes) {
    LoadedLibrary &chain = library("test_chain", "opencl"), &product = library("test_product", "opencl");
    Array<float> x({0, 3}), y({0, 3});
    ChainCall call{x.buffer(), y.buffer()};
    EXPECT_EQ(call.run(chain), KILN_OK) << chain.last_message();
    EXPECT_TRUE(y.untouched());
    Array<float> a({0, 4}), b({5, 0}), c({5, 4});
    void *arguments[] = {a.buffer(), b.buffer(), c.buffer()};
    ASSERT_EQ(product.call(nullptr, arguments), KILN_OK) << product.last_message();
    ASSERT_EQ(product.copy_to_host(nullptr, c.buffer()), 0);
    for (int i = 0; i < 20; i++) {
        EXPECT_EQ(c.data()[i], 0.0f);
    }
    for (Array<float> *array : {&a, &b, &c}) {
        product.device_free(nullptr, array->buffer());
    }
}

TEST_F(OpenCL, EmptyIntermediates) {
    // Copies at root of operands without an element.
    TemporaryFolder folder;
    BuildRequest request = request_for("test_product", {"opencl"}, folder.path());
    request.variants[0].schedule_text =
        "schedule s {\n  op test_product\n  target opencl\n"
        "  c.gpu_blocks(m).gpu_threads(n);\n"
        "  c.update().reorder(k, n, m).gpu_blocks(m).gpu_threads(n);\n"
        "  a.in(c).compute_root().align_storage(_0, 4).gpu_blocks(_1).gpu_threads(_0);\n"
        "  b.in(c).compute_root().align_storage(_0, 8).gpu_blocks(_1).gpu_threads(_0);\n}\n";
    LoadedLibrary lib = load(request);
    for (int k : {0, 3, 0}) {
        Array<float> a({k, 4}), b({5, k}), c({5, 4});
        a.fill(1);
        b.fill(2);
        void *arguments[] = {a.buffer(), b.buffer(), c.buffer()};
        ASSERT_EQ(lib.call(nullptr, arguments), KILN_OK) << lib.last_message();
        ASSERT_EQ(lib.copy_to_host(nullptr, c.buffer()), 0);
        for (int m = 0; m < 4; m++) {
            for (int n = 0; n < 5; n++) {
                float sum = 0;
                for (int i = 0; i < k; i++) {
                    sum += a.at(i, m) * b.at(n, i);
                }
                ASSERT_EQ(c.at(n, m), sum) << "k " << k;
            }
        }
        for (Array<float> *array : {&a, &b, &c}) {
            lib.device_free(nullptr, array->buffer());
        }
    }
}

TEST_F(OpenCL, EmptyIntermediatesOfSeveralKernels) {
    // The kernel that writes the intermediate value asks for its memory, and so does the one that reads it.
    LoadedLibrary &lib = library("test_scaled_sum", "opencl");
    for (int k : {0, 3, 0}) {
        Array<float> x({k, 5}), y({5});
        x.fill(1);
        void *arguments[] = {x.buffer(), y.buffer()};
        ASSERT_EQ(lib.call(nullptr, arguments), KILN_OK) << lib.last_message();
        ASSERT_EQ(lib.copy_to_host(nullptr, y.buffer()), 0);
        for (int n = 0; n < 5; n++) {
            float sum = 1;
            for (int i = 0; i < k; i++) {
                sum += 2 * x.at(i, n);
            }
            ASSERT_EQ(y.at(n), sum) << "k " << k;
        }
        lib.device_free(nullptr, x.buffer());
        lib.device_free(nullptr, y.buffer());
    }
}

TEST_F(OpenCL, TooMuchLocalMemory) {
    TemporaryFolder folder;
    BuildRequest request = request_for("test_scratch", {"opencl"}, folder.path());
    request.variants[0].schedule_text =
        "schedule s {\n  op test_scratch\n  target opencl\n"
        "  y.split(i, io, ii, 32).reorder(ii, io, j).gpu_blocks(j).gpu_threads(ii);\n"
        "  twice.compute_at(y, j).store_in(GPUShared).split(i, io, ii, 32).gpu_threads(ii);\n}\n";
    LoadedLibrary lib = load(request);
    const int64_t w = 16 << 20;
    Array<float> x({w, 1}), y({w, 1});
    void *arguments[] = {x.buffer(), y.buffer()};
    EXPECT_EQ(lib.call(nullptr, arguments), KILN_UNSUPPORTED);
    EXPECT_EQ(lib.last_message().rfind(
                  "test_scratch: the kernel of `y` needs 67108864 bytes of shared memory in a block, `", 0),
              0u)
        << lib.last_message();
    lib.device_free(nullptr, x.buffer());
    lib.device_free(nullptr, y.buffer());
}

TEST_F(OpenCL, ContractComesBeforeTheDevice) {
    LoadedLibrary &lib = library("test_chain", "opencl");
    Array<float> x({7, 5}), y({7, 5});
    x.view.dim[0].extent = 6;
    ChainCall call{x.buffer(), y.buffer()};
    EXPECT_EQ(call.run(lib), KILN_INVALID_ARGUMENT);
    EXPECT_EQ(lib.last_message(),
              "test_chain: `x` has 0 to 5 in dimension 0, but the kernel reads 0 to 6 of it");
    EXPECT_TRUE(y.untouched());
    EXPECT_EQ(y.view.buffer.device, 0u);
}

/// Rows of a matrix that begins `offset` elements into a cl_mem, in the caller's context. `in_part`: that cl_mem is a part of
/// a larger one.
void run_with(LoadedLibrary &lib, Device &device, const kiln_call &call, int offset, bool in_part = false) {
    constexpr int w = 33, h = 5;
    std::vector<float> host(static_cast<size_t>(w * h + offset)), result(host.size(), -1.0f);
    for (size_t i = 0; i < host.size(); i++) {
        host[i] = static_cast<float>(i % 13) - 6;
    }
    size_t bytes = host.size() * sizeof(float);
    auto memory = [&](const std::vector<float> &values) {
        constexpr size_t before = 4096;
        cl_mem whole = clCreateBuffer(device.context, 0, in_part ? before + bytes : bytes, nullptr, nullptr),
               part = whole;
        if (in_part) {
            const cl_buffer_region region = {before, bytes};
            part = clCreateSubBuffer(whole, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, nullptr);
            clReleaseMemObject(whole); // the part keeps it
        }
        clEnqueueWriteBuffer(device.queue, part, CL_TRUE, 0, bytes, values.data(), 0, nullptr, nullptr);
        return part;
    };
    cl_mem x = memory(host), y = memory(result);
    auto view = reinterpret_cast<decltype(&kiln_view_opencl)>(lib.symbol("kiln_view_opencl"));
    auto release = reinterpret_cast<decltype(&kiln_view_release)>(lib.symbol("kiln_view_release"));
    kiln_view vx, vy;
    int64_t extents[] = {w, h};
    ASSERT_EQ(view(&vx, KILN_FLOAT32, x, static_cast<uint64_t>(offset) * 4, 2, extents, nullptr), KILN_OK);
    ASSERT_EQ(view(&vy, KILN_FLOAT32, y, static_cast<uint64_t>(offset) * 4, 2, extents, nullptr), KILN_OK);
    ChainCall chain{&vx.buffer, &vy.buffer};
    ASSERT_EQ(chain.run(lib, &call), KILN_OK) << lib.last_message();
    // In order on the caller's queue: no synchronisation but the caller's own.
    ASSERT_EQ(clEnqueueReadBuffer(device.queue, y, CL_TRUE, 0, bytes, result.data(), 0, nullptr, nullptr),
              CL_SUCCESS);
    for (int i = 0; i < offset; i++) {
        ASSERT_EQ(result[static_cast<size_t>(i)], -1.0f);
    }
    for (size_t i = static_cast<size_t>(offset); i < host.size(); i++) {
        ASSERT_EQ(result[i], std::max(2 * host[i] + 1, 0.0f));
    }
    release(&call, &vx);
    release(&call, &vy);
    release(&call, &vy);
    cl_uint count = 0;
    clGetMemObjectInfo(y, CL_MEM_REFERENCE_COUNT, sizeof(count), &count, nullptr);
    EXPECT_EQ(count, 1u) << "the views hold nothing any more";
    clReleaseMemObject(x);
    clReleaseMemObject(y);
}

/// OpenCL has no parts of parts.
TEST_F(OpenCL, OffsetsIntoPartsOfMemory) {
    LoadedLibrary &lib = library("test_chain", "opencl");
    Device device;
    kiln_call call = KILN_CALL_INIT;
    call.cl_queue = device.queue;
    for (int offset : {0, 1, 1024}) {
        run_with(lib, device, call, offset, true);
    }
}

TEST_F(OpenCL, EveryDeviceOfAContext) {
    const std::vector<cl_device_id> devices = two_devices();
    if (devices.empty()) {
        GTEST_SKIP() << "one OpenCL device, which cannot be parted";
    }
    for (int first : {0, 1}) {
        LoadedLibrary lib = fresh("test_chain", "opencl");
        Device one(devices), two(one, devices[1]);
        for (int turn = 0; turn < 3; turn++) {
            Device &device = (first + turn) % 2 ? two : one;
            kiln_call call = KILN_CALL_INIT;
            call.cl_context = device.context;
            call.cl_queue = device.queue;
            run_with(lib, device, call, 0);
        }
        auto release_context =
            reinterpret_cast<int (*)(const kiln_call *, const halide_device_interface_t *)>(
                lib.symbol("kiln_release_context"));
        auto interface = reinterpret_cast<const halide_device_interface_t *(*)()>(
            lib.symbol("halide_opencl_device_interface"));
        kiln_call call = KILN_CALL_INIT;
        call.cl_context = one.context;
        call.cl_queue = one.queue;
        EXPECT_EQ(release_context(&call, interface()), 0);
    }
    for (cl_device_id device : devices) {
        clReleaseDevice(device);
    }
}

/// A copy that would make up for an offset, but is larger than the device's memory.
TEST_F(OpenCL, OffsetsThatCannotBeCopied) {
    LoadedLibrary &lib = library("test_chain", "opencl");
    Device device;
    cl_ulong most = 0;
    cl_uint unit = 0;
    clGetDeviceInfo(device.device, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof(most), &most, nullptr);
    clGetDeviceInfo(device.device, CL_DEVICE_MEM_BASE_ADDR_ALIGN, sizeof(unit), &unit, nullptr);
    const int64_t stride = 1 << 28,
                  rows = static_cast<int64_t>(most / (4 * static_cast<cl_ulong>(stride))) + 2;
    cl_mem x = clCreateBuffer(device.context, 0, 4096, nullptr, nullptr);
    Array<float> y({2, rows});
    auto view = reinterpret_cast<decltype(&kiln_view_opencl)>(lib.symbol("kiln_view_opencl"));
    kiln_view vx;
    const int64_t extents[] = {2, rows}, strides[] = {1, stride};
    ASSERT_EQ(view(&vx, KILN_FLOAT32, x, 4, 2, extents, strides), KILN_OK);
    kiln_call call = KILN_CALL_INIT;
    call.cl_queue = device.queue;
    ChainCall chain{&vx.buffer, y.buffer()};
    EXPECT_EQ(chain.run(lib, &call), KILN_OUT_OF_MEMORY);
    EXPECT_EQ(lib.last_message(),
              "test_chain: `x` begins 4 bytes into its cl_mem, which the device cannot address, and its " +
                  std::to_string(((rows - 1) * stride + 2) * 4) +
                  " bytes could not be given memory of their own (OpenCL error -61): let it begin at a "
                  "multiple of " +
                  std::to_string(unit / 8) + " bytes of a whole cl_mem");
    EXPECT_TRUE(y.untouched());
    clReleaseMemObject(x);
}

TEST_F(OpenCL, CallersContextAndQueue) {
    LoadedLibrary &lib = library("test_chain", "opencl");
    Device one, two;
    for (int round = 0; round < 3; round++) {
        for (Device *device : {&one, &two}) {
            kiln_call call = KILN_CALL_INIT;
            call.cl_queue = device->queue;
            if (round == 1) {
                call.cl_context = device->context;
            }
            run_with(lib, *device, call, round == 2 ? 1024 : 0);
        }
    }
}

TEST_F(OpenCL, OverlapOnTheDevice) {
    LoadedLibrary &lib = library("test_chain", "opencl");
    Device device;
    cl_mem memory = clCreateBuffer(device.context, 0, 4096, nullptr, nullptr);
    auto view = reinterpret_cast<decltype(&kiln_view_opencl)>(lib.symbol("kiln_view_opencl"));
    auto release = reinterpret_cast<decltype(&kiln_view_release)>(lib.symbol("kiln_view_release"));
    kiln_view vx, vy;
    int64_t extents[] = {8, 8};
    view(&vx, KILN_FLOAT32, memory, 0, 2, extents, nullptr);
    view(&vy, KILN_FLOAT32, memory, 128, 2, extents, nullptr);
    kiln_call call = KILN_CALL_INIT;
    call.cl_queue = device.queue;
    ChainCall chain{&vx.buffer, &vy.buffer};
    EXPECT_EQ(chain.run(lib, &call), KILN_INVALID_ARGUMENT);
    EXPECT_EQ(lib.last_message(), "test_chain: output `y` shares memory with input `x`, they must be apart");
    release(&call, &vx);
    release(&call, &vy);
    clReleaseMemObject(memory);
}

TEST_F(OpenCL, FirstCallsFromManyThreads) {
    for (int round = 0; round < 3; round++) {
        LoadedLibrary lib = fresh("test_chain", "opencl");
        std::atomic<int> wrong = 0;
        std::vector<std::thread> threads;
        for (int t = 0; t < 8; t++) {
            threads.emplace_back([&, t] {
                Array<float> x({61, 3}), y({61, 3});
                x.fill(t);
                ChainCall call{x.buffer(), y.buffer()};
                // Some begin with a copy instead of a call.
                if (t % 2) {
                    auto copy = reinterpret_cast<int (*)(void *, halide_buffer_t *,
                                                         const halide_device_interface_t *)>(
                        lib.symbol("halide_copy_to_device"));
                    auto interface = reinterpret_cast<const halide_device_interface_t *(*)()>(
                        lib.symbol("halide_opencl_device_interface"));
                    x.view.buffer.set_host_dirty();
                    wrong += copy(nullptr, x.buffer(), interface()) != 0;
                }
                wrong += call.run(lib) != KILN_OK;
                wrong += lib.copy_to_host(nullptr, y.buffer()) != 0;
                wrong += y.at(60, 2) != std::max(2 * x.at(60, 2) + 1, 0.0f);
                lib.device_free(nullptr, x.buffer());
                lib.device_free(nullptr, y.buffer());
            });
        }
        for (std::thread &t : threads) {
            t.join();
        }
        EXPECT_EQ(wrong, 0);
    }
}

TEST_F(OpenCL, PrepareLoadsTheModule) {
    LoadedLibrary lib = fresh("test_chain", "opencl");
    EXPECT_EQ(lib.prepare(nullptr), KILN_OK) << lib.last_message();
    Array<float> x({5, 2}), y({5, 2});
    ChainCall call{x.buffer(), y.buffer()};
    EXPECT_EQ(call.run(lib), KILN_OK) << lib.last_message();
    lib.device_free(nullptr, x.buffer());
    lib.device_free(nullptr, y.buffer());
}

TEST_F(OpenCL, MessagesOfTheDeviceChoice) {
    // K42: what was needed and what was found.
    setenv("HL_OCL_PLATFORM_NAME", "No Such Platform", 1);
    LoadedLibrary lib = fresh("test_chain", "opencl");
    Array<float> x({5, 2}), y({5, 2});
    ChainCall call{x.buffer(), y.buffer()};
    EXPECT_EQ(call.run(lib), KILN_NO_DEVICE);
    std::string message = lib.last_message();
    EXPECT_EQ(message.rfind("test_chain: `opencl`: no OpenCL platform is named like `No Such Platform` "
                            "(HL_OCL_PLATFORM_NAME), there are `",
                            0),
              0u)
        << message;
    unsetenv("HL_OCL_PLATFORM_NAME");
    setenv("HL_OCL_DEVICE_TYPE", "acc", 1);
    LoadedLibrary other = fresh("test_chain", "opencl");
    EXPECT_EQ(call.run(other), KILN_NO_DEVICE);
    message = other.last_message();
    EXPECT_EQ(
        message.rfind(
            "test_chain: `opencl`: no OpenCL device of type `acc` (HL_OCL_DEVICE_TYPE) on platforms `", 0),
        0u)
        << message;
    unsetenv("HL_OCL_DEVICE_TYPE");
    LoadedLibrary third = fresh("test_chain", "opencl");
    kiln_call seventh = KILN_CALL_INIT;
    seventh.device = 77;
    EXPECT_EQ(call.run(third, &seventh), KILN_NO_DEVICE);
    message = third.last_message();
    EXPECT_EQ(message.rfind("test_chain: `opencl`: OpenCL device 77 was asked for, but platforms `", 0), 0u)
        << message;
    EXPECT_TRUE(y.untouched());
}

TEST_F(OpenCL, AHostThatIsNewerGoesToTheDeviceAgain) {
    // K41: the flag says which copy counts; without a device copy the host's is the only one.
    LoadedLibrary &lib = library("test_chain", "opencl");
    Array<float> x({9, 4}), y({9, 4});
    x.fill(1);
    ChainCall call{x.buffer(), y.buffer()};
    ASSERT_EQ(call.run(lib), KILN_OK);
    x.at(8, 3) = 100;
    x.view.buffer.set_host_dirty();
    ASSERT_EQ(call.run(lib), KILN_OK);
    ASSERT_EQ(lib.copy_to_host(nullptr, y.buffer()), 0);
    EXPECT_EQ(y.at(8, 3), 201.0f);
    // A CPU kernel does not read what is newer on a device.
    LoadedLibrary &cpu = library("test_chain", "cpu avx2");
    Array<float> z({9, 4});
    y.view.buffer.set_device_dirty();
    ChainCall next{y.buffer(), z.buffer()};
    EXPECT_EQ(next.run(cpu), KILN_INVALID_ARGUMENT);
    EXPECT_EQ(cpu.last_message(),
              "test_chain: `x` is newer on a device (its device_dirty flag is set), but this "
              "kernel runs on the CPU: call halide_copy_to_host first");
    lib.device_free(nullptr, x.buffer());
    lib.device_free(nullptr, y.buffer());
}

TEST_F(OpenCL, SixteenBitStorage) {
    TemporaryFolder folder;
    BuildRequest request = request_for("test_product", {"opencl"}, folder.path());
    request.params["type"] = "bfloat16";
    LoadedLibrary lib = load(request);
    std::vector<uint16_t> a(12), b(15);
    for (size_t i = 0; i < 12; i++) {
        float f = static_cast<float>(i);
        uint32_t u;
        std::memcpy(&u, &f, 4);
        a[i] = static_cast<uint16_t>(u >> 16);
    }
    for (size_t i = 0; i < 15; i++) {
        b[i] = 0x3f80; // 1
    }
    kiln_view va, vb;
    int64_t ea[] = {3, 4}, eb[] = {5, 3};
    kiln_view_host(&va, KILN_BFLOAT16, a.data(), 2, ea, nullptr);
    kiln_view_host(&vb, KILN_BFLOAT16, b.data(), 2, eb, nullptr);
    Array<float> c({5, 4});
    void *arguments[] = {&va.buffer, &vb.buffer, c.buffer()};
    ASSERT_EQ(lib.call(nullptr, arguments), KILN_OK) << lib.last_message();
    ASSERT_EQ(lib.copy_to_host(nullptr, c.buffer()), 0);
    EXPECT_EQ(c.at(2, 3), 9.0f + 10.0f + 11.0f);
    for (halide_buffer_t *buffer : {&va.buffer, &vb.buffer, c.buffer()}) {
        lib.device_free(nullptr, buffer);
    }
}

} // namespace
} // namespace kiln::test
