/** \file
 * kiln_tile.h against a driver that computes nothing: what reaches the driver, what is kept between calls, and what
 * is said where something will not do.
 */
#include "tests/support/fake_cuda.h"

#include "kiln_tile.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <dlfcn.h>

namespace kiln::test {
namespace {

fake_cuda *driver() {
    static void *library = dlopen(KILN_BINARY_DIR "/lib/libkiln_fake_cuda.so", RTLD_NOW | RTLD_GLOBAL);
    return static_cast<fake_cuda *>(dlsym(library, "fake_cuda"));
}

fake_cuda *fake = nullptr;

/// A kernel, x (64 x 8, rows of 72) and y (64 x 8) of 16-bit floats on the device, and its four parameters.
class Tile : public ::testing::Test {
protected:
    Tile() {
        fake = driver();
        *fake = {};
        fake->capability = 90;
        fake->driver_version = 13000;
        fake->device_count = 1;
        kernel = {"y", "y_tile", "image", 6, &id, 384, 200000, 1, 0, 0, 0, KILN_TILE_CUDA};
        make(x, 0, dims_x, 64, 8, 72, memory_x);
        make(y, 1, dims_y, 64, 8, 64, memory_y);
    }
    ~Tile() override { kiln_release_context(&call, halide_cuda_device_interface()); }

    void make(halide_buffer_t &b, int which, halide_dimension_t *dim, int n, int m, int stride,
              void *memory) {
        b = {};
        b.type = halide_type_t(halide_type_bfloat, 16, 1);
        b.dimensions = 2;
        b.dim = dim;
        dim[0] = {0, n, 1, 0};
        dim[1] = {0, m, stride, 0};
        b.device = reinterpret_cast<uint64_t>(memory);
        b.device_interface = halide_cuda_device_interface();
        views[which] = {which ? "y" : "x", &b, KILN_TILE_BFLOAT16, static_cast<uint8_t>(which), {}, {}};
        views[which].box[0][1] = which ? -1 : n - 1;
        views[which].box[1][1] = m - 1;
    }
    int launch(std::vector<int64_t> grid = {2, 3}) {
        for (kiln_tile_view &v : views) {
            for (int d = 0; d < 2; d++) {
                v.extent[d] = v.buffer->dim[d].extent;
            }
        }
        return kiln_tile_launch(&call, &kernel, views, 2, grid.data(), static_cast<int32_t>(grid.size()),
                                params, 4);
    }
    std::string message() { return kiln_last_message(); }

    alignas(64) char memory_x[72 * 8 * 2], memory_y[64 * 8 * 2];
    halide_buffer_t x, y;
    halide_dimension_t dims_x[2], dims_y[2];
    uint32_t id = 0;
    kiln_call call = KILN_CALL_INIT;
    kiln_tile_kernel kernel;
    kiln_tile_view views[2] = {};
    kiln_tile_param params[4] = {{KILN_TILE_TENSOR_MAP, 0, 128, nullptr, {64, 8}, 0, 0},
                                 {KILN_TILE_POINTER, 1, 0, nullptr, {}, 0, 0},
                                 {KILN_TILE_INT, 0, 0, "x.extent(0)", {}, 64, 0},
                                 {KILN_TILE_RECIPROCAL, 0, 0, nullptr, {}, 3, 0}};
};

TEST_F(Tile, ParametersGridAndBlock) {
    static fake_tensor_map map;
    static uint64_t pointer, reciprocal;
    static int value;
    fake->kernel = [](const fake_launch_config *, void **p) {
        memcpy(&map, p[0], sizeof(map));
        memcpy(&pointer, p[1], 8);
        memcpy(&value, p[2], 4);
        memcpy(&reciprocal, p[3], 8);
    };
    static char stream;
    call.cuda_stream = &stream;
    ASSERT_EQ(launch(), 0) << message();
    EXPECT_EQ(map.address, x.device);
    EXPECT_EQ(map.type, 9u);
    EXPECT_EQ(map.rank, 2u);
    EXPECT_EQ(map.swizzle, 3u);
    EXPECT_EQ(map.promotion, 2u); // rows begin at 128 bytes
    EXPECT_EQ(map.extents[0], 64u);
    EXPECT_EQ(map.extents[1], 8u);
    EXPECT_EQ(map.strides[0], 144u);
    EXPECT_EQ(map.boxes[0], 64u);
    EXPECT_EQ(map.boxes[1], 8u);
    EXPECT_EQ(pointer, y.device);
    EXPECT_EQ(value, 64);
    EXPECT_EQ(reciprocal, UINT64_MAX / 3 + 1);
    EXPECT_EQ(fake->config.grid[0], 6u);
    EXPECT_EQ(fake->config.grid[1], 1u);
    EXPECT_EQ(fake->config.block[0], 384u);
    EXPECT_EQ(fake->config.shared_bytes, 200000u);
    EXPECT_EQ(fake->config.attribute_count, 0u);
    EXPECT_EQ(fake->shared_set, 200000);
    EXPECT_EQ(fake->launch_stream, &stream);
    EXPECT_EQ(fake->launch_context, &stream) << "the stream names the context";
    EXPECT_TRUE(y.device_dirty());
    EXPECT_EQ(fake->allocs + fake->async_allocs, 0) << "nothing is allocated for device buffers";
}

TEST_F(Tile, PersistentBlocks) {
    kernel.persistent = 1;
    ASSERT_EQ(launch({2, 3}), 0) << message();
    EXPECT_EQ(fake->config.grid[0], 6u) << "tiles at most";
    ASSERT_EQ(launch({1000, 3}), 0) << message();
    EXPECT_EQ(fake->config.grid[0], 132u);
    uint32_t other = 0;
    kernel.id = &other;
    fake->resident_blocks = 2;
    ASSERT_EQ(launch({1000, 3}), 0) << message();
    EXPECT_EQ(fake->config.grid[0], 264u);
}

TEST_F(Tile, Attributes) {
    kernel.cluster = 2;
    kernel.launch_ahead = 1;
    ASSERT_EQ(launch({3, 3}), 0) << message();
    EXPECT_EQ(fake->config.grid[0], 10u) << "whole clusters";
    ASSERT_EQ(fake->config.attribute_count, 2u);
    EXPECT_EQ(fake->attributes[0].id, 4);
    EXPECT_EQ(fake->attributes[0].value[0], 2u);
    EXPECT_EQ(fake->attributes[0].value[1], 1u);
    EXPECT_EQ(fake->attributes[1].id, 6);
    EXPECT_EQ(fake->attributes[1].value[0], 1u);
    EXPECT_EQ(fake->non_portable, 0);
    uint32_t other = 0;
    kernel.id = &other;
    kernel.cluster = 16;
    kernel.persistent = 1;
    kernel.cooperative = 1;
    fake->resident_clusters = 5;
    ASSERT_EQ(launch({1000}), 0) << message();
    EXPECT_EQ(fake->config.grid[0], 80u);
    EXPECT_EQ(fake->non_portable, 1);
    EXPECT_EQ(fake->config.attribute_count, 3u);
    kernel.persistent = 0;
    EXPECT_EQ(launch({1000}), KILN_UNSUPPORTED);
    EXPECT_EQ(message(),
              "the tile kernel of `y` needs all its 1008 blocks to run at once, the device holds 80");
}

TEST_F(Tile, NoTilesNoLaunch) {
    EXPECT_EQ(launch({5, 0}), 0);
    EXPECT_EQ(launch({-1, 3}), 0);
    EXPECT_EQ(fake->tile_launches + fake->loads, 0);
}

TEST_F(Tile, GridLimits) {
    fake->max_grid = 1000;
    EXPECT_EQ(launch({500, 3}), KILN_INVALID_ARGUMENT);
    EXPECT_EQ(message(),
              "the tile kernel of `y` would need 500 x 3 blocks, at most 1000 can be launched: use "
              "larger tiles or split the call");
    kernel.persistent = 1;
    EXPECT_EQ(launch({500, 3}), 0) << message();
    EXPECT_EQ(launch({int64_t(1) << 40, int64_t(1) << 40}), KILN_INVALID_ARGUMENT);
    EXPECT_EQ(launch({int64_t(1) << 31}), KILN_INVALID_ARGUMENT) << "tiles are counted in an int";
    EXPECT_EQ(fake->tile_launches, 1);
    params[2].value = int64_t(1) << 31;
    EXPECT_EQ(launch(), KILN_INVALID_ARGUMENT);
    EXPECT_EQ(message(),
              "the tile kernel of `y` counts in 32 bits, but `x.extent(0)` is 2147483648 in this call");
}

TEST_F(Tile, OneModuleAContext) {
    static char contexts[2];
    for (char &context : contexts) {
        call.cuda_context = &context;
        ASSERT_EQ(launch(), 0) << message();
        ASSERT_EQ(launch(), 0) << message();
        EXPECT_EQ(fake->launch_context, &context);
    }
    EXPECT_EQ(fake->loads, 2);
    EXPECT_EQ(kiln_release_context(&call, halide_cuda_device_interface()), KILN_OK);
    EXPECT_EQ(fake->unloads, 1);
    ASSERT_EQ(launch(), 0) << message();
    EXPECT_EQ(fake->loads, 3);
    // Another library at a closed one's address has a number of its own.
    uint32_t other = 0;
    kernel.id = &other;
    ASSERT_EQ(launch(), 0) << message();
    EXPECT_EQ(fake->loads, 4);
    call.cuda_context = &contexts[0];
    kiln_release_context(&call, halide_cuda_device_interface());
    call.cuda_context = &contexts[1];
}

TEST_F(Tile, PrepareLoads) {
    ASSERT_EQ(kiln_tile_prepare(&call, &kernel), 0) << message();
    EXPECT_EQ(fake->loads, 1);
    ASSERT_EQ(launch(), 0);
    EXPECT_EQ(fake->loads, 1);
}

TEST_F(Tile, DescriptorsAreKept) {
    fake->kernel = nullptr;
    ASSERT_EQ(launch(), 0) << message();
    int first = fake->encodings;
    ASSERT_EQ(launch(), 0);
    EXPECT_EQ(fake->encodings, first);
    dims_x[1].extent = 7;
    ASSERT_EQ(launch(), 0);
    EXPECT_EQ(fake->encodings, first + 1);
    params[0].box[1] = 4;
    ASSERT_EQ(launch(), 0);
    params[0].swizzle = 64;
    ASSERT_EQ(launch(), 0);
    dims_x[1].stride = 80;
    ASSERT_EQ(launch(), 0);
    x.device += 16;
    ASSERT_EQ(launch(), 0);
    EXPECT_EQ(fake->encodings, first + 5);
    // A crop that starts elsewhere but lies at the same place is the same tensor.
    dims_x[1].min = 5;
    ASSERT_EQ(launch(), 0);
    EXPECT_EQ(fake->encodings, first + 5);
}

TEST_F(Tile, RulesOfTma) {
    x.device += 8;
    EXPECT_EQ(launch(), KILN_INVALID_ARGUMENT);
    EXPECT_NE(message().find("`x` cannot be moved by TMA: its device address 0x"), std::string::npos)
        << message();
    x.device -= 8;
    dims_x[1].stride = 68;
    EXPECT_EQ(launch(), KILN_INVALID_ARGUMENT);
    EXPECT_EQ(message(), "`x` cannot be moved by TMA: its stride in dimension 1 is 136 bytes, it must be a "
                         "multiple of 16 from 0 to 2^40");
    dims_x[1].stride = -72;
    EXPECT_EQ(launch(), KILN_INVALID_ARGUMENT);
    dims_x[1].stride = 72;
    dims_x[0].stride = 2;
    EXPECT_EQ(launch(), KILN_INVALID_ARGUMENT);
    EXPECT_EQ(message(), "`x` cannot be moved by TMA: its stride in dimension 0 is 2, it must be 1");
    EXPECT_EQ(fake->tile_launches, 0);
    // Strides that are never used may be any, and a view without elements is never read.
    dims_x[0].stride = 1;
    dims_x[1] = {0, 1, 68, 0};
    EXPECT_EQ(launch(), 0) << message();
    dims_x[0].extent = 0;
    x.device = 0;
    EXPECT_EQ(launch(), 0) << message();
}

TEST_F(Tile, CountersAreOnTheStream) {
    static uint64_t counter;
    static unsigned values[2];
    fake->kernel = [](const fake_launch_config *, void **p) {
        memcpy(&counter, p[1], 8);
        memcpy(values, reinterpret_cast<void *>(counter), 8);
    };
    static char stream;
    call.cuda_stream = &stream;
    params[1].kind = KILN_TILE_COUNTER;
    ASSERT_EQ(launch(), 0) << message();
    EXPECT_EQ(values[0] | values[1], 0u);
    EXPECT_EQ(fake->async_allocs, 1);
    EXPECT_EQ(fake->async_frees, 1);
    EXPECT_EQ(fake->allocs, 0);
    EXPECT_EQ(fake->alloc_stream, &stream);
}

// What the host wrote into an output before the call is overwritten, so it is not the newer copy.
TEST_F(Tile, OutputsThatTheHostWrote) {
    y.set_host_dirty(true);
    ASSERT_EQ(launch(), 0) << message();
    EXPECT_FALSE(y.host_dirty());
    EXPECT_TRUE(y.device_dirty());
}

TEST_F(Tile, OutputsGetMemory) {
    y.device = 0;
    y.device_interface = nullptr;
    ASSERT_EQ(launch(), 0) << message();
    EXPECT_NE(y.device, 0u);
    EXPECT_EQ(fake->async_allocs, 1);
    EXPECT_EQ(halide_device_free(&call, &y), 0);
}

TEST_F(Tile, WhatTheDriverSays) {
    fake->load_error = 209;
    EXPECT_NE(launch(), 0);
    EXPECT_EQ(message().rfind("the library holds no code for this GPU: build it for its target; here is a "
                              "driver for CUDA 13.0, and `Fake GPU` of compute capability 9.0 (CUDA: "
                              "cuModuleLoadData for the tile kernel of `y` failed: "
                              "CUDA_ERROR_NO_BINARY_FOR_GPU (209))",
                              0),
              0u)
        << message();
    fake->load_error = 0;
    fake->launch_error = 1;
    EXPECT_NE(launch(), 0) << "a failed load is tried again";
    EXPECT_EQ(message(), "CUDA: cuLaunchKernelEx for the tile kernel of `y` (6 blocks of 384 threads, 200000 "
                         "bytes of shared memory) failed: CUDA_ERROR_INVALID_VALUE (1)");
    fake->launch_error = 0;
    uint32_t other = 0;
    kernel.id = &other;
    fake->shared_bytes = 101376;
    EXPECT_NE(launch(), 0);
    EXPECT_EQ(message(),
              "the tile kernel of `y` needs 200000 bytes of shared memory a block, the device has 101376");
}

TEST_F(Tile, QueriesAndChecks) {
    views[0].box[0][0] = 2;
    EXPECT_EQ(kiln_tile_query(views, 2), 0);
    uint64_t device = x.device;
    x.device = 0;
    EXPECT_EQ(kiln_tile_query(views, 2), 1);
    EXPECT_EQ(dims_x[0].min, 0) << "kernels count from 0";
    EXPECT_EQ(dims_x[0].extent, 64);
    EXPECT_EQ(dims_x[1].extent, 8);
    // What an output is wanted of says its query; a kernel counts from 0.
    halide_buffer_t wanted = y;
    halide_dimension_t region[2] = {{3, 10, 1, 0}, {0, 4, 10, 0}};
    wanted.device = 0;
    wanted.dim = region;
    views[1].buffer = &wanted;
    EXPECT_EQ(kiln_tile_query(views, 2), 1);
    EXPECT_EQ(region[0].min, 0);
    EXPECT_EQ(region[0].extent, 13);
    EXPECT_EQ(region[1].extent, 4);
    views[1].buffer = &y;
    views[0].box[1][1] = -1; // nothing at all
    EXPECT_EQ(kiln_tile_query(views, 2), 1);
    EXPECT_EQ(dims_x[0].extent, 0);
    x.device = device;
    EXPECT_EQ(kiln_tile_check(&call, &kernel, views, 2), 0) << "an input that is not read may be any";
    views[0].box[1][1] = 7;
    EXPECT_EQ(kiln_tile_check(&call, &kernel, views, 2), KILN_INVALID_ARGUMENT);
    EXPECT_EQ(message(), "`x` has 0 to -1 in dimension 0, but the kernel reads 2 to 63 of it");
    dims_x[0] = {0, 100, 1, 0};
    dims_x[1] = {0, 8, 72, 0};
    EXPECT_EQ(kiln_tile_check(&call, &kernel, views, 2), 0) << "an input may have more";
    dims_x[1].min = 1;
    EXPECT_EQ(kiln_tile_check(&call, &kernel, views, 2), KILN_INVALID_ARGUMENT);
    EXPECT_EQ(message(), "`x` has 1 to 8 in dimension 1, but the kernel reads 0 to 7 of it");
    dims_x[1].min = 0;
    dims_x[1] = {-1, 10, 72, 0};
    EXPECT_EQ(kiln_tile_check(&call, &kernel, views, 2), KILN_INVALID_ARGUMENT);
    EXPECT_EQ(message(), "`x` begins at -1 in dimension 1, the tile kernel of `y` needs 0");
    dims_x[1] = {0, 8, 72, 0};
    dims_y[0].min = 3;
    EXPECT_EQ(kiln_tile_check(&call, &kernel, views, 2), KILN_INVALID_ARGUMENT);
    EXPECT_EQ(message(), "`y` begins at 3 in dimension 0, the tile kernel of `y` needs 0");
    EXPECT_EQ(kiln_tile_refuse(&call, &kernel, "x.extent.0 <= 64"), KILN_INVALID_ARGUMENT);
    EXPECT_EQ(message(), "the tile kernel of `y` is made for calls with x.extent.0 <= 64");
}

TEST_F(Tile, ManyThreads) {
    std::vector<std::thread> threads;
    std::atomic<int> wrong = 0;
    for (int t = 0; t < 8; t++) {
        threads.emplace_back([&] {
            // The flags of a buffer and the description of a call are their caller's own.
            halide_buffer_t buffers[2] = {x, y};
            kiln_tile_view own[2] = {views[0], views[1]};
            for (int b = 0; b < 2; b++) {
                own[b].buffer = &buffers[b];
                for (int d = 0; d < 2; d++) {
                    own[b].extent[d] = buffers[b].dim[d].extent;
                }
            }
            const int64_t grid[2] = {2, 3};
            for (int i = 0; i < 50; i++) {
                wrong += kiln_tile_launch(&call, &kernel, own, 2, grid, 2, params, 4) != 0;
            }
        });
    }
    for (std::thread &t : threads) {
        t.join();
    }
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(fake->loads, 1);
    EXPECT_EQ(fake->tile_launches, 400);
}

} // namespace
} // namespace kiln::test
