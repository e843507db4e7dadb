/** \file
 * How the runtime uses a CUDA driver, and what it says when driver or device will not do: against a driver that
 * computes nothing. Results on a GPU are checked where there is one.
 */
#include "runtime_support.h"
#include "tests/support/fake_cuda.h"

#include <cmath>
#include <fstream>
#include <thread>

#include <dlfcn.h>

namespace kiln::test {
namespace {

using FakeCuda = fake_cuda;

class Cuda : public ::testing::Test {
protected:
    Cuda() : x({33, 5}), y({33, 5}) {
        static void *driver = dlopen(KILN_BINARY_DIR "/lib/libkiln_fake_cuda.so", RTLD_NOW | RTLD_GLOBAL);
        fake = static_cast<FakeCuda *>(dlsym(driver, "fake_cuda"));
        *fake = {};
        fake->capability = 86;
        fake->driver_version = 12020;
        fake->device_count = 1;
        x.fill(1);
    }
    LoadedLibrary fresh(const std::string &generator, const std::string &target) {
        TemporaryFolder folder;
        return load(request_for(generator, {target}, folder.path()));
    }
    int run(LoadedLibrary &lib, const kiln_call *call = nullptr) {
        ChainCall chain{x.buffer(), y.buffer()};
        return chain.run(lib, call);
    }
    void free(LoadedLibrary &lib, const kiln_call *call = nullptr) {
        lib.device_free(call, x.buffer());
        lib.device_free(call, y.buffer());
    }
    FakeCuda *fake;
    Array<float> x, y;
};

TEST_F(Cuda, DefaultIsThePrimaryContext) {
    LoadedLibrary lib = fresh("test_chain", "cuda");
    ASSERT_EQ(run(lib), KILN_OK) << lib.last_message();
    EXPECT_EQ(fake->loads, 1);
    EXPECT_EQ(fake->launches, 1);
    EXPECT_EQ(fake->launch_stream, nullptr);
    EXPECT_NE(fake->launch_context, nullptr);
    ASSERT_EQ(run(lib), KILN_OK);
    EXPECT_EQ(fake->loads, 1) << "the module is kept";
    free(lib);
}

TEST_F(Cuda, CallersContextAndStream) {
    LoadedLibrary lib = fresh("test_chain", "cuda");
    char context[2], stream[2];
    for (int i = 0; i < 2; i++) {
        kiln_call call = KILN_CALL_INIT;
        call.cuda_context = &context[i];
        call.cuda_stream = &stream[i];
        ASSERT_EQ(run(lib, &call), KILN_OK) << lib.last_message();
        EXPECT_EQ(fake->launch_context, &context[i]);
        EXPECT_EQ(fake->launch_stream, &stream[i]);
        EXPECT_EQ(fake->loads, i + 1) << "one module a context";
        free(lib, &call);
        auto release = reinterpret_cast<decltype(&kiln_release_context)>(lib.symbol("kiln_release_context"));
        auto interface = reinterpret_cast<const halide_device_interface_t *(*)()>(
            lib.symbol("halide_cuda_device_interface"));
        EXPECT_EQ(release(&call, interface()), KILN_OK);
        EXPECT_EQ(fake->unloads, i + 1);
    }
    // A stream alone names its context.
    kiln_call call = KILN_CALL_INIT;
    call.cuda_stream = &stream[0];
    ASSERT_EQ(run(lib, &call), KILN_OK) << lib.last_message();
    EXPECT_EQ(fake->launch_context, &stream[0]);
    free(lib, &call);
}

TEST_F(Cuda, DevicePointersAndNoAllocation) {
    LoadedLibrary lib = fresh("test_chain", "cuda");
    char stream;
    kiln_call call = KILN_CALL_INIT;
    call.cuda_stream = &stream;
    auto view = reinterpret_cast<decltype(&kiln_view_cuda)>(lib.symbol("kiln_view_cuda"));
    int64_t extents[] = {33, 5};
    kiln_view vx, vy;
    ASSERT_EQ(view(&vx, KILN_FLOAT32, x.data(), 2, extents, nullptr), KILN_OK);
    ASSERT_EQ(view(&vy, KILN_FLOAT32, y.data(), 2, extents, nullptr), KILN_OK);
    ChainCall chain{&vx.buffer, &vy.buffer};
    ASSERT_EQ(chain.run(lib, &call), KILN_OK) << lib.last_message();
    ASSERT_EQ(chain.run(lib, &call), KILN_OK);
    EXPECT_EQ(fake->launches, 2);
    EXPECT_EQ(fake->allocs + fake->async_allocs, 0);
    // Overlap is seen on the device too.
    view(&vy, KILN_FLOAT32, x.data() + 40, 2, extents, nullptr);
    EXPECT_EQ(chain.run(lib, &call), KILN_INVALID_ARGUMENT);
    EXPECT_EQ(lib.last_message(), "test_chain: output `y` shares memory with input `x`, they must be apart");
    EXPECT_EQ(fake->launches, 2);
}

TEST_F(Cuda, IntermediatesComeFromTheStreamsPool) {
    LoadedLibrary lib = fresh("test_scratch_root", "cuda");
    char stream;
    kiln_call call = KILN_CALL_INIT;
    call.cuda_stream = &stream;
    void *arguments[] = {x.buffer(), y.buffer()};
    ASSERT_EQ(lib.call(&call, arguments), KILN_OK) << lib.last_message();
    int arguments_only = 2;
    EXPECT_EQ(fake->allocs, 0);
    EXPECT_EQ(fake->async_allocs, arguments_only + 1);
    EXPECT_EQ(fake->async_frees, 1);
    EXPECT_EQ(fake->alloc_stream, &stream);
    // The caller's allocator serves intermediate values, not the buffers of arguments.
    struct Heap {
        int live = 0, on_device = 0;
        int64_t bytes = 0;
    } heap;
    call.user = &heap;
    call.alloc = [](const kiln_call *c, size_t bytes, size_t alignment, int space) -> void * {
        static_cast<Heap *>(c->user)->live++;
        static_cast<Heap *>(c->user)->on_device += space == KILN_SPACE_CUDA;
        static_cast<Heap *>(c->user)->bytes += int64_t(bytes);
        return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    };
    call.free = [](const kiln_call *c, void *memory, size_t, int) {
        static_cast<Heap *>(c->user)->live--;
        std::free(memory);
    };
    ASSERT_EQ(lib.call(&call, arguments), KILN_OK) << lib.last_message();
    kiln_workspace workspace;
    auto ask = reinterpret_cast<decltype(&kiln_entry_workspace)>(lib.symbol("kiln_entry_workspace"));
    ASSERT_EQ(ask(&lib.info(), &call, arguments, &workspace), KILN_OK) << lib.last_message();
    EXPECT_EQ(workspace.device_bytes, heap.bytes);
    EXPECT_EQ(workspace.host_bytes, 0);
    EXPECT_EQ(heap.on_device, 1);
    EXPECT_EQ(heap.live, 0);
    EXPECT_EQ(fake->async_allocs, arguments_only + 1);
    free(lib, &call);
}

TEST_F(Cuda, DeviceTooOld) {
    LoadedLibrary lib = fresh("test_chain", "cuda sm_90a");
    EXPECT_EQ(run(lib), KILN_NO_DEVICE);
    EXPECT_EQ(lib.last_message(),
              "test_chain: `cuda sm_90a`: needs compute capability 9.0 exactly, `Fake GPU` has 8.6");
    EXPECT_TRUE(y.untouched());
    fake->capability = 90;
    EXPECT_EQ(run(lib), KILN_OK) << lib.last_message();
    free(lib);
}

TEST_F(Cuda, DriverTooOld) {
    LoadedLibrary lib = fresh("test_chain", "cuda");
    fake->load_error = 222; // CUDA_ERROR_UNSUPPORTED_PTX_VERSION
    EXPECT_EQ(run(lib), KILN_NO_DEVICE);
    std::string message = lib.last_message();
    EXPECT_EQ(message.rfind(
                  "test_chain: the driver cannot load the library's code: it is older than the code, or the "
                  "GPU older than its target; here is a driver for CUDA 12.2, and `Fake GPU` of compute "
                  "capability 8.6 (CUDA: cuModuleLoadData failed",
                  0),
              0u)
        << message;
    EXPECT_TRUE(y.untouched());
    fake->load_error = 0;
    EXPECT_EQ(run(lib), KILN_OK) << "a failed load can be tried again: " << lib.last_message();
    free(lib);
}

TEST_F(Cuda, NoMemory) {
    LoadedLibrary lib = fresh("test_chain", "cuda");
    fake->alloc_error = 2;
    EXPECT_EQ(run(lib), KILN_OUT_OF_MEMORY);
    EXPECT_EQ(lib.last_message(), "test_chain: the device gave no 660 bytes: CUDA_ERROR_OUT_OF_MEMORY (2)");
    EXPECT_EQ(fake->launches, 0);
}

TEST_F(Cuda, NoDeviceAndNoSuchDevice) {
    LoadedLibrary lib = fresh("test_chain", "cuda");
    fake->init_error = 100;
    EXPECT_EQ(run(lib), KILN_NO_DEVICE);
    EXPECT_EQ(lib.last_message(),
              "test_chain: `cuda`: the CUDA driver does not start: cuInit gave CUDA_ERROR_NO_DEVICE (100)");
    fake->init_error = 0;
    kiln_call call = KILN_CALL_INIT;
    call.device = 3;
    EXPECT_EQ(run(lib, &call), KILN_NO_DEVICE);
    EXPECT_EQ(lib.last_message(), "test_chain: `cuda`: CUDA device 3 was asked for, the driver finds 1");
}

TEST_F(Cuda, FirstCallsFromManyThreads) {
    LoadedLibrary lib = fresh("test_chain", "cuda");
    std::vector<std::thread> threads;
    std::atomic<int> wrong = 0;
    for (int t = 0; t < 8; t++) {
        threads.emplace_back([&] {
            Array<float> in({9, 9}), out({9, 9});
            ChainCall chain{in.buffer(), out.buffer()};
            wrong += chain.run(lib) != KILN_OK;
            lib.device_free(nullptr, in.buffer());
            lib.device_free(nullptr, out.buffer());
        });
    }
    for (std::thread &t : threads) {
        t.join();
    }
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(fake->loads, 1);
    EXPECT_EQ(fake->launches, 8);
}

class CudaLaunch : public Cuda {
protected:
    LoadedLibrary scheduled(const std::string &generator, const std::string &directives) {
        TemporaryFolder folder;
        BuildRequest request = request_for(generator, {"cuda"}, folder.path());
        request.variants[0].schedule_text =
            "schedule s {\n  op " + generator + "\n  target cuda\n  " + directives + "\n}\n";
        return load(request);
    }
    /// A call with images of this size; the kernel must not reach the driver.
    void expect_refused(LoadedLibrary &lib, int64_t w, int64_t h, bool chain, const std::string &message) {
        Array<float> in({w, h}), out({w, h});
        ChainCall c{in.buffer(), out.buffer()};
        void *arguments[] = {in.buffer(), out.buffer()};
        EXPECT_EQ(chain ? c.run(lib) : lib.call(nullptr, arguments), KILN_UNSUPPORTED);
        EXPECT_EQ(lib.last_message(), message);
        EXPECT_EQ(fake->refused, 0);
        EXPECT_TRUE(out.untouched());
        lib.device_free(nullptr, in.buffer());
        lib.device_free(nullptr, out.buffer());
    }
};

TEST_F(CudaLaunch, TooManyThreads) {
    LoadedLibrary lib = scheduled("test_chain", "y.gpu_blocks(j).gpu_threads(i);");
    ASSERT_EQ(run(lib), KILN_OK) << lib.last_message();
    EXPECT_EQ(fake->launch_block[0], 33u);
    expect_refused(
        lib, 2000, 1, true,
        "test_chain: the kernel of `y` needs 2000 threads in a block, `Fake GPU` allows 1024: split "
        "the thread loops of its schedule by less");
    free(lib);
}

TEST_F(CudaLaunch, TooManyThreadsAlongAnAxis) {
    LoadedLibrary lib =
        scheduled("test_chain", "y.split(i, io, ii, 1).split(io, ioo, ioi, 1).reorder(ii, ioi, j, ioo)"
                                ".gpu_blocks(ioo).gpu_threads(ii, ioi, j);");
    expect_refused(
        lib, 1, 100, true,
        "test_chain: the kernel of `y` needs 100 threads along z, `Fake GPU` allows 64: split that "
        "thread loop by less");
}

TEST_F(CudaLaunch, TooManyBlocks) {
    LoadedLibrary lib = scheduled("test_chain", "y.split(i, io, ii, 32).gpu_blocks(io, j).gpu_threads(ii);");
    ASSERT_EQ(run(lib), KILN_OK) << lib.last_message();
    EXPECT_EQ(fake->launch_grid[1], 5u);
    expect_refused(
        lib, 1, 70000, true,
        "test_chain: the kernel of `y` needs 70000 blocks along y, `Fake GPU` allows 65535: make the "
        "longest loop the first of gpu_blocks, or fuse loops");
    free(lib);
}

TEST_F(CudaLaunch, TooMuchSharedMemory) {
    LoadedLibrary lib =
        scheduled("test_scratch", "y.split(i, io, ii, 32).reorder(ii, io, j).gpu_blocks(j).gpu_threads(ii);\n"
                                  "  twice.compute_at(y, j).store_in(GPUShared)"
                                  ".split(i, io, ii, 32).gpu_threads(ii);");
    expect_refused(
        lib, 20000, 1, false,
        "test_scratch: the kernel of `y` needs 80000 bytes of shared memory in a block, `Fake GPU` "
        "allows 49152: keep less in GPUShared, or split by less");
}

TEST_F(CudaLaunch, AnEmptyIntermediateLaunchesNothing) {
    // Sums over no columns: the copy of `a` has no element, the sums are zero all the same.
    LoadedLibrary lib =
        scheduled("test_product", "c.gpu_blocks(m).gpu_threads(n);\n"
                                  "  c.update().reorder(k, n, m).gpu_blocks(m).gpu_threads(n);\n"
                                  "  a.in(c).compute_root().gpu_blocks(_1).gpu_threads(_0);");
    Array<float> a({0, 4}), b({5, 0}), c({5, 4});
    void *arguments[] = {a.buffer(), b.buffer(), c.buffer()};
    ASSERT_EQ(lib.call(nullptr, arguments), KILN_OK) << lib.last_message();
    EXPECT_EQ(fake->refused, 0);
    EXPECT_GE(fake->launches, 1);
    for (Array<float> *array : {&a, &b, &c}) {
        lib.device_free(nullptr, array->buffer());
    }
}

TEST_F(CudaLaunch, CausalAttentionOfLongSequences) {
    TemporaryFolder folder;
    BuildRequest request = request_for("attention", {"cuda"}, folder.path());
    request.load = {std::string(KILN_BINARY_DIR) + "/lib/kiln_generators.so"};
    request.params = {{"type", "bfloat16"}, {"mask", "causal"}};
    request.variants[0].schedule_file = std::string(KILN_SOURCE_DIR) + "/schedules/attention/cuda.sched";
    std::ifstream file(request.variants[0].schedule_file);
    request.variants[0].schedule_text = {std::istreambuf_iterator<char>(file), {}};
    LoadedLibrary lib = load(request);
    const int64_t extents[] = {128, 4096, 16, 4};
    auto view = reinterpret_cast<decltype(&kiln_view_cuda)>(lib.symbol("kiln_view_cuda"));
    kiln_view q, k, v, y;
    uintptr_t address = 1 << 20; // never read: kernels do nothing here
    for (kiln_view *of : {&q, &k, &v, &y}) {
        ASSERT_EQ(view(of, KILN_BFLOAT16, reinterpret_cast<void *>(address), 4, extents, nullptr), KILN_OK);
        address += uintptr_t(1) << 32;
    }
    void *arguments[] = {&q.buffer, &k.buffer, &v.buffer, &y.buffer};
    ASSERT_EQ(lib.call(nullptr, arguments), KILN_OK) << lib.last_message();
    EXPECT_EQ(fake->launches, 1);
    EXPECT_EQ(fake->refused, 0);
    EXPECT_EQ(fake->launch_grid[0], 4096u);
}

std::string bytes_of(const std::filesystem::path &file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

BuildRequest hand_schedule(const std::string &generator, const std::string &file, const std::string &type,
                           const std::filesystem::path &folder) {
    BuildRequest request = request_for(generator, {"cuda"}, folder);
    request.load = {std::string(KILN_BINARY_DIR) + "/lib/kiln_generators.so"};
    request.params = {{"type", type}};
    request.variants[0].schedule_file = std::string(KILN_SOURCE_DIR) + "/schedules/" + generator + "/" + file;
    request.variants[0].schedule_text = bytes_of(request.variants[0].schedule_file);
    return request;
}

TEST(CudaAccess, SixteenBytesAtATime) {
    // The object holds the kernels as PTX.
    for (auto [generator, file, type] : {std::tuple("chain_relu", "cuda.sched", "float32"),
                                         std::tuple("chain_relu", "cuda_16bit.sched", "bfloat16"),
                                         std::tuple("chain_relu", "cuda_16bit.sched", "float16"),
                                         std::tuple("gelu_residual", "cuda_16bit.sched", "bfloat16"),
                                         std::tuple("swiglu", "cuda_16bit.sched", "bfloat16")}) {
        TemporaryFolder folder;
        BuildResult built = build_library(hand_schedule(generator, file, type, folder.path()));
        ASSERT_TRUE(built.ok) << render_all(built.diagnostics, "");
        std::string code = bytes_of(built.archive);
        for (const char *access : {"ld.global.nc.v4.b32", "st.global.v4.b32"}) {
            EXPECT_NE(code.find(access), std::string::npos)
                << access << " in " << generator << " of " << type;
        }
        EXPECT_NE(code.find("\"y\": 16"), std::string::npos)
            << "what it asks for is in the text of NAME.json";
    }
}

TEST_F(Cuda, AddressesThatWideAccessesMayNotBeginAt) {
    TemporaryFolder folder;
    LoadedLibrary lib = load(hand_schedule("chain_relu", "cuda.sched", "float32", folder.path()));
    static int misaligned;
    misaligned = 0;
    // y = x + 1, whichever of the first two arguments is y: it is the one that holds no 5.
    fake->loops = [](void **arguments) {
        auto *p = *static_cast<float **>(arguments[0]), *q = *static_cast<float **>(arguments[1]);
        misaligned += reinterpret_cast<uintptr_t>(p) % 16 != 0 || reinterpret_cast<uintptr_t>(q) % 16 != 0;
        float *in = p[0] == 5 ? p : q, *out = in == p ? q : p;
        for (int i = 0; i < 1024; i++) {
            out[i] = in[i] + 1;
        }
    };
    alignas(16) static float memory_x[1032], memory_y[1032];
    auto view = reinterpret_cast<decltype(&kiln_view_cuda)>(lib.symbol("kiln_view_cuda"));
    char stream;
    kiln_call call = KILN_CALL_INIT;
    call.cuda_stream = &stream;
    for (int offset : {0, 1, 4, 7}) {
        std::fill(std::begin(memory_x), std::end(memory_x), 5.0f);
        std::fill(std::begin(memory_y), std::end(memory_y), -3.0f);
        const int64_t n = 1024;
        kiln_view x, y;
        ASSERT_EQ(view(&x, KILN_FLOAT32, memory_x + offset, 1, &n, nullptr), KILN_OK);
        ASSERT_EQ(view(&y, KILN_FLOAT32, memory_y + offset, 1, &n, nullptr), KILN_OK);
        int allocs = fake->async_allocs, frees = fake->async_frees;
        float a = 1, b = 1;
        void *arguments[] = {&x.buffer, &a, &b, &y.buffer};
        ASSERT_EQ(lib.call(&call, arguments), KILN_OK) << lib.last_message();
        EXPECT_EQ(fake->async_allocs - allocs, offset % 4 == 0 ? 0 : 2);
        EXPECT_EQ(fake->async_frees - frees, offset % 4 == 0 ? 0 : 2);
        EXPECT_EQ(y.buffer.device, reinterpret_cast<uint64_t>(memory_y + offset));
        for (int i = 0; i < 1032; i++) {
            bool inside = i >= offset && i < offset + 1024;
            ASSERT_EQ(memory_y[i], inside ? 6.0f : -3.0f) << offset << " at " << i;
        }
    }
    EXPECT_EQ(misaligned, 0);
}

/// The value of float16 bits.
double half(uint16_t h) {
    int exponent = h >> 10 & 31, fraction = h & 1023;
    double m = exponent == 31  ? (fraction ? NAN : INFINITY)
               : exponent == 0 ? std::ldexp(fraction, -24)
                               : std::ldexp(1024 + fraction, exponent - 25);
    return h & 0x8000 ? -m : m;
}

TEST_F(Cuda, Float16InStagesOnTheHost) {
    // Every float16, through a stage that no kernel runs: Halide's own conversion there takes NaN for infinity.
    for (const char *loops : {"y.serial(i);", "y.vectorize(i, 8, GuardWithIf);"}) {
        TemporaryFolder folder;
        BuildRequest request = request_for("chain_relu", {"cuda"}, folder.path());
        request.load = {std::string(KILN_BINARY_DIR) + "/lib/kiln_generators.so"};
        request.params = {{"type", "float16"}};
        request.variants[0].schedule_text =
            std::string("schedule s {\n  op chain_relu\n  target cuda\n  ") + loops + "\n}\n";
        LoadedLibrary lib = load(request);
        std::vector<uint16_t> in(65536), out(65536);
        for (size_t i = 0; i < in.size(); i++) {
            in[i] = static_cast<uint16_t>(i);
        }
        const int64_t n = 65536;
        kiln_view vx, vy;
        kiln_view_host(&vx, KILN_FLOAT16, in.data(), 1, &n, nullptr);
        kiln_view_host(&vy, KILN_FLOAT16, out.data(), 1, &n, nullptr);
        // 0 times infinity is NaN, twice the largest overflows, half of a denormal rounds to even.
        for (auto [a, b] : {std::pair(1.0f, 0.0f), std::pair(0.0f, 0.0f), std::pair(2.0f, 0.0f),
                            std::pair(0.5f, 0.0f), std::pair(1.0f, -INFINITY)}) {
            void *arguments[] = {&vx.buffer, &a, &b, &vy.buffer};
            ASSERT_EQ(lib.call(nullptr, arguments), KILN_OK) << lib.last_message();
            EXPECT_EQ(fake->launches, 0);
            for (size_t i = 0; i < in.size(); i++) {
                double exact = a * half(in[i]) + b, got = half(out[i]);
                double right = std::isnan(exact) ? exact : std::max(exact, 0.0);
                if (right < 6.2e-5) { // denormals count units of 2^-24
                    right = std::nearbyint(std::ldexp(right, 24)) / (1 << 24);
                } else if (right >= 65520) {
                    right = INFINITY;
                }
                ASSERT_TRUE(std::isnan(right) ? std::isnan(got) : got == right)
                    << loops << ": " << a << " * " << half(in[i]) << " + " << b << " gave " << got;
            }
        }
    }
}

TEST_F(Cuda, ACropIsNotFreed) {
    LoadedLibrary lib = fresh("test_chain", "cuda");
    auto interface = reinterpret_cast<const halide_device_interface_t *(*)()>(
        lib.symbol("halide_cuda_device_interface"))();
    auto function = [&](const char *name, auto type) {
        return reinterpret_cast<decltype(type)>(lib.symbol(name));
    };
    auto malloc_on = function("halide_device_malloc", &halide_device_malloc);
    auto crop = function("halide_device_crop", &halide_device_crop);
    auto release = function("halide_device_release_crop", &halide_device_release_crop);
    ASSERT_EQ(malloc_on(nullptr, x.buffer(), interface), 0);
    kiln_view part = x.view;
    part.buffer.dim = part.dim;
    part.buffer.device = 0;
    part.buffer.device_interface = nullptr;
    part.dim[0].min = 1;
    part.dim[0].extent = 10;
    ASSERT_EQ(crop(nullptr, x.buffer(), &part.buffer), 0);
    EXPECT_NE(lib.device_free(nullptr, &part.buffer), 0);
    EXPECT_NE(lib.last_message().find(
                  "CUDA_ERROR_INVALID_VALUE (1); a crop's memory belongs to the buffer that it was "
                  "made of: use halide_device_release_crop"),
              std::string::npos)
        << lib.last_message();
    EXPECT_EQ(release(nullptr, &part.buffer), 0);
    EXPECT_EQ(lib.device_free(nullptr, x.buffer()), 0);
}

} // namespace
} // namespace kiln::test
