/** \file
 * A tile kernel is a Func like any other in a library: alone, between loops, with a second output. What reaches a
 * driver that computes nothing, which calls are refused, and which go to the loops beside it.
 */
#include "runtime_support.h"
#include "tests/support/fake_cuda.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <thread>

#include <dlfcn.h>

namespace kiln::test {
namespace {

const char *const inside = R"(
  acc.compute_at(y, no).store_in(Register);
  acc.update().split(k, ko, ki, 64).mma(wgmma);
  w.in(acc).compute_at(acc, ko).store_in(GPUShared).copy(tma).swizzle(128).stages(4);
)";

std::string product_schedule() {
    return std::string(
               "schedule product {\n  op tile_product\n  target cuda sm_90a\n"
               "  y.tile(n, m, no, mo, ni, mi, 128, 128).gpu_blocks(no, mo).tile_kernel();\n"
               "  y.persistent(8).warpgroups(consumers = 2, producers = 1);\n"
               "  x.in(acc).compute_at(acc, ko).store_in(GPUShared).copy(tma).swizzle(128).stages(4);\n") +
           inside + "}\n";
}

std::string between_schedule() {
    return std::string(
               "schedule between {\n  op tile_between\n  target cuda sm_90a\n"
               "  before.compute_root().split(kk, ko, ki, 64).gpu_blocks(ko, m).gpu_threads(ki);\n"
               "  y.compute_root().tile(n, m, no, mo, ni, mi, 128, 128).gpu_blocks(no, mo).tile_kernel();\n"
               "  before.in(acc).compute_at(acc, ko).store_in(GPUShared).copy(tma).swizzle(128).stages(4);\n"
               "  z.split(n, no, ni, 64).gpu_blocks(no, m).gpu_threads(ni);\n") +
           inside + "}\n";
}

std::string two_schedule() {
    return std::string(
               "schedule two {\n  op tile_two_outputs\n  target cuda sm_90a\n"
               "  y.tile(n, m, no, mo, ni, mi, 128, 128).gpu_blocks(no, mo).tile_kernel();\n"
               "  top.split(m, mo, mi, 128).rename(nb, no).reorder(mi, no, mo).gpu_blocks(no, mo)"
               ".tile_kernel(y);\n"
               "  x.in(acc).compute_at(acc, ko).store_in(GPUShared).copy(tma).swizzle(128).stages(4);\n") +
           inside + "}\n";
}

BuildRequest request(const std::string &generator, const std::string &schedule,
                     const std::filesystem::path &folder) {
    BuildRequest r;
    r.generator = generator;
    r.load = {std::string(KILN_BINARY_DIR) + "/lib/kiln_tile_generators.so"};
    r.output_dir = folder;
    VariantRequest v;
    v.target = Target::parse("cuda sm_90a");
    v.schedule_text = schedule;
    r.variants = {v};
    return r;
}

/// Each built once a process.
LoadedLibrary &tile_library(const std::string &generator, const std::string &schedule) {
    static std::map<std::string, LoadedLibrary> loaded;
    auto it = loaded.find(generator);
    if (it == loaded.end()) {
        TemporaryFolder folder;
        it = loaded.emplace(generator, load(request(generator, schedule, folder.path()))).first;
    }
    return it->second;
}

fake_cuda *fake = nullptr;

/// A buffer on the device, which here is host memory: aligned, with rows of `stride` elements.
class OnDevice {
public:
    OnDevice(kiln_type type, int bytes, std::vector<int64_t> extents, int64_t stride = 0, int64_t skip = 0)
        : memory(1 << 20) {
        char *start = memory.data() + (256 - reinterpret_cast<uintptr_t>(memory.data()) % 256);
        std::vector<int64_t> strides = {1, stride ? stride : extents[0]};
        kiln_view_cuda(&view, type, start + skip * bytes, 2, extents.data(), strides.data());
        view.buffer.set_device_dirty(true);
    }
    void begin_at(int first, int second) {
        view.dim[0].min = first;
        view.dim[1].min = second;
    }
    halide_buffer_t *buffer() { return &view.buffer; }
    std::vector<char> memory;
    kiln_view view;
};

class TileLibrary : public ::testing::Test {
protected:
    TileLibrary() {
        static void *driver = dlopen(KILN_BINARY_DIR "/lib/libkiln_fake_cuda.so", RTLD_NOW | RTLD_GLOBAL);
        fake = static_cast<fake_cuda *>(dlsym(driver, "fake_cuda"));
        *fake = {};
        fake->capability = 90;
        fake->driver_version = 13000;
        fake->device_count = 1;
    }
    static LoadedLibrary &product() { return tile_library("tile_product", product_schedule()); }

    /// y(n, m) of x(k, m) and w(k, n).
    int call(LoadedLibrary &lib, OnDevice &x, OnDevice &w, OnDevice &y, const kiln_call *how = nullptr) {
        void *arguments[] = {x.buffer(), w.buffer(), y.buffer()};
        return call(lib, {&x, &w, &y}, arguments, how);
    }
    /// Device memory is known by the library's own runtime.
    int call(LoadedLibrary &lib, std::vector<OnDevice *> buffers, void **arguments,
             const kiln_call *how = nullptr) {
        auto interface = reinterpret_cast<const halide_device_interface_t *(*)()>(
            lib.symbol("halide_cuda_device_interface"));
        for (OnDevice *b : buffers) {
            b->view.buffer.device_interface = interface();
        }
        return lib.call(how, arguments);
    }
    std::string why_not(LoadedLibrary &lib) {
        std::string text = lib.last_choice();
        size_t at = text.find("passed over: ");
        return at == std::string::npos ? "" : text.substr(at + 13);
    }
};

OnDevice bf16(std::vector<int64_t> extents, int64_t stride = 0, int64_t skip = 0) {
    return OnDevice(KILN_BFLOAT16, 2, std::move(extents), stride, skip);
}

TEST_F(TileLibrary, RunsTheKernel) {
    static fake_tensor_map maps[3];
    fake->kernel = [](const fake_launch_config *, void **p) {
        for (int i = 0; i < 3; i++) {
            memcpy(&maps[i], p[i], sizeof(maps[i]));
        }
    };
    LoadedLibrary &lib = product();
    OnDevice x = bf16({200, 300}), w = bf16({200, 400}), y = bf16({400, 300});
    static char stream;
    kiln_call how = KILN_CALL_INIT;
    how.cuda_stream = &stream;
    ASSERT_EQ(call(lib, x, w, y, &how), KILN_OK) << lib.last_message();
    EXPECT_EQ(lib.last_choice(), "tile_product: `cuda sm_90a`, schedule `product`");
    EXPECT_EQ(fake->tile_launches, 1);
    EXPECT_EQ(fake->launches, 0);
    EXPECT_EQ(fake->config.grid[0], 4u * 3u);
    EXPECT_EQ(fake->config.block[0], 384u);
    EXPECT_EQ(fake->launch_stream, &stream);
    EXPECT_TRUE(y.view.buffer.device_dirty());
    EXPECT_EQ(fake->allocs + fake->async_allocs, 0);
    // Each buffer's descriptor is among them, as wide and as high as the buffer.
    for (OnDevice *b : {&x, &w, &y}) {
        bool found = false;
        for (const fake_tensor_map &m : maps) {
            found |= m.address == b->view.buffer.device && m.type == 9 && m.rank == 2 &&
                     m.extents[0] == static_cast<uint32_t>(b->view.dim[0].extent) &&
                     m.extents[1] == static_cast<uint32_t>(b->view.dim[1].extent) &&
                     m.strides[0] == static_cast<uint32_t>(b->view.dim[1].stride) * 2;
        }
        EXPECT_TRUE(found);
    }
    fake->processors = 2;
    how.cuda_stream = nullptr;
    ASSERT_EQ(call(lib, x, w, y, &how), KILN_OK) << lib.last_message();
    EXPECT_EQ(fake->config.grid[0], 2u) << "as many blocks as run at once";
}

/// A sum that blocks share: counters that start at zero and a workspace, both of the launch's own, as NAME_workspace says.
TEST_F(TileLibrary, SharedSums) {
    TemporaryFolder folder;
    std::string schedule = product_schedule();
    const std::string product_of = ".mma(wgmma)";
    schedule.replace(schedule.find(product_of), product_of.size(), product_of + ".split_reduce(3)");
    LoadedLibrary lib = load(request("tile_product", schedule, folder.path()));
    OnDevice x = bf16({200, 300}), w = bf16({200, 400}), y = bf16({400, 300});
    struct Taken {
        int64_t live = 0, peak = 0;
        int blocks = 0;
    } taken;
    kiln_call how = KILN_CALL_INIT;
    how.user = &taken;
    how.alloc = [](const kiln_call *given, size_t bytes, size_t alignment, int) -> void * {
        Taken &t = *static_cast<Taken *>(given->user);
        t.live += static_cast<int64_t>(bytes);
        t.peak = std::max(t.peak, t.live);
        t.blocks++;
        return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    };
    how.free = [](const kiln_call *given, void *memory, size_t bytes, int) {
        static_cast<Taken *>(given->user)->live -= static_cast<int64_t>(bytes);
        std::free(memory);
    };
    ASSERT_EQ(call(lib, x, w, y, &how), KILN_OK) << lib.last_message();
    EXPECT_EQ(fake->tile_launches, 1);
    EXPECT_EQ(fake->config.grid[0], 4u * 3u * 3u);
    EXPECT_EQ(fake->memsets, 1) << "of the counters";
    EXPECT_EQ(taken.blocks, 2);
    EXPECT_EQ(taken.live, 0);
    void *arguments[] = {x.buffer(), w.buffer(), y.buffer()};
    kiln_workspace said;
    auto ask = reinterpret_cast<decltype(&kiln_entry_workspace)>(lib.symbol("kiln_entry_workspace"));
    ASSERT_EQ(ask(&lib.info(), &how, arguments, &said), KILN_OK) << lib.last_message();
    const int64_t tiles = 4 * 3;
    EXPECT_EQ(said.device_bytes, tiles * 4 + tiles * 3 * 128 * 128 * 4);
    EXPECT_EQ(taken.peak, said.device_bytes);
}

/// Copies before the kernel lie as TMA wants them, wherever x and w lie; each by a launch of its own, or both by one.
TEST_F(TileLibrary, CopiesRowsThatTmaCannotTake) {
    const std::string loops =
        ".compute_root().split(_0, b, i, 512, GuardWithIf).split(i, u, t, 128).reorder(t, u, b, _1).unroll(u)"
        ".gpu_blocks(b, _1).gpu_threads(t);\n";
    const std::string schedule =
        "schedule padded {\n  op tile_product\n  target cuda sm_90a\n"
        "  y.tile(n, m, no, mo, ni, mi, 128, 128).gpu_blocks(no, mo).tile_kernel().epilogue(direct);\n"
        "  acc.compute_at(y, no).store_in(Register);\n"
        "  acc.update().split(k, ko, ki, 64).mma(wgmma);\n"
        "  x.in(acc)" +
        loops + "  w.in(acc)" + loops;
    int tiles = 0;
    for (const auto &[more, copies] : {std::pair{"", 2}, {"  w.in(acc).compute_with(x.in(acc), t);\n", 1}}) {
        TemporaryFolder folder;
        LoadedLibrary lib = load(request("tile_product", schedule + more + "}\n", folder.path()));
        OnDevice x = bf16({203, 300}, 205, 1), w = bf16({203, 401}, 207, 3), y = bf16({401, 300}, 403, 1);
        const int before = fake->launches;
        ASSERT_EQ(call(lib, x, w, y), KILN_OK) << lib.last_message();
        EXPECT_EQ(fake->launches - before, copies);
        EXPECT_EQ(fake->tile_launches, ++tiles) << lib.last_choice();
        EXPECT_EQ(lib.last_choice().find("passed over"), std::string::npos) << lib.last_choice();
    }
}

TEST_F(TileLibrary, HostBuffersAreCopied) {
    LoadedLibrary &lib = product();
    Array<uint16_t> x({64, 32}), w({64, 48}), y({48, 32});
    void *arguments[] = {x.buffer(), w.buffer(), y.buffer()};
    ASSERT_EQ(lib.call(nullptr, arguments), KILN_OK) << lib.last_message();
    EXPECT_EQ(fake->tile_launches, 1);
    EXPECT_NE(y.buffer()->device, 0u);
    EXPECT_TRUE(y.buffer()->device_dirty());
    for (Array<uint16_t> *a : {&x, &w, &y}) {
        lib.device_free(nullptr, a->buffer());
    }
}

TEST_F(TileLibrary, PrepareLoadsTheModules) {
    LoadedLibrary &lib = product();
    static char context;
    kiln_call how = KILN_CALL_INIT;
    how.cuda_context = &context;
    ASSERT_EQ(lib.prepare(&how), KILN_OK) << lib.last_message();
    int loads = fake->loads;
    EXPECT_EQ(loads, 2) << "the tile kernel's, and that of the loops beside it";
    OnDevice x = bf16({64, 32}), w = bf16({64, 48}), y = bf16({48, 32});
    ASSERT_EQ(call(lib, x, w, y, &how), KILN_OK) << lib.last_message();
    EXPECT_EQ(fake->loads, loads);
}

/// Shorter and shifted operands are refused before anything runs; larger ones are none of the kernel's business.
TEST_F(TileLibrary, RequiredBoxes) {
    LoadedLibrary &lib = product();
    OnDevice x = bf16({200, 300}), y = bf16({400, 300});
    OnDevice few_columns = bf16({200, 399}), short_rows = bf16({192, 400}), large = bf16({208, 500});
    EXPECT_EQ(call(lib, x, few_columns, y), KILN_INVALID_ARGUMENT);
    EXPECT_EQ(lib.last_message(),
              "tile_product: `w` has 0 to 398 in dimension 1, but the kernel reads 0 to 399 of it");
    EXPECT_EQ(call(lib, x, short_rows, y), KILN_INVALID_ARGUMENT);
    EXPECT_EQ(lib.last_message(),
              "tile_product: `w` has 0 to 191 in dimension 0, but the kernel reads 0 to 199 of it");
    OnDevice low = bf16({200, 128});
    EXPECT_EQ(call(lib, low, large, y), KILN_INVALID_ARGUMENT);
    EXPECT_EQ(lib.last_message(),
              "tile_product: `x` has 0 to 127 in dimension 1, but the kernel reads 0 to 299 of it");
    EXPECT_EQ(fake->tile_launches + fake->launches, 0);
    static uint32_t columns, rows;
    fake->kernel = [](const fake_launch_config *, void **p) {
        fake_tensor_map m[2];
        memcpy(&m[0], p[0], sizeof(m[0]));
        memcpy(&m[1], p[1], sizeof(m[1]));
        columns = m[0].extents[0] + m[1].extents[0];
        rows = m[0].extents[1] + m[1].extents[1];
    };
    EXPECT_EQ(call(lib, x, large, y), KILN_OK) << lib.last_message();
    EXPECT_EQ(fake->tile_launches, 1);
    EXPECT_EQ(columns, 2u * 200) << "what lies past the sum would be multiplied by zeros, NaN or not";
    EXPECT_EQ(rows, 300u + 400);
}

/// What the kernel cannot do goes to the loops, and the choice says why.
TEST_F(TileLibrary, LoopsTakeTheRest) {
    LoadedLibrary &lib = product();
    OnDevice x = bf16({200, 300}), w = bf16({200, 400}), y = bf16({400, 300});
    struct Case {
        OnDevice x, w, y;
        const char *why;
    };
    Case cases[] = {
        {bf16({200, 300}, 0, 1), bf16({200, 400}), bf16({400, 300}),
         "`cuda sm_90a`: `x` is not aligned to 16 bytes on the device"},
        {bf16({200, 300}), bf16({200, 400}, 204), bf16({400, 300}),
         "`cuda sm_90a`: stride 1 of `w` is 204, no multiple of 8"},
        {bf16({200, 300}), bf16({200, 400}), bf16({400, 300}, 0, 4),
         "`cuda sm_90a`: `y` is not aligned to 16 bytes on the device"},
    };
    for (Case &c : cases) {
        EXPECT_EQ(call(lib, c.x, c.w, c.y), KILN_OK) << lib.last_message();
        EXPECT_EQ(why_not(lib), c.why);
    }
    // Shifted regions: y from (3, 5) on, of an x that begins there too.
    OnDevice shifted = bf16({100, 50});
    shifted.begin_at(3, 5);
    OnDevice rows = bf16({200, 60});
    rows.begin_at(0, 5);
    EXPECT_EQ(call(lib, rows, w, shifted), KILN_OK) << lib.last_message();
    EXPECT_EQ(why_not(lib), "`cuda sm_90a`: min 1 of `x` is 5, not 0");
    EXPECT_EQ(fake->tile_launches, 0);
    EXPECT_GE(fake->launches, 4);
    // Rows that are never stepped over may have any stride.
    OnDevice one = bf16({200, 1}, 7), out = bf16({400, 1}, 3);
    EXPECT_EQ(call(lib, one, w, out), KILN_OK) << lib.last_message();
    EXPECT_EQ(fake->tile_launches, 1);
}

TEST_F(TileLibrary, EmptySumsAndOutputs) {
    LoadedLibrary &lib = product();
    OnDevice x = bf16({0, 300}), w = bf16({0, 400}), y = bf16({400, 300});
    EXPECT_EQ(call(lib, x, w, y), KILN_OK) << lib.last_message();
    EXPECT_EQ(fake->tile_launches, 1) << "zeros are to be written";
    OnDevice a = bf16({64, 0}), b = bf16({64, 40}), none = bf16({40, 0});
    EXPECT_EQ(call(lib, a, b, none), KILN_OK) << lib.last_message();
    EXPECT_EQ(fake->tile_launches, 1);
}

TEST_F(TileLibrary, OnlyItsOwnGpu) {
    fake->capability = 100;
    LoadedLibrary &lib = product();
    OnDevice x = bf16({64, 32}), w = bf16({64, 48}), y = bf16({48, 32});
    EXPECT_EQ(call(lib, x, w, y), KILN_NO_DEVICE);
    EXPECT_EQ(
        lib.last_message().rfind("tile_product: `cuda sm_90a`: needs compute capability 9.0 exactly, `Fake "
                                 "GPU` has 10.0",
                                 0),
        0u)
        << lib.last_message();
}

/// Loops, tile kernel, loops: each is launched, and the values between them are of the region that is read.
TEST_F(TileLibrary, BetweenLoops) {
    static fake_tensor_map before;
    static float scale;
    static int order, tile_at;
    fake->kernel = [](const fake_launch_config *, void **p) {
        tile_at = fake->launches;
        for (int i = 0; i < 2; i++) {
            fake_tensor_map m;
            memcpy(&m, p[i], sizeof(m));
            if (m.extents[1] == 300) {
                before = m;
            }
        }
        order++;
    };
    LoadedLibrary &lib = tile_library("tile_between", between_schedule());
    OnDevice x(KILN_FLOAT32, 4, {199, 300}), z(KILN_FLOAT32, 4, {400, 300}), w = bf16({199, 400}, 200);
    scale = 3;
    void *arguments[] = {x.buffer(), w.buffer(), &scale, z.buffer()};
    ASSERT_EQ(call(lib, {&x, &w, &z}, arguments), KILN_OK) << lib.last_message();
    EXPECT_EQ(fake->launches, 2);
    EXPECT_EQ(fake->tile_launches, 1);
    EXPECT_EQ(tile_at, 1) << "after the first stage, before the last";
    EXPECT_EQ(before.extents[0], 199u);
    EXPECT_EQ(before.strides[0], 400u) << "rows are padded for TMA";
    EXPECT_EQ(fake->async_allocs, 2);
    EXPECT_EQ(fake->async_frees, 2);
    OnDevice few = bf16({199, 399}, 200);
    void *too_few[] = {x.buffer(), few.buffer(), &scale, z.buffer()};
    EXPECT_EQ(call(lib, {&x, &few, &z}, too_few), KILN_INVALID_ARGUMENT);
    EXPECT_EQ(lib.last_message(),
              "tile_between: `w` has 0 to 398 in dimension 1, but the kernel reads 0 to 399 of it");
    EXPECT_EQ(fake->tile_launches, 1);
}

TEST_F(TileLibrary, TwoOutputs) {
    LoadedLibrary &lib = tile_library("tile_two_outputs", two_schedule());
    OnDevice x = bf16({64, 300}), w = bf16({64, 384}), y = bf16({384, 300}), top(KILN_FLOAT32, 4, {3, 300});
    void *arguments[] = {x.buffer(), w.buffer(), y.buffer(), top.buffer()};
    ASSERT_EQ(call(lib, {&x, &w, &y, &top}, arguments), KILN_OK) << lib.last_message();
    EXPECT_EQ(lib.last_choice(), "tile_two_outputs: `cuda sm_90a`, schedule `two`");
    EXPECT_EQ(fake->tile_launches, 1);
    EXPECT_EQ(fake->launches, 0);
    EXPECT_TRUE(y.view.buffer.device_dirty());
    EXPECT_TRUE(top.view.buffer.device_dirty());
    // On the host, both get memory on the device.
    Array<uint16_t> hx({64, 32}), hw({64, 128}), hy({128, 32});
    Array<float> ht({1, 32});
    void *host[] = {hx.buffer(), hw.buffer(), hy.buffer(), ht.buffer()};
    ASSERT_EQ(lib.call(nullptr, host), KILN_OK) << lib.last_message();
    EXPECT_TRUE(hy.buffer()->device_dirty());
    EXPECT_TRUE(ht.buffer()->device_dirty());
    for (halide_buffer_t *b : {hx.buffer(), hw.buffer(), hy.buffer(), ht.buffer()}) {
        lib.device_free(nullptr, b);
    }
}

/// One kernel's output is the next one's input, in memory between them.
TEST_F(TileLibrary, TwoKernels) {
    std::string schedule = R"(schedule chain {
  op tile_chain
  target cuda sm_90a
  h.compute_root().tile(j, m, jo, mo, ji, mi, 128, 128).gpu_blocks(jo, mo).tile_kernel();
  inner.compute_at(h, jo).store_in(Register);
  inner.update().split(k, ko, ki, 64).mma(wgmma);
  x.in(inner).compute_at(inner, ko).store_in(GPUShared).copy(tma).stages(4);
  w.in(inner).compute_at(inner, ko).store_in(GPUShared).copy(tma).stages(4);
  y.tile(n, m, no, mo, ni, mi, 128, 128).gpu_blocks(no, mo).tile_kernel();
  outer.compute_at(y, no).store_in(Register);
  outer.update().split(r, ro, ri, 64).mma(wgmma);
  h.in(outer).compute_at(outer, ro).store_in(GPUShared).copy(tma).stages(4);
  v.in(outer).compute_at(outer, ro).store_in(GPUShared).copy(tma).stages(4);
}
)";
    static std::vector<std::set<uint64_t>> addresses;
    addresses.clear();
    fake->kernel = [](const fake_launch_config *, void **p) {
        std::set<uint64_t> found;
        for (int i = 0; i < 3; i++) {
            fake_tensor_map m;
            memcpy(&m, p[i], sizeof(m));
            found.insert(m.address);
        }
        addresses.push_back(found);
    };
    LoadedLibrary &lib = tile_library("tile_chain", schedule);
    OnDevice x = bf16({64, 300}), w = bf16({64, 100}, 64), v = bf16({100, 200}, 104), y = bf16({200, 300});
    void *arguments[] = {x.buffer(), w.buffer(), v.buffer(), y.buffer()};
    ASSERT_EQ(call(lib, {&x, &w, &v, &y}, arguments), KILN_OK) << lib.last_message();
    EXPECT_EQ(lib.last_choice(), "tile_chain: `cuda sm_90a`, schedule `chain`");
    ASSERT_EQ(addresses.size(), 2u);
    EXPECT_TRUE(addresses[0].count(x.view.buffer.device) && addresses[0].count(w.view.buffer.device));
    EXPECT_TRUE(addresses[1].count(v.view.buffer.device) && addresses[1].count(y.view.buffer.device));
    std::vector<uint64_t> between;
    std::set_intersection(addresses[0].begin(), addresses[0].end(), addresses[1].begin(), addresses[1].end(),
                          std::back_inserter(between));
    EXPECT_EQ(between.size(), 1u);
    EXPECT_EQ(fake->async_allocs, 1);
    EXPECT_EQ(fake->async_frees, 1);
    EXPECT_EQ(lib.prepare(nullptr), KILN_OK) << lib.last_message();
}

TEST_F(TileLibrary, SameBytesTwice) {
    std::string bytes[2], json[2];
    for (int i = 0; i < 2; i++) {
        TemporaryFolder folder;
        BuildResult built = build_library(request("tile_product", product_schedule(), folder.path()));
        ASSERT_TRUE(built.ok) << render_all(built.diagnostics, "");
        std::ifstream in(built.archive, std::ios::binary), text(built.json);
        bytes[i] = {std::istreambuf_iterator<char>(in), {}};
        json[i] = {std::istreambuf_iterator<char>(text), {}};
        EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 3) << "no scraps";
    }
    EXPECT_EQ(bytes[0], bytes[1]);
    EXPECT_EQ(json[0], json[1]);
    nlohmann::json j = nlohmann::json::parse(json[0]);
    ASSERT_EQ(j["variants"].size(), 2u);
    const nlohmann::json &tile = j["variants"][0]["tile_kernels"][0];
    EXPECT_EQ(tile["func"], "y");
    EXPECT_EQ(tile["threads"], 384);
    EXPECT_GT(tile["registers"], 0);
    EXPECT_EQ(tile["spill_bytes"], 0);
    EXPECT_GT(tile["shared_bytes"], 4 * 32768);
    EXPECT_EQ(j["variants"][1]["tile_kernels"].size(), 0u);
}

/// Loops that were asked for serve as the fallback; no others are added.
TEST_F(TileLibrary, FallbackOfTheCaller) {
    TemporaryFolder folder;
    BuildRequest r = request("tile_product", product_schedule(), folder.path());
    VariantRequest portable;
    portable.target = Target::parse("cuda");
    r.variants.push_back(portable);
    LoadedLibrary lib = load(r);
    ASSERT_EQ(lib.info().variant_count, 2);
    EXPECT_STREQ(lib.info().variants[1].target, "cuda");
    EXPECT_EQ(lib.info().variants[0].tile_count, 1);
    OnDevice x = bf16({200, 300}, 0, 1), w = bf16({200, 400}), y = bf16({400, 300});
    EXPECT_EQ(call(lib, x, w, y), KILN_OK) << lib.last_message();
    EXPECT_EQ(lib.last_choice().rfind("tile_product: `cuda`, schedule `default_cuda`; passed over: ", 0), 0u)
        << lib.last_choice();
    // Another kind of GPU: the tile kernel was compiled for one alone.
    fake->capability = 100;
    OnDevice good = bf16({200, 300});
    EXPECT_EQ(call(lib, good, w, y), KILN_OK) << lib.last_message();
    EXPECT_EQ(fake->tile_launches, 0);
}

} // namespace
} // namespace kiln::test
