/** \file
 * Each breach of a contract: the whole message, the code, and an output that was not touched.
 */
#include "runtime_support.h"

namespace kiln::test {
namespace {

class Contract : public ::testing::Test {
protected:
    Contract() : x({7, 5}), y({7, 5}) { x.fill(1); }

    void refuses(const std::string &message, int status = KILN_INVALID_ARGUMENT) {
        ChainCall call{x.buffer(), y.buffer()};
        call.b = b;
        EXPECT_EQ(call.run(lib), status);
        EXPECT_EQ(lib.last_message(), message);
        EXPECT_TRUE(y.untouched());
    }

    LoadedLibrary &lib = library("test_chain", "cpu avx2");
    Array<float> x, y;
    float b = 1;
};

TEST_F(Contract, KeptIsSilent) {
    ChainCall call{x.buffer(), y.buffer()};
    EXPECT_EQ(call.run(lib), KILN_OK);
    EXPECT_EQ(lib.last_message(), "");
    for (int j = 0; j < 5; j++) {
        for (int i = 0; i < 7; i++) {
            ASSERT_EQ(y.at(i, j), std::max(2 * x.at(i, j) + 1, 0.0f));
        }
    }
    EXPECT_TRUE(y.guards_untouched());
}

TEST_F(Contract, NullBuffer) {
    ChainCall call{nullptr, y.buffer()};
    EXPECT_EQ(call.run(lib), KILN_INVALID_ARGUMENT);
    EXPECT_EQ(lib.last_message(), "test_chain: input `x` is null");
    call = {x.buffer(), nullptr};
    EXPECT_EQ(call.run(lib), KILN_INVALID_ARGUMENT);
    EXPECT_EQ(lib.last_message(), "test_chain: output `y` is null");
    EXPECT_TRUE(y.untouched());
}

TEST_F(Contract, Rank) {
    x.view.buffer.dimensions = 1;
    refuses("test_chain: input `x` has 1 dimension, the kernel needs 2");
}

TEST_F(Contract, NoDimensions) {
    x.view.buffer.dim = nullptr;
    refuses("test_chain: input `x` has no dimensions array: its `dim` is null");
}

TEST_F(Contract, Type) {
    x.view.buffer.type = halide_type_of<int32_t>();
    refuses("test_chain: input `x` has type int32, the kernel needs float32");
}

TEST_F(Contract, NegativeExtent) {
    x.view.dim[1].extent = -3;
    refuses("test_chain: input `x` has extent -3 in dimension 1, it cannot be negative");
}

TEST_F(Contract, CoordinatesBeyondInt32) {
    x.view.dim[1].min = 2147483640;
    x.view.dim[1].extent = 100;
    refuses("test_chain: input `x` ends at 2147483740 in dimension 1, coordinates end at 2147483647");
}

TEST_F(Contract, Stride) {
    y.view.dim[0].stride = 2;
    refuses("test_chain: output `y` has stride 2 in dimension 0, the kernel needs 1");
}

TEST_F(Contract, NoMemory) {
    // Halide itself would take this for a bounds query and return success.
    x.view.buffer.host = nullptr;
    refuses("test_chain: input `x` has no memory: its host pointer is null and it is on no device");
    x.view.buffer.host = reinterpret_cast<uint8_t *>(x.data());
    y.view.buffer.host = nullptr;
    refuses("test_chain: output `y` has no memory: its host pointer is null and it is on no device");
}

TEST_F(Contract, InputTooSmall) {
    x.view.dim[0].extent = 6;
    refuses("test_chain: `x` has 0 to 5 in dimension 0, but the kernel reads 0 to 6 of it");
    x.view.dim[0] = {1, 7, 1};
    refuses("test_chain: `x` has 1 to 7 in dimension 0, but the kernel reads 0 to 6 of it");
}

TEST_F(Contract, Misaligned) {
    x.view.buffer.host = reinterpret_cast<uint8_t *>(uintptr_t(0x10002));
    refuses("test_chain: input `x` is at 0x10002, the kernel needs an address aligned to 4 bytes");
}

TEST_F(Contract, OutputOverInput) {
    Array<float> shared({7, 6});
    shared.fill(2);
    std::vector<float> before = shared.values;
    // y is x moved by one row.
    ChainCall call{x.buffer(), y.buffer()};
    x.view.buffer.host = reinterpret_cast<uint8_t *>(shared.data());
    y.view.buffer.host = reinterpret_cast<uint8_t *>(shared.data() + 7);
    EXPECT_EQ(call.run(lib), KILN_INVALID_ARGUMENT);
    EXPECT_EQ(lib.last_message(), "test_chain: output `y` shares memory with input `x`, they must be apart");
    EXPECT_EQ(shared.values, before);
}

TEST_F(Contract, NeighbouringColumnsShareNothing) {
    // Two views of one matrix, side by side: their ranges of addresses cross, their elements do not.
    Array<float> shared({14, 5});
    shared.fill(3);
    Array<float> unused({1});
    x.view.buffer.host = reinterpret_cast<uint8_t *>(shared.data());
    y.view.buffer.host = reinterpret_cast<uint8_t *>(shared.data() + 7);
    x.view.dim[1].stride = y.view.dim[1].stride = 14;
    ChainCall call{x.buffer(), y.buffer()};
    EXPECT_EQ(call.run(lib), KILN_OK) << lib.last_message();
    EXPECT_EQ(shared.at(7, 4), std::max(2 * shared.at(0, 4) + 1, 0.0f));
    // One column further left they do.
    y.view.buffer.host -= sizeof(float);
    EXPECT_EQ(call.run(lib), KILN_INVALID_ARGUMENT);
    EXPECT_EQ(lib.last_message(), "test_chain: output `y` shares memory with input `x`, they must be apart");
}

TEST_F(Contract, OutputOverItself) {
    y.view.dim[1].stride = 0;
    refuses("test_chain: output `y` has stride 0 in dimension 1 of extent 5, its elements share memory");
    y.view.dim[1].stride = 3;
    refuses("test_chain: the strides of output `y` put two of its elements at one address");
}

TEST_F(Contract, Flags) {
    x.view.buffer.flags = halide_buffer_flag_host_dirty | halide_buffer_flag_device_dirty;
    refuses("test_chain: input `x` has both host_dirty and device_dirty set: which copy is the newer is not "
            "known");
    x.view.buffer.flags = 0;
    x.view.buffer.device = 1;
    refuses("test_chain: input `x` has device memory but no device_interface");
}

TEST_F(Contract, ScalarRange) {
    b = 200;
    refuses("test_chain: `b` is 200, it must be at most 100");
    b = -200;
    refuses("test_chain: `b` is -200, it must be at least -100");
}

TEST_F(Contract, RelatedExtents) {
    LoadedLibrary &product = library("test_product", "cpu avx2");
    Array<float> a({3, 4}), fewer({5, 2}), more({5, 4}), c({5, 4});
    void *arguments[] = {a.buffer(), fewer.buffer(), c.buffer()};
    EXPECT_EQ(product.call(nullptr, arguments), KILN_INVALID_ARGUMENT);
    EXPECT_EQ(product.last_message(),
              "test_product: `b` has 0 to 1 in dimension 1, but the kernel reads 0 to 2 of it");
    arguments[1] = more.buffer();
    EXPECT_EQ(product.call(nullptr, arguments), KILN_INVALID_ARGUMENT);
    EXPECT_EQ(product.last_message(),
              "test_product: `b` has extent 4 in dimension 1, the kernel needs 3 (`a.extent.0`)");
    EXPECT_TRUE(c.untouched());
}

TEST_F(Contract, MessageReachesCallback) {
    struct Seen {
        int count = 0, status = 0;
        std::string text;
    } seen;
    kiln_call call = KILN_CALL_INIT;
    call.user = &seen;
    call.on_message = [](const kiln_call *c, int status, const char *message) {
        Seen *s = static_cast<Seen *>(c->user);
        s->count++;
        s->status = status;
        s->text = message;
    };
    x.view.buffer.dimensions = 1;
    ChainCall chain{x.buffer(), y.buffer()};
    chain.run(lib, &call);
    EXPECT_EQ(seen.count, 1);
    EXPECT_EQ(seen.status, KILN_INVALID_ARGUMENT);
    EXPECT_EQ(seen.text, "test_chain: input `x` has 1 dimension, the kernel needs 2");
    x.view.buffer.dimensions = 2;
    EXPECT_EQ(chain.run(lib, &call), KILN_OK);
    EXPECT_EQ(seen.count, 1);
    EXPECT_EQ(lib.last_message(), "");
}

TEST_F(Contract, AllocatorIsUsedAndMayFail) {
    LoadedLibrary &scratch = library("test_scratch", "cpu avx2");
    struct Heap {
        int live = 0, total = 0;
        size_t bytes = 0;
        bool fails = false;
    } heap;
    kiln_call call = KILN_CALL_INIT;
    call.user = &heap;
    call.alloc = [](const kiln_call *c, size_t bytes, size_t alignment, int space) -> void * {
        Heap *h = static_cast<Heap *>(c->user);
        EXPECT_EQ(space, KILN_SPACE_HOST);
        if (h->fails) {
            return nullptr;
        }
        h->live++;
        h->total++;
        h->bytes += bytes;
        return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    };
    call.free = [](const kiln_call *c, void *memory, size_t bytes, int) {
        Heap *h = static_cast<Heap *>(c->user);
        h->live--;
        h->bytes -= bytes;
        std::free(memory);
    };
    Array<float> in({700, 50}), out({700, 50});
    in.fill(4);
    void *arguments[] = {in.buffer(), out.buffer()};
    EXPECT_EQ(scratch.call(&call, arguments), KILN_OK) << scratch.last_message();
    EXPECT_EQ(out.at(699, 49), 2 * in.at(699, 49) + 1);
    EXPECT_GT(heap.total, 0);
    EXPECT_EQ(heap.live, 0);
    EXPECT_EQ(heap.bytes, 0u);
    heap.fails = true;
    EXPECT_EQ(scratch.call(&call, arguments), KILN_OUT_OF_MEMORY);
    EXPECT_EQ(scratch.last_message(), "test_scratch: no memory for an intermediate value");
}

TEST_F(Contract, CallWithoutItsSize) {
    kiln_call call = {};
    char stream;
    call.cuda_stream = &stream;
    ChainCall chain{x.buffer(), y.buffer()};
    EXPECT_EQ(chain.run(lib, &call), KILN_INVALID_ARGUMENT);
    EXPECT_EQ(lib.last_message(),
              "test_chain: the kiln_call has size 0, it must be sizeof(kiln_call), 80: start from "
              "KILN_CALL_INIT");
    EXPECT_EQ(lib.prepare(&call), KILN_INVALID_ARGUMENT);
    EXPECT_TRUE(y.untouched());
}

TEST(Status, Names) {
    EXPECT_STREQ(kiln_status_name(KILN_OK), "ok");
    EXPECT_STREQ(kiln_status_name(KILN_INTERNAL_ERROR), "internal error");
    EXPECT_STREQ(kiln_status_name(99), "unknown status");
}

} // namespace
} // namespace kiln::test
