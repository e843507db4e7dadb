/** \file
 * Kernels called from many threads at once: each answer equals the one of a single thread, bit for bit.
 */
#include "cases_support.h"

#include <atomic>
#include <memory>
#include <thread>

namespace kiln::test {
namespace {

// ---- K48

struct Product {
    Tensor x, w, y, alone;
    Product(int64_t m, int64_t n, int64_t k, unsigned seed)
        : x(KILN_FLOAT32, {k, m}), w(KILN_FLOAT32, {n, k}), y(KILN_FLOAT32, {n, m}),
          alone(KILN_FLOAT32, {n, m}) {
        std::mt19937 random(seed);
        for (Tensor *t : {&x, &w}) { // no small integers: another order of the sum would show
            t->each(
                [&](const std::vector<int64_t> &at) { t->set(at, float(random()) / float(1u << 31) - 1); });
        }
    }
    void clear() {
        y.each([&](const std::vector<int64_t> &at) { y.set(at, 77); });
    }
};

TEST(CasesThreads, EveryAnswerIsThatOfASingleThread) {
    LoadedLibrary &gemm = kernel({"gemm", "cpu avx2", {}, "gemm/cpu_avx2.sched"});
    LoadedLibrary &chain = kernel({"chain_relu", "cpu avx2", {}, "chain_relu/cpu_avx2.sched"});
    constexpr int threads = 20, calls = 500, shapes = 10;
    std::vector<std::vector<std::unique_ptr<Product>>> work(threads);
    std::vector<std::unique_ptr<Tensor>> xs, ys;
    std::mt19937 random(48);
    auto size = [&] { return int64_t(random() % 37 + 1); };
    for (int t = 0; t < threads; t++) {
        for (int s = 0; s < shapes; s++) {
            // The last one has several tasks: threads of the pool work for callers at once.
            work[size_t(t)].push_back(s + 1 < shapes
                                          ? std::make_unique<Product>(size(), size(), size(), random())
                                          : std::make_unique<Product>(24, 320, 72, random()));
            Product &p = *work[size_t(t)].back();
            ASSERT_EQ(call(gemm, {&p.x, &p.w}, {&p.alone}), KILN_OK) << gemm.last_message();
        }
        xs.push_back(std::make_unique<Tensor>(KILN_FLOAT32, std::vector<int64_t>{70000 + t}));
        ys.push_back(std::make_unique<Tensor>(KILN_FLOAT32, std::vector<int64_t>{70000 + t}));
        xs.back()->fill(unsigned(t));
    }
    std::atomic<int> wrong = 0;
    std::vector<std::thread> callers;
    for (int t = 0; t < threads; t++) {
        callers.emplace_back([&, t] {
            auto random_calls = std::mt19937(unsigned(t));
            Tensor &x = *xs[size_t(t)], &y = *ys[size_t(t)];
            for (int c = 0; c < calls; c++) {
                Product &p = *work[size_t(t)][c % 25 == 0 ? shapes - 1 : random_calls() % (shapes - 1)];
                p.clear();
                wrong += call(gemm, {&p.x, &p.w}, {&p.y}) != KILN_OK;
                wrong += !p.y.same_values(p.alone);
                wrong += call(chain, {&x}, {&y}, {2, 0.5}) != KILN_OK;
                int64_t last = x.extent(0) - 1 - c;
                wrong += y.get({last}) != std::max(2 * x.get({last}) + 0.5, 0.0);
            }
        });
    }
    for (std::thread &t : callers) {
        t.join();
    }
    EXPECT_EQ(wrong, 0);
    for (int t = 0; t < threads; t++) {
        int64_t off = 0;
        ys[size_t(t)]->each([&](const std::vector<int64_t> &at) {
            off += ys[size_t(t)]->get(at) != std::max(2 * xs[size_t(t)]->get(at) + 0.5, 0.0);
        });
        EXPECT_EQ(off, 0) << t;
        EXPECT_TRUE(ys[size_t(t)]->surroundings_untouched());
    }
}

} // namespace
} // namespace kiln::test
