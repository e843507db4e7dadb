/** \file
 * Views of the caller's memory: extents and strides in 64 bits, DLPack tensors.
 */
#include "runtime_support.h"

namespace kiln::test {
namespace {

TEST(Views, DenseAndStrided) {
    float data[24];
    kiln_view view;
    int64_t extents[] = {2, 3, 4};
    ASSERT_EQ(kiln_view_host(&view, KILN_FLOAT32, data, 3, extents, nullptr), KILN_OK);
    EXPECT_EQ(view.buffer.host, reinterpret_cast<uint8_t *>(data));
    EXPECT_EQ(view.buffer.type, halide_type_of<float>());
    EXPECT_EQ(view.dim[0].stride, 1);
    EXPECT_EQ(view.dim[1].stride, 2);
    EXPECT_EQ(view.dim[2].stride, 6);
    int64_t strides[] = {12, 4, 1};
    ASSERT_EQ(kiln_view_host(&view, KILN_FLOAT32, data, 3, extents, strides), KILN_OK);
    EXPECT_EQ(view.dim[0].stride, 12);
}

TEST(Views, ExtentsBeyondInt32AreRefusedByName) {
    kiln_view view;
    int64_t extents[] = {4, int64_t(1) << 31};
    EXPECT_EQ(kiln_view_host(&view, KILN_UINT8, nullptr, 2, extents, nullptr), KILN_INVALID_ARGUMENT);
    EXPECT_STREQ(kiln_last_message(),
                 "the view has extent 2147483648 in dimension 1, at most 2147483647 is possible");
    extents[1] = -1;
    EXPECT_EQ(kiln_view_host(&view, KILN_UINT8, nullptr, 2, extents, nullptr), KILN_INVALID_ARGUMENT);
    EXPECT_STREQ(kiln_last_message(), "the view has extent -1 in dimension 1, it cannot be negative");
    extents[1] = 2;
    int64_t strides[] = {1, int64_t(1) << 32};
    EXPECT_EQ(kiln_view_host(&view, KILN_UINT8, nullptr, 2, extents, strides), KILN_INVALID_ARGUMENT);
    EXPECT_STREQ(kiln_last_message(),
                 "the view has stride 4294967296 in dimension 1, at most 2147483647 is possible");
    EXPECT_EQ(kiln_view_host(&view, KILN_UINT8, nullptr, 9, extents, nullptr), KILN_INVALID_ARGUMENT);
    EXPECT_STREQ(kiln_last_message(), "the view has 9 dimensions, at most 8 are possible");
}

TEST(Views, ARefusedViewIsRefusedByTheKernelToo) {
    Array<float> y({4, 2});
    kiln_view view;
    int64_t extents[] = {4, int64_t(1) << 31};
    kiln_view_host(&view, KILN_FLOAT32, y.data(), 2, extents, nullptr);
    LoadedLibrary &lib = library("test_chain", "cpu avx2");
    ChainCall call{&view.buffer, y.buffer()};
    EXPECT_EQ(call.run(lib), KILN_INVALID_ARGUMENT);
    EXPECT_TRUE(y.untouched());
    // As an output too, whatever comes before the extent that is wrong.
    int64_t others[][2] = {{int64_t(1) << 31, 4}, {4, -1}, {0, int64_t(1) << 40}};
    for (auto &shape : others) {
        Array<float> x({4, 2});
        kiln_view_host(&view, KILN_FLOAT32, y.data(), 2, shape, nullptr);
        ChainCall into{x.buffer(), &view.buffer};
        EXPECT_EQ(into.run(lib), KILN_INVALID_ARGUMENT);
        EXPECT_EQ(lib.last_message(),
                  "test_chain: output `y` is a view that was refused when it was made, with its reason");
    }
}

DLTensor tensor(void *data, std::vector<int64_t> &shape, std::vector<int64_t> *strides) {
    DLTensor t;
    t.data = data;
    t.device = {kDLCPU, 0};
    t.ndim = static_cast<int32_t>(shape.size());
    t.dtype = {kDLFloat, 32, 1};
    t.shape = shape.data();
    t.strides = strides ? strides->data() : nullptr;
    t.byte_offset = 0;
    return t;
}

TEST(Views, DlpackDimensionsAreReversed) {
    std::vector<float> x(40), y(20);
    for (size_t i = 0; i < x.size(); i++) {
        x[i] = static_cast<float>(i);
    }
    std::vector<int64_t> shape = {4, 5}, strides = {10, 1};
    DLTensor tx = tensor(x.data(), shape, &strides), ty = tensor(y.data(), shape, nullptr);
    tx.byte_offset = 3 * sizeof(float);
    kiln_view vx, vy;
    ASSERT_EQ(kiln_view_dlpack(&vx, &tx), KILN_OK);
    ASSERT_EQ(kiln_view_dlpack(&vy, &ty), KILN_OK);
    EXPECT_EQ(vx.dim[0].extent, 5);
    EXPECT_EQ(vx.dim[1].stride, 10);
    EXPECT_EQ(vy.dim[1].stride, 5);
    LoadedLibrary &lib = library("test_chain", "cpu avx2");
    ChainCall call{&vx.buffer, &vy.buffer};
    ASSERT_EQ(call.run(lib), KILN_OK) << lib.last_message();
    EXPECT_EQ(y[2 * 5 + 4], 2 * x[3 + 2 * 10 + 4] + 1);
}

TEST(Views, DlpackFaults) {
    std::vector<int64_t> shape = {4};
    DLTensor t = tensor(nullptr, shape, nullptr);
    kiln_view view;
    t.dtype.code = 5;
    EXPECT_EQ(kiln_view_dlpack(&view, &t), KILN_INVALID_ARGUMENT);
    EXPECT_STREQ(kiln_last_message(),
                 "the tensor has DLPack type code 5, 32 bits, 1 lanes, which no kernel takes");
    t.dtype = {kDLBfloat, 16, 1};
    ASSERT_EQ(kiln_view_dlpack(&view, &t), KILN_OK);
    EXPECT_EQ(view.buffer.type, halide_type_t(halide_type_bfloat, 16));
    t.device.device_type = static_cast<DLDeviceType>(7);
    EXPECT_EQ(kiln_view_dlpack(&view, &t), KILN_INVALID_ARGUMENT);
    EXPECT_STREQ(kiln_last_message(),
                 "the tensor is on DLPack device type 7; kernels take CPU, CUDA and OpenCL memory");
    EXPECT_EQ(kiln_view_dlpack(&view, nullptr), KILN_INVALID_ARGUMENT);
    EXPECT_STREQ(kiln_last_message(), "the tensor is null");
}

} // namespace
} // namespace kiln::test
