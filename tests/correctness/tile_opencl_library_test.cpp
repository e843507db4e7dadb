/** \file
 * Tile kernels in libraries for OpenCL, run on whatever device the loader finds (PoCL where tests run): alone, between
 * loops with a scalar, with a second output; crops, contracts, first calls, and what goes to the loops beside them.
 */
#define CL_TARGET_OPENCL_VERSION 120
#include "runtime_support.h"

#include <CL/cl.h>

#include "dsl/lower/Condition.h"
#include "kiln_tile.h"

#include <cmath>
#include <thread>

namespace kiln::test {
namespace {

const char *const product = R"(schedule product {
  op tile_product
  target opencl
  y.tile(n, m, no, mo, ni, mi, 32, 32).gpu_blocks(no, mo).tile_kernel().warpgroups(consumers = 1);
  acc.compute_at(y, no).store_in(Register);
  acc.update().split(k, ko, ki, 16).mma(fma);
  x.in(acc).compute_at(acc, ko).store_in(GPUShared);
  w.in(acc).compute_at(acc, ko).store_in(GPUShared).copy(plain);
}
)";
const char *const between = R"(schedule between {
  op tile_between
  target opencl
  before.compute_root().split(kk, ko, ki, 16).gpu_blocks(ko, m).gpu_threads(ki);
  y.compute_root().tile(n, m, no, mo, ni, mi, 32, 32).gpu_blocks(no, mo).tile_kernel().warpgroups(1);
  acc.compute_at(y, no).store_in(Register);
  acc.update().split(k, ko, ki, 16).mma(fma);
  before.in(acc).compute_at(acc, ko).store_in(GPUShared);
  w.in(acc).compute_at(acc, ko).store_in(GPUShared);
  z.split(n, no, ni, 16).gpu_blocks(no, m).gpu_threads(ni);
}
)";
const char *const two = R"(schedule two {
  op tile_two_outputs
  target opencl
  y.tile(n, m, no, mo, ni, mi, 128, 32).gpu_blocks(no, mo).tile_kernel().warpgroups(1);
  top.split(m, mo, mi, 32).rename(nb, no).reorder(mi, no, mo).gpu_blocks(no, mo).tile_kernel(y);
  acc.compute_at(y, no).store_in(Register);
  acc.update().split(k, ko, ki, 16).mma(fma);
  x.in(acc).compute_at(acc, ko).store_in(GPUShared);
  w.in(acc).compute_at(acc, ko).store_in(GPUShared);
}
)";

BuildRequest request(const std::string &generator, const std::string &schedule,
                     const std::filesystem::path &folder) {
    BuildRequest r;
    r.generator = generator;
    r.load = {std::string(KILN_BINARY_DIR) + "/lib/kiln_tile_generators.so"};
    r.output_dir = folder;
    VariantRequest v;
    v.target = Target::parse("opencl");
    v.schedule_text = schedule;
    r.variants = {v};
    return r;
}

LoadedLibrary fresh(const std::string &generator, const std::string &schedule) {
    TemporaryFolder folder;
    return load(request(generator, schedule, folder.path()));
}

float from_bits(uint16_t bits) {
    const uint32_t wide = uint32_t(bits) << 16;
    float f;
    std::memcpy(&f, &wide, 4);
    return f;
}
uint16_t to_bits(float f) {
    uint32_t wide;
    std::memcpy(&wide, &f, 4);
    return static_cast<uint16_t>((wide + 0x7fff + (wide >> 16 & 1)) >> 16);
}

/// Small integers, of which bfloat16 and every sum here are exact.
void draw(Array<uint16_t> &a, int seed) {
    a.fill(0);
    for (int64_t j = 0; j < a.view.dim[1].extent; j++) {
        for (int64_t i = 0; i < a.view.dim[0].extent; i++) {
            a.at(i, j) = to_bits(static_cast<float>((i * 7 + j * 5 + seed) % 5 - 2));
        }
    }
    a.view.buffer.type = halide_type_t(halide_type_bfloat, 16);
}

float sum(Array<uint16_t> &x, Array<uint16_t> &w, int64_t n, int64_t m) {
    float s = 0;
    for (int64_t k = 0; k < x.view.dim[0].extent; k++) {
        s += from_bits(x.at(k, m)) * from_bits(w.at(k, n));
    }
    return s;
}

class TileOpenCLLibrary : public ::testing::Test {
protected:
    void SetUp() override {
        cl_uint count = 0;
        if (clGetPlatformIDs(0, nullptr, &count) != CL_SUCCESS || count == 0) {
            GTEST_SKIP() << "no OpenCL platform on this machine";
        }
    }
    /// y = x w for sizes with rows of whole 16 bytes; the choice that was made.
    std::string multiply(LoadedLibrary &lib, int64_t k, int64_t n, int64_t m, int64_t stride = 0) {
        stride = stride ? stride : (std::max<int64_t>(k, 1) + 7) / 8 * 8;
        Array<uint16_t> x({k, m}, {1, stride}), w({k, n}, {1, stride}), y({n, m}, {1, (n + 7) / 8 * 8});
        draw(x, 1);
        draw(w, 2);
        y.view.buffer.type = x.view.buffer.type;
        void *arguments[] = {x.buffer(), w.buffer(), y.buffer()};
        EXPECT_EQ(lib.call(nullptr, arguments), KILN_OK) << lib.last_message();
        const std::string choice = lib.last_choice();
        EXPECT_EQ(lib.copy_to_host(nullptr, y.buffer()), 0) << lib.last_message();
        for (int64_t j = 0; j < m; j++) {
            for (int64_t i = 0; i < n; i++) {
                const float want = from_bits(to_bits(sum(x, w, i, j)));
                if (from_bits(y.at(i, j)) != want) {
                    ADD_FAILURE() << "(" << i << ", " << j << ") of " << n << "x" << m << "x" << k << " is "
                                  << from_bits(y.at(i, j)) << ", not " << want << ": " << choice;
                    j = m;
                    break;
                }
            }
        }
        EXPECT_TRUE(y.guards_untouched());
        for (Array<uint16_t> *a : {&x, &w, &y}) {
            lib.device_free(nullptr, a->buffer());
        }
        return choice;
    }
    static LoadedLibrary &products() {
        static LoadedLibrary lib = fresh("tile_product", product);
        return lib;
    }
};

TEST_F(TileOpenCLLibrary, WholeAndRaggedSizes) {
    LoadedLibrary &lib = products();
    for (auto [k, n, m] : {std::tuple(64, 64, 64), std::tuple(40, 72, 33), std::tuple(8, 8, 1),
                           std::tuple(17, 31, 47), std::tuple(1, 1, 1), std::tuple(0, 16, 3)}) {
        EXPECT_EQ(multiply(lib, k, n, m), "tile_product: `opencl`, schedule `product`");
    }
}

/// Rows that begin at odd places go to the loops, which say why.
TEST_F(TileOpenCLLibrary, LoopsTakeTheRest) {
    const std::string choice = multiply(products(), 40, 24, 9, 45);
    EXPECT_EQ(choice,
              "tile_product: `opencl`, schedule `default_opencl`; passed over: `opencl`: stride 1 of `w` "
              "is 45, no multiple of 8");
}

TEST_F(TileOpenCLLibrary, CropsOfDeviceMemory) {
    LoadedLibrary &lib = products();
    cl_platform_id platform = nullptr;
    cl_device_id device = nullptr;
    clGetPlatformIDs(1, &platform, nullptr);
    clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, nullptr);
    cl_context context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, nullptr);
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, nullptr);
    Array<uint16_t> x({64, 40}), w({64, 48}), y({48, 40});
    draw(x, 3);
    draw(w, 4);
    auto memory = [&](Array<uint16_t> &a, int64_t elements) {
        return clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                              static_cast<size_t>(elements) * 2, a.data(), nullptr);
    };
    cl_mem mx = memory(x, 64 * 40), mw = memory(w, 64 * 48), my = memory(y, 48 * 40);
    // Rows 8 to 39 of x (at byte 1024, which devices can address), and rows 4 to 35 of y (at byte 384).
    kiln_view vx, vw, vy;
    const int64_t ex[] = {64, 32}, ew[] = {64, 48}, ey[] = {48, 32};
    kiln_view_opencl(&vx, KILN_BFLOAT16, mx, 1024, 2, ex, nullptr);
    kiln_view_opencl(&vw, KILN_BFLOAT16, mw, 0, 2, ew, nullptr);
    kiln_view_opencl(&vy, KILN_BFLOAT16, my, 384, 2, ey, nullptr);
    auto interface = reinterpret_cast<const halide_device_interface_t *(*)()>(
        lib.symbol("halide_opencl_device_interface"));
    for (kiln_view *v : {&vx, &vw, &vy}) {
        v->buffer.device_interface = interface();
    }
    kiln_call call = KILN_CALL_INIT;
    call.cl_context = context;
    call.cl_queue = queue;
    void *arguments[] = {&vx.buffer, &vw.buffer, &vy.buffer};
    ASSERT_EQ(lib.call(&call, arguments), KILN_OK) << lib.last_message();
    EXPECT_EQ(lib.last_choice(), "tile_product: `opencl`, schedule `product`");
    std::vector<uint16_t> got(48 * 40);
    clEnqueueReadBuffer(queue, my, CL_TRUE, 0, got.size() * 2, got.data(), 0, nullptr, nullptr);
    for (int64_t j = 0; j < 40; j++) {
        for (int64_t i = 0; i < 48; i++) {
            const bool written = j >= 4 && j < 36;
            const uint16_t want = written ? to_bits(sum(x, w, i, j + 4)) : y.at(i, j);
            ASSERT_EQ(got[static_cast<size_t>(j * 48 + i)], want) << i << ", " << j;
        }
    }
    for (cl_mem m : {mx, mw, my}) {
        clReleaseMemObject(m);
    }
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
}

TEST_F(TileOpenCLLibrary, ContractsBeforeTheLaunch) {
    LoadedLibrary &lib = products();
    Array<uint16_t> x({64, 30}), w({64, 40}), y({48, 30});
    draw(x, 1);
    draw(w, 2);
    y.view.buffer.type = x.view.buffer.type;
    void *arguments[] = {x.buffer(), w.buffer(), y.buffer()};
    EXPECT_EQ(lib.call(nullptr, arguments), KILN_INVALID_ARGUMENT);
    EXPECT_EQ(lib.last_message(),
              "tile_product: `w` has 0 to 39 in dimension 1, but the kernel reads 0 to 47 of it");
    EXPECT_TRUE(y.untouched());
    for (Array<uint16_t> *a : {&x, &w, &y}) {
        lib.device_free(nullptr, a->buffer());
    }
}

TEST_F(TileOpenCLLibrary, PreparedAndCalledByManyThreads) {
    LoadedLibrary lib = fresh("tile_product", product);
    EXPECT_EQ(lib.prepare(nullptr), KILN_OK) << lib.last_message();
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; t++) {
        threads.emplace_back([&, t] {
            EXPECT_EQ(multiply(lib, 24 + 8 * t, 40, 20 + t), "tile_product: `opencl`, schedule `product`");
        });
    }
    for (std::thread &t : threads) {
        t.join();
    }
}

/// A tile variant for one kind of device before loops for all: the device of the call's queue decides, for first calls too.
TEST_F(TileOpenCLLibrary, ByKindOfDevice) {
    cl_platform_id platform = nullptr;
    cl_device_id device = nullptr;
    cl_device_type type = 0;
    clGetPlatformIDs(1, &platform, nullptr);
    clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, nullptr);
    clGetDeviceInfo(device, CL_DEVICE_TYPE, sizeof(type), &type, nullptr);
    const std::string own = type & CL_DEVICE_TYPE_CPU ? "cpu" : "gpu", other = own == "cpu" ? "gpu" : "cpu";
    auto built = [&](const std::string &kind, const std::filesystem::path &folder) {
        BuildRequest r = request("tile_product", product, folder);
        r.variants[0].conditions = {*parse_condition("device.is(" + kind + ")")};
        return load(r);
    };
    TemporaryFolder folder;
    LoadedLibrary here = built(own, folder.path() / "here"),
                  elsewhere = built(other, folder.path() / "there");
    EXPECT_EQ(multiply(here, 40, 72, 33), "tile_product: `opencl`, schedule `product`");
    const std::string why = "`opencl`: the OpenCL device is of kind `" + own + "`, not `" + other + "`";
    EXPECT_EQ(multiply(elsewhere, 40, 72, 33),
              "tile_product: `opencl`, schedule `default_opencl`; passed over: " + why);
    EXPECT_NE(std::string(elsewhere.info().json).find("\"what\": \"device_is\""), std::string::npos);
    EXPECT_NE(std::string(elsewhere.info().json).find("\"kind\": \"" + other + "\""), std::string::npos);
    cl_uint width = 0;
    clGetDeviceInfo(device, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, sizeof(width), &width, nullptr);
    for (cl_uint need : {width, width + 1}) {
        BuildRequest r = request("tile_product", product, folder.path() / std::to_string(need));
        r.variants[0].conditions = {*parse_condition("device.vector(" + std::to_string(need) + ")")};
        LoadedLibrary lib = load(r);
        EXPECT_EQ(multiply(lib, 24, 32, 8),
                  need == width
                      ? "tile_product: `opencl`, schedule `product`"
                      : "tile_product: `opencl`, schedule `default_opencl`; passed over: `opencl`: the "
                        "OpenCL device's vectors hold " +
                            std::to_string(width) + " float32, below " + std::to_string(need));
    }
    EXPECT_EQ(elsewhere.prepare(nullptr), KILN_OK) << elsewhere.last_message();
    // Nothing is prepared that this device would never run.
    kiln_entry_library tile_only = elsewhere.info();
    tile_only.variant_count = 1;
    auto prepare = reinterpret_cast<int (*)(const kiln_entry_library *, const kiln_call *)>(
        elsewhere.symbol("kiln_entry_prepare"));
    EXPECT_EQ(prepare(&tile_only, nullptr), KILN_NO_DEVICE);
    EXPECT_EQ(elsewhere.last_message(), "tile_product: " + why);
    // The caller's own queue is asked, not the runtime's.
    cl_context context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, nullptr);
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, nullptr);
    kiln_call call = KILN_CALL_INIT;
    call.cl_context = context;
    call.cl_queue = queue;
    EXPECT_EQ(prepare(&tile_only, &call), KILN_NO_DEVICE);
    EXPECT_EQ(here.prepare(&call), KILN_OK) << here.last_message();
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
}

const std::string schedules = KILN_SOURCE_DIR "/schedules";

/// Products of small integers, of which float32 is exact; the choice that was made.
std::string multiply_floats(LoadedLibrary &lib, int64_t k, int64_t n, int64_t m) {
    Array<float> x({k, m}), w({n, k}), y({n, m});
    x.fill(3);
    w.fill(5);
    void *arguments[] = {x.buffer(), w.buffer(), y.buffer()};
    EXPECT_EQ(lib.call(nullptr, arguments), KILN_OK) << lib.last_message();
    const std::string choice = lib.last_choice();
    EXPECT_EQ(lib.copy_to_host(nullptr, y.buffer()), 0) << lib.last_message();
    int wrong = 0;
    for (int64_t j = 0; j < m; j++) {
        for (int64_t i = 0; i < n; i++) {
            float want = 0;
            for (int64_t l = 0; l < k; l++) {
                want += x.at(l, j) * w.at(i, l);
            }
            wrong += y.at(i, j) != want;
        }
    }
    EXPECT_EQ(wrong, 0) << n << "x" << m << "x" << k << ": " << choice;
    EXPECT_TRUE(y.guards_untouched());
    for (Array<float> *a : {&x, &w, &y}) {
        lib.device_free(nullptr, a->buffer());
    }
    return choice;
}

/// The schedules that ship for some devices only, forced on this one: whole, ragged and small sizes.
TEST_F(TileOpenCLLibrary, ShippedProducts) {
    for (const char *stem : {"opencl_tile", "opencl_cpu", "opencl_cpu_padded"}) {
        TemporaryFolder folder;
        BuildRequest r;
        r.generator = "gemm";
        r.params = {{"type", "float32"}};
        r.load = {std::string(KILN_BINARY_DIR) + "/lib/kiln_generators.so"};
        r.output_dir = folder.path();
        r.variants.resize(2);
        r.variants[0].target = r.variants[1].target = Target::parse("opencl");
        r.variants[0].schedule_file = schedules + "/gemm/" + stem + ".sched";
        r.variants[0].schedule_text = read_text_file(r.variants[0].schedule_file, "schedule");
        r.variants[0].conditions = {*parse_condition("w.extent(1) >= 1")};
        LoadedLibrary lib = load(r);
        const std::string chosen = std::string("gemm: `opencl`, schedule `gemm_") + stem + "`";
        for (auto [k, n, m] : {std::tuple(64, 128, 128), std::tuple(36, 132, 129), std::tuple(40, 260, 7),
                               std::tuple(4, 44, 70), std::tuple(100, 96, 105), std::tuple(4, 4, 1)}) {
            EXPECT_EQ(multiply_floats(lib, k, n, m), chosen);
        }
        for (auto [k, n, m] : {std::tuple(37, 53, 29), std::tuple(5, 131, 97), std::tuple(0, 64, 9)}) {
            multiply_floats(lib, k, n, m);
        }
    }
}

/// The folder's choice follows the device.
TEST_F(TileOpenCLLibrary, ShippedProductsByDevice) {
    cl_platform_id platform = nullptr;
    cl_device_id device = nullptr;
    cl_device_type type = 0;
    cl_uint width = 0;
    clGetPlatformIDs(1, &platform, nullptr);
    clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, nullptr);
    clGetDeviceInfo(device, CL_DEVICE_TYPE, sizeof(type), &type, nullptr);
    clGetDeviceInfo(device, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, sizeof(width), &width, nullptr);
    TemporaryFolder folder;
    BuildRequest r;
    r.generator = "gemm";
    r.params = {{"type", "float32"}, {"transpose_w", "false"}};
    r.load = {std::string(KILN_BINARY_DIR) + "/lib/kiln_generators.so"};
    r.output_dir = folder.path();
    VariantRequest all;
    all.target = Target::parse("opencl");
    all.schedule_file = schedules;
    r.variants = {all};
    LoadedLibrary lib = load(r);
    const bool wide = type & CL_DEVICE_TYPE_CPU && width >= 16, gpu = type & CL_DEVICE_TYPE_GPU;
    auto schedule = [&](int64_t k, int64_t n, int64_t m) {
        const std::string choice = multiply_floats(lib, k, n, m), before = "schedule `";
        const size_t at = choice.find(before) + before.size();
        return choice.substr(at, choice.find('`', at) - at);
    };
    EXPECT_EQ(schedule(16, 768, 64), wide ? "gemm_opencl_cpu_padded" : "gemm_opencl");
    EXPECT_EQ(schedule(16, 128, 128), wide ? "gemm_opencl_cpu" : gpu ? "gemm_opencl_tile" : "gemm_opencl");
    EXPECT_EQ(schedule(16, 40, 40), "gemm_opencl");
    EXPECT_EQ(schedule(0, 768, 64), wide ? "gemm_opencl_cpu" : "gemm_opencl");
}

/// One context of two devices, or of two parts of the only one: each has a program of its own.
TEST_F(TileOpenCLLibrary, EveryDeviceOfAContext) {
    cl_platform_id platform = nullptr;
    cl_device_id device = nullptr, parts[64];
    cl_uint count = 0;
    clGetPlatformIDs(1, &platform, nullptr);
    clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, nullptr);
    const cl_device_partition_property each[] = {CL_DEVICE_PARTITION_EQUALLY, 1, 0};
    clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 64, parts, &count);
    if (count < 2 && (clCreateSubDevices(device, each, 64, parts, &count) != CL_SUCCESS || count < 2)) {
        GTEST_SKIP() << "one OpenCL device, which cannot be parted";
    }
    LoadedLibrary lib = fresh("tile_product", product);
    auto interface = reinterpret_cast<const halide_device_interface_t *(*)()>(
        lib.symbol("halide_opencl_device_interface"));
    cl_context context = clCreateContext(nullptr, 2, parts, nullptr, nullptr, nullptr);
    Array<uint16_t> x({64, 40}), w({64, 48});
    draw(x, 3);
    draw(w, 4);
    for (int turn : {0, 1, 0}) {
        cl_command_queue queue = clCreateCommandQueue(context, parts[turn], 0, nullptr);
        Array<uint16_t> y({48, 40});
        auto memory = [&](Array<uint16_t> &a, size_t elements) {
            return clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, elements * 2, a.data(), nullptr);
        };
        cl_mem memories[] = {memory(x, 64 * 40), memory(w, 64 * 48), memory(y, 48 * 40)};
        const int64_t extents[][2] = {{64, 40}, {64, 48}, {48, 40}};
        kiln_view views[3];
        for (int i = 0; i < 3; i++) {
            kiln_view_opencl(&views[i], KILN_BFLOAT16, memories[i], 0, 2, extents[i], nullptr);
            views[i].buffer.device_interface = interface();
        }
        kiln_call call = KILN_CALL_INIT;
        call.cl_context = context;
        call.cl_queue = queue;
        EXPECT_EQ(lib.prepare(&call), KILN_OK) << lib.last_message();
        void *arguments[] = {&views[0].buffer, &views[1].buffer, &views[2].buffer};
        ASSERT_EQ(lib.call(&call, arguments), KILN_OK) << lib.last_message();
        EXPECT_EQ(lib.last_choice(), "tile_product: `opencl`, schedule `product`");
        std::vector<uint16_t> got(48 * 40);
        clEnqueueReadBuffer(queue, memories[2], CL_TRUE, 0, got.size() * 2, got.data(), 0, nullptr, nullptr);
        for (int64_t j = 0; j < 40; j++) {
            for (int64_t i = 0; i < 48; i++) {
                ASSERT_EQ(got[static_cast<size_t>(j * 48 + i)], to_bits(sum(x, w, i, j))) << i << ", " << j;
            }
        }
        for (cl_mem m : memories) {
            clReleaseMemObject(m);
        }
        clReleaseCommandQueue(queue);
    }
    clReleaseContext(context);
    clReleaseDevice(parts[0]);
    clReleaseDevice(parts[1]);
}

/// Calls make up for an offset by a copy; a launch of its own says what is wrong.
TEST_F(TileOpenCLLibrary, OffsetsThatTheDeviceCannotAddress) {
    LoadedLibrary &lib = products();
    auto launch = reinterpret_cast<decltype(&kiln_tile_launch)>(lib.symbol("kiln_tile_launch"));
    cl_platform_id platform = nullptr;
    cl_device_id device = nullptr;
    clGetPlatformIDs(1, &platform, nullptr);
    clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, nullptr);
    cl_context context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, nullptr);
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, nullptr);
    cl_uint unit = 0;
    char name[128] = "";
    clGetDeviceInfo(device, CL_DEVICE_MEM_BASE_ADDR_ALIGN, sizeof(unit), &unit, nullptr);
    clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof(name), name, nullptr);
    cl_mem memory = clCreateBuffer(context, 0, 4096, nullptr, nullptr);
    kiln_view view;
    const int64_t extents[] = {64, 8};
    kiln_view_opencl(&view, KILN_BFLOAT16, memory, 6, 2, extents, nullptr);
    view.buffer.device_interface = reinterpret_cast<const halide_device_interface_t *(*)()>(
        lib.symbol("halide_opencl_device_interface"))();
    kiln_tile_view x = {};
    x.name = "x";
    x.buffer = &view.buffer;
    x.element = KILN_TILE_BFLOAT16;
    kiln_tile_param pointer = {};
    pointer.kind = KILN_TILE_POINTER;
    const int64_t grid = 1;
    kiln_call call = KILN_CALL_INIT;
    call.cl_context = context;
    call.cl_queue = queue;
    EXPECT_EQ(launch(&call, lib.info().variants[0].tiles[0], &x, 1, &grid, 1, &pointer, 1),
              KILN_INVALID_ARGUMENT);
    EXPECT_EQ(lib.last_message(),
              std::string("`x` of the tile kernel of `y` begins 6 bytes into its cl_mem, where `") + name +
                  "` addresses multiples of " + std::to_string(unit / 8) +
                  " bytes: let it begin at one, or copy it into memory of its own");
    clReleaseMemObject(memory);
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
}

TEST_F(TileOpenCLLibrary, BetweenLoopsWithAScalar) {
    LoadedLibrary lib = fresh("tile_between", between);
    Array<float> x({40, 35}), z({56, 35});
    Array<uint16_t> w({40, 56}), twice({40, 35});
    draw(w, 3);
    draw(twice, 6);
    for (int64_t m = 0; m < 35; m++) {
        for (int64_t k = 0; k < 40; k++) {
            x.at(k, m) = from_bits(twice.at(k, m));
        }
    }
    float scale = 2.5f;
    void *arguments[] = {x.buffer(), w.buffer(), &scale, z.buffer()};
    ASSERT_EQ(lib.call(nullptr, arguments), KILN_OK) << lib.last_message();
    EXPECT_EQ(lib.last_choice(), "tile_between: `opencl`, schedule `between`");
    ASSERT_EQ(lib.copy_to_host(nullptr, z.buffer()), 0);
    for (int64_t m = 0; m < 35; m++) {
        for (int64_t n = 0; n < 56; n++) {
            ASSERT_EQ(z.at(n, m), 2.5f * 2 * sum(twice, w, n, m) + 1) << n << ", " << m;
        }
    }
    lib.device_free(nullptr, x.buffer());
    lib.device_free(nullptr, w.buffer());
    lib.device_free(nullptr, z.buffer());
}

TEST_F(TileOpenCLLibrary, TwoOutputs) {
    LoadedLibrary lib = fresh("tile_two_outputs", two);
    Array<uint16_t> x({32, 40}), w({32, 256}), y({256, 40});
    Array<float> top({2, 40});
    draw(x, 1);
    draw(w, 2);
    y.view.buffer.type = x.view.buffer.type;
    void *arguments[] = {x.buffer(), w.buffer(), y.buffer(), top.buffer()};
    ASSERT_EQ(lib.call(nullptr, arguments), KILN_OK) << lib.last_message();
    EXPECT_EQ(lib.last_choice(), "tile_two_outputs: `opencl`, schedule `two`");
    ASSERT_EQ(lib.copy_to_host(nullptr, y.buffer()), 0);
    ASSERT_EQ(lib.copy_to_host(nullptr, top.buffer()), 0);
    for (int64_t m = 0; m < 40; m++) {
        for (int64_t b = 0; b < 2; b++) {
            float most = -INFINITY;
            for (int64_t n = 128 * b; n < 128 * (b + 1); n++) {
                most = std::max(most, sum(x, w, n, m));
                ASSERT_EQ(y.at(n, m), to_bits(sum(x, w, n, m)));
            }
            ASSERT_EQ(top.at(b, m), most);
        }
    }
    for (halide_buffer_t *b : {x.buffer(), w.buffer(), y.buffer(), top.buffer()}) {
        lib.device_free(nullptr, b);
    }
}

TEST_F(TileOpenCLLibrary, ReleasedWithItsContext) {
    LoadedLibrary lib = fresh("tile_product", product);
    multiply(lib, 16, 16, 16);
    auto release = reinterpret_cast<int (*)(const kiln_call *, const halide_device_interface_t *)>(
        lib.symbol("kiln_release_context"));
    auto interface = reinterpret_cast<const halide_device_interface_t *(*)()>(
        lib.symbol("halide_opencl_device_interface"));
    EXPECT_EQ(release(nullptr, interface()), 0);
    EXPECT_EQ(multiply(lib, 16, 16, 16), "tile_product: `opencl`, schedule `product`");
}

} // namespace
} // namespace kiln::test
