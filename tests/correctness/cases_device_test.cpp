/** \file
 * Data on an OpenCL device: crops of one image, device memory that outlives its kernel, odd sizes, storage of 16 bits
 * without the extension for it. What a CUDA driver says: runtime_cuda_test.cpp.
 */
#define CL_TARGET_OPENCL_VERSION 120
#include "cases_support.h"

#include <CL/cl.h>
#include <gmock/gmock.h>

#include <cstdlib>

namespace kiln::test {
namespace {

const kiln_type types[] = {KILN_FLOAT32, KILN_BFLOAT16, KILN_FLOAT16};

class CasesDevice : public ::testing::Test {
protected:
    void SetUp() override {
        cl_uint count = 0;
        if (clGetPlatformIDs(0, nullptr, &count) != CL_SUCCESS || count == 0) {
            GTEST_SKIP() << "no OpenCL platform on this machine";
        }
    }
};

const std::string blocks_of_256 = "schedule s {\n  op chain_relu\n  target opencl\n"
                                  "  y.split(i, b, t, 256).gpu_blocks(b).gpu_threads(t);\n}\n";

int chain(LoadedLibrary &lib, halide_buffer_t *x, halide_buffer_t *y) {
    float a = 2, b = 0.5;
    void *arguments[] = {x, &a, &b, y};
    return lib.call(nullptr, arguments);
}

// ---- K41

TEST_F(CasesDevice, CropsOfOneImageComeTogetherOnTheHost) {
    LoadedLibrary &lib = kernel({"chain_relu", "opencl", {}, blocks_of_256});
    const int n = 600, cut = 217;
    std::vector<float> x(n), y(n, NAN);
    for (int i = 0; i < n; i++) {
        x[size_t(i)] = float(i % 23) - 11;
    }
    View<float> x0(x.data(), {cut}), x1(x.data() + cut, {n - cut}), y0(y.data(), {cut}),
        y1(y.data() + cut, {n - cut});
    ASSERT_EQ(chain(lib, x0.buffer(), y0.buffer()), KILN_OK) << lib.last_message();
    ASSERT_EQ(chain(lib, x1.buffer(), y1.buffer()), KILN_OK) << lib.last_message();
    ASSERT_EQ(lib.copy_to_host(nullptr, y1.buffer()), 0);
    ASSERT_EQ(lib.copy_to_host(nullptr, y0.buffer()), 0);
    for (int i = 0; i < n; i++) {
        ASSERT_EQ(y[size_t(i)], std::max(2 * x[size_t(i)] + 0.5f, 0.0f)) << i;
    }
    for (auto *v : {&x0, &x1, &y0, &y1}) {
        lib.device_free(nullptr, v->buffer());
    }
}

TEST_F(CasesDevice, CropsOnTheDeviceWriteTheWhole) {
    LoadedLibrary &lib = kernel({"chain_relu", "opencl", {}, blocks_of_256});
    auto malloc_on = reinterpret_cast<int (*)(void *, halide_buffer_t *, const halide_device_interface_t *)>(
        lib.symbol("halide_device_malloc"));
    auto crop = reinterpret_cast<int (*)(void *, const halide_buffer_t *, halide_buffer_t *)>(
        lib.symbol("halide_device_crop"));
    auto release_crop =
        reinterpret_cast<int (*)(void *, halide_buffer_t *)>(lib.symbol("halide_device_release_crop"));
    auto interface = reinterpret_cast<const halide_device_interface_t *(*)()>(
        lib.symbol("halide_opencl_device_interface"));
    ASSERT_TRUE(malloc_on && crop && release_crop && interface);
    const int n = 600;
    // From element 1 on a crop lies 4 bytes into the memory: less than any device aligns sub-buffers to.
    for (int cut : {217, 1, 256}) {
        std::vector<float> x(n), y(n, NAN);
        for (int i = 0; i < n; i++) {
            x[size_t(i)] = float(i % 19) - 9;
        }
        View<float> whole(y.data(), {n});
        ASSERT_EQ(malloc_on(nullptr, whole.buffer(), interface()), 0);
        View<float> parts[] = {{y.data(), {cut}}, {y.data() + cut, {n - cut}}};
        int at = 0;
        for (View<float> &part : parts) {
            // The kernel wants mins of 0: the crop is taken where it lies and moved.
            part.set_min(0, at);
            ASSERT_EQ(crop(nullptr, whole.buffer(), part.buffer()), 0);
            part.set_min(0, 0);
            View<float> in(x.data() + at, {part.buffer()->dim[0].extent});
            ASSERT_EQ(chain(lib, in.buffer(), part.buffer()), KILN_OK) << lib.last_message();
            if (at > 0) { // a live crop is not freed, and stays as it is
                EXPECT_NE(lib.device_free(nullptr, part.buffer()), 0);
                EXPECT_EQ(lib.last_message(),
                          "a crop's memory belongs to the buffer that it was made of: use "
                          "halide_device_release_crop, not halide_device_free");
            }
            ASSERT_EQ(release_crop(nullptr, part.buffer()), 0);
            lib.device_free(nullptr, in.buffer());
            at = cut;
        }
        // The flag is the view's own: the whole does not know that its crops were written.
        whole.buffer()->set_device_dirty();
        ASSERT_EQ(lib.copy_to_host(nullptr, whole.buffer()), 0);
        for (int i = 0; i < n; i++) {
            ASSERT_EQ(y[size_t(i)], std::max(2 * x[size_t(i)] + 0.5f, 0.0f)) << "cut " << cut << " at " << i;
        }
        lib.device_free(nullptr, whole.buffer());
    }
}

TEST_F(CasesDevice, BoxesAtAnyOffsetOfDeviceMemory) {
    // Columns and every other row of a matrix, input and output: what lies between stays.
    LoadedLibrary &lib = kernel({"gelu_residual", "opencl", {}, ""});
    auto get = [&](const char *name, auto type) {
        return reinterpret_cast<decltype(type)>(lib.symbol(name));
    };
    auto malloc_on = get("halide_device_malloc", &halide_device_malloc);
    auto copy = get("halide_copy_to_device", &halide_copy_to_device);
    auto crop = get("halide_device_crop", &halide_device_crop);
    auto release_crop = get("halide_device_release_crop", &halide_device_release_crop);
    auto interface = get("halide_opencl_device_interface", &halide_opencl_device_interface)();
    const int w = 37, h = 11;
    for (auto [i0, j0, cw, ch] : {std::array{1, 0, 5, 3}, std::array{3, 2, 34, 9}, std::array{0, 1, 37, 10},
                                  std::array{5, 5, 1, 6}}) {
        std::vector<float> x(w * h), r(w * h), y(w * h, -5), wv(w, 2), b(w, 0.5);
        for (size_t i = 0; i < x.size(); i++) {
            x[i] = float(i % 23) - 11;
            r[i] = float(i % 7);
        }
        View<float> vx(x.data(), {w, h}), vr(r.data(), {w, h}), vy(y.data(), {w, h});
        View<float> px(x.data() + j0 * w + i0, {cw, ch}, {1, w}),
            pr(r.data() + j0 * w + i0, {cw, ch}, {1, w}), py(y.data() + j0 * w + i0, {cw, ch}, {1, w});
        for (auto [whole, part] : {std::pair(&vx, &px), std::pair(&vr, &pr), std::pair(&vy, &py)}) {
            whole->buffer()->set_host_dirty();
            ASSERT_EQ(malloc_on(nullptr, whole->buffer(), interface), 0);
            ASSERT_EQ(copy(nullptr, whole->buffer(), interface), 0);
            part->set_min(0, i0).set_min(1, j0);
            ASSERT_EQ(crop(nullptr, whole->buffer(), part->buffer()), 0);
            part->set_min(0, 0).set_min(1, 0);
        }
        View<float> vw(wv.data(), {cw}), vb(b.data(), {cw});
        std::vector<void *> arguments;
        for (int a = 0; a < lib.info().argument_count; a++) {
            std::string name = lib.info().arguments[a].name;
            arguments.push_back(name == "x"   ? px.buffer()
                                : name == "r" ? pr.buffer()
                                : name == "w" ? vw.buffer()
                                : name == "b" ? vb.buffer()
                                              : py.buffer());
        }
        ASSERT_EQ(lib.call(nullptr, arguments.data()), KILN_OK) << lib.last_message();
        vy.buffer()->set_device_dirty();
        ASSERT_EQ(lib.copy_to_host(nullptr, vy.buffer()), 0);
        for (int j = 0; j < h; j++) {
            for (int i = 0; i < w; i++) {
                size_t at = size_t(j * w + i);
                bool inside = i >= i0 && i < i0 + cw && j >= j0 && j < j0 + ch;
                double z = x[at] * 2.0 + 0.5;
                double right = 0.5 * z * (1 + std::erf(z / std::sqrt(2.0))) + r[at];
                ASSERT_NEAR(y[at], inside ? right : -5, 1e-5) << i << ", " << j;
            }
        }
        for (View<float> *part : {&px, &pr, &py}) {
            ASSERT_EQ(release_crop(nullptr, part->buffer()), 0);
        }
        for (View<float> *whole : {&vx, &vr, &vy, &vw, &vb}) {
            lib.device_free(nullptr, whole->buffer());
        }
    }
}

TEST_F(CasesDevice, AViewMayOutliveTheLibraryThatGaveItsMemory) {
    std::vector<float> x(5, 1), y(5);
    View<float> vx(x.data(), {5});
    {
        View<float> vy(y.data(), {5});
        {
            TemporaryFolder folder;
            BuildResult built = build({"chain_relu", "opencl", {}, blocks_of_256}, folder.path());
            LoadedLibrary lib(built.archive);
            ASSERT_EQ(chain(lib, vx.buffer(), vy.buffer()), KILN_OK) << lib.last_message();
        }
        ASSERT_NE(vy.buffer()->device, 0u);
    } // its destructor must not call into what is gone
    EXPECT_STREQ(kiln_last_message(),
                 "the library that gave the view its device memory has been unloaded, and the "
                 "memory is lost: release views before dlclose");
}

TEST_F(CasesDevice, AHostThatWasWrittenWithoutAWordIsReadBeforeTheFirstCall) {
    LoadedLibrary &lib = kernel({"chain_relu", "opencl", {}, blocks_of_256});
    std::vector<float> x(5, 1), y(5), fresh = {1, 2, 3, 4, 5};
    View<float> vx(x.data(), {5}), vy(y.data(), {5});
    std::memcpy(x.data(), fresh.data(), sizeof(float) * 5);
    ASSERT_EQ(chain(lib, vx.buffer(), vy.buffer()), KILN_OK) << lib.last_message();
    ASSERT_EQ(lib.copy_to_host(nullptr, vy.buffer()), 0);
    EXPECT_EQ(y, std::vector<float>({2.5, 4.5, 6.5, 8.5, 10.5}));
    lib.device_free(nullptr, vx.buffer());
    lib.device_free(nullptr, vy.buffer());
}

TEST_F(CasesDevice, ExitWithLiveDeviceBuffersIsQuiet) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    auto leave = [](bool close) {
        static std::vector<float> x(5, 1), y(5);
        // Never destroyed: a view frees its device memory, which needs the library that made it.
        View<float> &vx = *new View<float>(x.data(), {5}), &vy = *new View<float>(y.data(), {5});
        {
            TemporaryFolder folder;
            BuildResult built = build({"chain_relu", "opencl", {}, blocks_of_256}, folder.path());
            auto *lib = new LoadedLibrary(built.archive);
            if (chain(*lib, vx.buffer(), vy.buffer()) != KILN_OK) {
                std::exit(7);
            }
            if (close) {
                delete lib; // dlclose, with device memory alive
            }
        }
        std::exit(0);
    };
    EXPECT_EXIT(leave(false), testing::ExitedWithCode(0), testing::Eq(""));
    EXPECT_EXIT(leave(true), testing::ExitedWithCode(0), testing::Eq(""));
}

// ---- K42

TEST_F(CasesDevice, SizesThatBlocksDoNotDivide) {
    for (kiln_type type : types) { // also: 16-bit storage, with or without cl_khr_fp16
        LoadedLibrary &lib = kernel({"chain_relu", "opencl", {{"type", name_of(type)}}, blocks_of_256});
        for (int64_t n : {1, 255, 256, 257, 1001}) {
            Tensor x(type, {n}), y(type, {n}, {{}, 1});
            x.fill(unsigned(n));
            ASSERT_EQ(call(lib, {&x}, {&y}, {2, 0.5}), KILN_OK) << lib.last_message();
            y.each([&](const std::vector<int64_t> &at) {
                ASSERT_EQ(y.get(at), std::max(2 * x.get(at) + 0.5, 0.0)) << name_of(type) << " n " << n;
            });
            EXPECT_TRUE(y.surroundings_untouched());
        }
    }
}

TEST_F(CasesDevice, MemoryOfTheCallersFromAnyByteOn) {
    LoadedLibrary &lib = kernel({"chain_relu", "opencl", {}, blocks_of_256});
    auto view = reinterpret_cast<decltype(&kiln_view_opencl)>(lib.symbol("kiln_view_opencl"));
    auto release = reinterpret_cast<decltype(&kiln_view_release)>(lib.symbol("kiln_view_release"));
    cl_platform_id platform;
    cl_device_id device;
    clGetPlatformIDs(1, &platform, nullptr);
    clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, nullptr);
    cl_context context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, nullptr);
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, nullptr);
    kiln_call call = KILN_CALL_INIT;
    call.cl_queue = queue;
    const int64_t n = 300;
    for (uint64_t offset : {4, 12, 64, 128, 132}) {
        std::vector<float> host(400), result(400, -1);
        for (size_t i = 0; i < host.size(); i++) {
            host[i] = float(i % 17) - 8;
        }
        cl_mem x = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, 1600, host.data(), nullptr);
        cl_mem y = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, 1600, result.data(), nullptr);
        kiln_view vx, vy;
        int status = view(&vx, KILN_FLOAT32, x, offset, 1, &n, nullptr);
        ASSERT_EQ(status, KILN_OK) << lib.last_message();
        ASSERT_EQ(view(&vy, KILN_FLOAT32, y, offset, 1, &n, nullptr), KILN_OK) << lib.last_message();
        float a = 2, b = 0.5;
        void *arguments[] = {&vx.buffer, &a, &b, &vy.buffer};
        status = lib.call(&call, arguments);
        ASSERT_EQ(status, KILN_OK) << offset << ": " << lib.last_message();
        clEnqueueReadBuffer(queue, y, CL_TRUE, 0, 1600, result.data(), 0, nullptr, nullptr);
        for (size_t i = 0; i < 400; i++) {
            bool inside = i >= offset / 4 && i < offset / 4 + n;
            ASSERT_EQ(result[i], inside ? std::max(2 * host[i] + 0.5f, 0.0f) : -1.0f)
                << offset << " at " << i;
        }
        release(&call, &vx);
        release(&call, &vy);
        clReleaseMemObject(x);
        clReleaseMemObject(y);
    }
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
}

} // namespace
} // namespace kiln::test
