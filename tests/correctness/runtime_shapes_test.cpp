/** \file
 * Sizes and layouts that kernels meet in the field: empty, odd, beside a protected page, beyond 2^31 bytes, misaligned,
 * from many threads.
 */
#include "runtime_support.h"

#include <cmath>
#include <limits>
#include <thread>

#include <sys/mman.h>

namespace kiln::test {
namespace {

TEST(Shapes, EveryOddSize) {
    LoadedLibrary &lib = library("test_chain", "cpu avx2");
    for (int w : {1, 2, 3, 5, 7, 8, 9, 13, 16, 17, 31, 33}) {
        for (int h : {1, 2, 3, 5, 11}) {
            Array<float> x({w, h}), y({w, h});
            x.fill(w * 100 + h);
            ChainCall call{x.buffer(), y.buffer()};
            ASSERT_EQ(call.run(lib), KILN_OK) << lib.last_message();
            for (int j = 0; j < h; j++) {
                for (int i = 0; i < w; i++) {
                    ASSERT_EQ(y.at(i, j), std::max(2 * x.at(i, j) + 1, 0.0f)) << w << "x" << h;
                }
            }
            ASSERT_TRUE(y.guards_untouched());
        }
    }
}

TEST(Shapes, EmptyOutputsWriteNothing) {
    LoadedLibrary &lib = library("test_chain", "cpu avx2");
    for (auto [w, h] : {std::pair(0, 5), std::pair(7, 0), std::pair(0, 0)}) {
        Array<float> x({w, h}), y({w, h});
        ChainCall call{x.buffer(), y.buffer()};
        EXPECT_EQ(call.run(lib), KILN_OK) << lib.last_message();
        EXPECT_TRUE(y.untouched());
        // An empty tensor often comes with a null pointer.
        x.view.buffer.host = y.view.buffer.host = nullptr;
        EXPECT_EQ(call.run(lib), KILN_OK) << lib.last_message();
    }
}

TEST(Shapes, EmptySumIsZero) {
    LoadedLibrary &lib = library("test_product", "cpu avx2");
    for (bool null : {false, true}) {
        Array<float> a({0, 4}), b({5, 0}), c({5, 4});
        if (null) {
            a.view.buffer.host = b.view.buffer.host = nullptr;
        }
        void *arguments[] = {a.buffer(), b.buffer(), c.buffer()};
        ASSERT_EQ(lib.call(nullptr, arguments), KILN_OK) << lib.last_message();
        for (int m = 0; m < 4; m++) {
            for (int n = 0; n < 5; n++) {
                EXPECT_EQ(c.at(n, m), 0.0f);
            }
        }
        EXPECT_TRUE(c.guards_untouched());
    }
}

TEST(Shapes, ProductsOfOddSizes) {
    LoadedLibrary &lib = library("test_product", "cpu avx2");
    for (auto [k, m, n] :
         {std::tuple(1, 1, 1), std::tuple(3, 5, 7), std::tuple(17, 2, 9), std::tuple(36, 13, 1)}) {
        Array<float> a({k, m}), b({n, k}), c({n, m});
        a.fill(k);
        b.fill(m);
        void *arguments[] = {a.buffer(), b.buffer(), c.buffer()};
        ASSERT_EQ(lib.call(nullptr, arguments), KILN_OK) << lib.last_message();
        for (int j = 0; j < m; j++) {
            for (int i = 0; i < n; i++) {
                double sum = 0;
                for (int r = 0; r < k; r++) {
                    sum += static_cast<double>(a.at(r, j)) * b.at(i, r);
                }
                ASSERT_EQ(c.at(i, j), sum); // small integers: exact
            }
        }
    }
}

TEST(Shapes, TupleOutputs) {
    LoadedLibrary &lib = library("test_pair", "cpu avx2");
    Array<int32_t> x({6, 3}), sum({3}), max({3});
    x.fill(9);
    void *arguments[] = {x.buffer(), sum.buffer(), max.buffer()};
    ASSERT_EQ(lib.call(nullptr, arguments), KILN_OK) << lib.last_message();
    for (int j = 0; j < 3; j++) {
        int s = 0, m = std::numeric_limits<int>::min();
        for (int i = 0; i < 6; i++) {
            s += x.at(i, j);
            m = std::max(m, x.at(i, j));
        }
        EXPECT_EQ(sum.at(j), s);
        EXPECT_EQ(max.at(j), m);
    }
    EXPECT_STREQ(lib.info().arguments[1].name, "y.0");
    sum.view.buffer.type = halide_type_of<float>();
    EXPECT_EQ(lib.call(nullptr, arguments), KILN_INVALID_ARGUMENT);
    EXPECT_EQ(lib.last_message(), "test_pair: output `y.0` has type float32, the kernel needs int32");
}

TEST(Shapes, NegativeMins) {
    LoadedLibrary &lib = library("test_stencil", "cpu avx2");
    Array<float> x({12}), y({10});
    x.fill(5);
    x.view.dim[0].min = -4;
    y.view.dim[0].min = -3;
    void *arguments[] = {x.buffer(), y.buffer()};
    ASSERT_EQ(lib.call(nullptr, arguments), KILN_OK) << lib.last_message();
    for (int i = 0; i < 10; i++) {
        EXPECT_EQ(y.at(i), x.at(i) + x.at(i + 1) + x.at(i + 2));
    }
    y.view.dim[0].min = -4;
    EXPECT_EQ(lib.call(nullptr, arguments), KILN_INVALID_ARGUMENT);
    EXPECT_EQ(lib.last_message(),
              "test_stencil: `x` has -4 to 7 in dimension 0, but the kernel reads -5 to 6 of it");
}

TEST(Shapes, MisalignedBases) {
    // K23: the base one element on, rows with a stride that is no multiple of anything; the two calls alternate.
    LoadedLibrary &lib = library("test_chain", "cpu avx2");
    for (int offset : {0, 1, 3, 5}) {
        Array<float> x({36, 7}, {1, 67}, offset), y({36, 7}, {1, 37}, 5 - offset);
        x.fill(offset);
        ChainCall call{x.buffer(), y.buffer()};
        ASSERT_EQ(call.run(lib), KILN_OK) << lib.last_message();
        for (int j = 0; j < 7; j++) {
            for (int i = 0; i < 36; i++) {
                ASSERT_EQ(y.at(i, j), std::max(2 * x.at(i, j) + 1, 0.0f));
            }
            // Between the rows of y nothing was written.
            ASSERT_EQ(y.at(36, j), -777.0f);
        }
    }
}

TEST(Shapes, StridesOfSingleElements) {
    LoadedLibrary &lib = library("test_chain", "cpu avx2");
    for (auto [s0, s1] : {std::pair(1, 1), std::pair(7, 1), std::pair(1, 7), std::pair(-5, 3)}) {
        Array<float> x({1, 6}), y({1, 6});
        x.fill(3);
        x.view.dim[0].stride = y.view.dim[0].stride = s0;
        ChainCall call{x.buffer(), y.buffer()};
        ASSERT_EQ(call.run(lib), KILN_OK) << lib.last_message();
        for (int j = 0; j < 6; j++) {
            ASSERT_EQ(y.data()[j], std::max(2 * x.data()[j] + 1, 0.0f));
        }
        EXPECT_EQ(y.view.dim[0].stride, s0) << "the caller's buffer is not changed";
        Array<float> row({6, 1}), out({6, 1});
        row.fill(4);
        row.view.dim[1].stride = s1;
        out.view.dim[1].stride = s0;
        ChainCall rows{row.buffer(), out.buffer()};
        ASSERT_EQ(rows.run(lib), KILN_OK) << lib.last_message();
        ASSERT_EQ(out.at(5), std::max(2 * row.at(5) + 1, 0.0f));
    }
}

TEST(Shapes, BesideAProtectedPage) {
    // K24: the last element of each buffer is the last before a page that cannot be touched.
    LoadedLibrary &chain = library("test_chain", "cpu avx2"), &stencil = library("test_stencil", "cpu avx2");
    constexpr size_t page = 4096;
    auto edge = [&] {
        char *p = static_cast<char *>(
            mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        mprotect(p + page, page, PROT_NONE);
        return reinterpret_cast<float *>(p + page);
    };
    float *x_end = edge(), *y_end = edge();
    for (int n = 1; n <= 67; n++) {
        float *x = x_end - n - 2, *y = y_end - n;
        std::fill(x_end - page / 4, x, std::nanf(""));
        for (int i = 0; i < n + 2; i++) {
            x[i] = static_cast<float>(i % 5 - 2);
        }
        View<float> xs(x, {n + 2}), ys(y, {n}), xc(x + 2, {n, 1}), yc(y, {n, 1});
        xs.set_min(0, -1);
        void *arguments[] = {xs.buffer(), ys.buffer()};
        ASSERT_EQ(stencil.call(nullptr, arguments), KILN_OK) << stencil.last_message();
        for (int i = 0; i < n; i++) {
            ASSERT_EQ(y[i], x[i] + x[i + 1] + x[i + 2]);
        }
        ChainCall call{xc.buffer(), yc.buffer()};
        ASSERT_EQ(call.run(chain), KILN_OK) << chain.last_message();
        for (int i = 0; i < n; i++) {
            ASSERT_EQ(y[i], std::max(2 * x[i + 2] + 1, 0.0f));
        }
    }
    munmap(reinterpret_cast<char *>(x_end) - page, 2 * page);
    munmap(reinterpret_cast<char *>(y_end) - page, 2 * page);
}

TEST(Shapes, BeyondTwoGigabytes) {
    // Three rows, 2^31 - 1 elements apart: addresses up to 2^34 bytes, of which a few pages exist.
    LoadedLibrary &lib = library("test_chain", "cpu avx2");
    constexpr int64_t stride = 2147483647, rows = 3, columns = 9;
    size_t bytes = static_cast<size_t>(stride * (rows - 1) + columns) * sizeof(float);
    void *p =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(p, MAP_FAILED);
    float *x = static_cast<float *>(p);
    for (int64_t j = 0; j < rows; j++) {
        for (int64_t i = 0; i < columns; i++) {
            x[j * stride + i] = static_cast<float>(10 * j + i);
        }
    }
    View<float> vx(x, {columns, rows}, {1, stride});
    Array<float> y({columns, rows});
    ChainCall call{vx.buffer(), y.buffer()};
    ASSERT_EQ(call.run(lib), KILN_OK) << lib.last_message();
    EXPECT_EQ(y.at(8, 2), 2 * 28.0f + 1);
    EXPECT_EQ(y.at(0, 1), 2 * 10.0f + 1);
    munmap(p, bytes);
}

TEST(Shapes, ManyThreads) {
    // K48: every answer equals the one of a single thread, bit for bit.
    LoadedLibrary &product = library("test_product", "cpu avx2"), &chain = library("test_chain", "cpu avx2");
    std::vector<std::thread> threads;
    std::atomic<int> wrong = 0;
    for (int t = 0; t < 20; t++) {
        threads.emplace_back([&, t] {
            Array<float> a({37, 11}), b({23, 37}), c({23, 11}), first({23, 11}), x({19, 3}), y({19, 3});
            a.fill(t);
            b.fill(t + 50);
            x.fill(t);
            for (int r = 0; r < 50; r++) {
                Array<float> &out = r == 0 ? first : c;
                void *arguments[] = {a.buffer(), b.buffer(), out.buffer()};
                wrong += product.call(nullptr, arguments) != KILN_OK;
                wrong += r > 0 && std::memcmp(c.data(), first.data(), 23 * 11 * sizeof(float)) != 0;
                ChainCall call{x.buffer(), y.buffer()};
                wrong += call.run(chain) != KILN_OK;
                wrong += y.at(18, 2) != std::max(2 * x.at(18, 2) + 1, 0.0f);
                // A message belongs to its own thread.
                x.view.dim[0].extent = 19 - t % 5;
                bool refused = call.run(chain) != KILN_OK;
                x.view.dim[0].extent = 19;
                wrong += refused != (t % 5 != 0);
                wrong += refused &&
                         chain.last_message() != "test_chain: `x` has 0 to " + std::to_string(18 - t % 5) +
                                                     " in dimension 0, but the kernel reads 0 to 18 of it";
            }
        });
    }
    for (std::thread &t : threads) {
        t.join();
    }
    EXPECT_EQ(wrong, 0);
}

TEST(Shapes, BfloatStorageTakesRawBits) {
    static TemporaryFolder folder;
    BuildRequest request = request_for("test_product", {"cpu avx2"}, folder.path());
    request.params["type"] = "bfloat16";
    request.function_name = "product_bf16";
    LoadedLibrary lib = load(request);
    auto bits = [](float f) {
        uint32_t u;
        std::memcpy(&u, &f, 4);
        return static_cast<uint16_t>(u >> 16);
    };
    std::vector<uint16_t> a(12), b(15);
    for (size_t i = 0; i < a.size(); i++) {
        a[i] = bits(static_cast<float>(i));
    }
    for (size_t i = 0; i < b.size(); i++) {
        b[i] = bits(static_cast<float>(i) - 7);
    }
    for (kiln_type type : {KILN_BFLOAT16, KILN_UINT16, KILN_FLOAT16}) {
        kiln_view va, vb;
        int64_t ea[] = {3, 4}, eb[] = {5, 3};
        kiln_view_host(&va, type, a.data(), 2, ea, nullptr);
        kiln_view_host(&vb, type, b.data(), 2, eb, nullptr);
        Array<float> c({5, 4});
        void *arguments[] = {&va.buffer, &vb.buffer, c.buffer()};
        if (type == KILN_FLOAT16) {
            EXPECT_EQ(lib.call(nullptr, arguments), KILN_INVALID_ARGUMENT);
            EXPECT_EQ(lib.last_message(),
                      "product_bf16: input `a` has type float16, the kernel needs bfloat16");
            continue;
        }
        ASSERT_EQ(lib.call(nullptr, arguments), KILN_OK) << lib.last_message();
        double expected = 0;
        for (int k = 0; k < 3; k++) {
            expected += (3 * 3 + k) * (5.0 * k + 4 - 7);
        }
        EXPECT_EQ(c.at(4, 3), expected);
    }
}

} // namespace
} // namespace kiln::test
