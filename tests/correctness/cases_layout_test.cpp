/** \file
 * Where operands lie: bases one element on, rows longer than they need be, single columns with odd strides, ends at a
 * page that cannot be touched, NaN on all sides.
 */
#include "cases_support.h"

#include <sys/mman.h>

namespace kiln::test {
namespace {

const kiln_type types[] = {KILN_FLOAT32, KILN_BFLOAT16, KILN_FLOAT16};

// ---- K23

struct Product {
    Tensor x, w, y;
    Product(kiln_type type, int64_t m, int64_t n, int64_t k, const Layout &lx, const Layout &lw,
            const Layout &ly)
        : x(type, {k, m}, lx), w(type, {n, k}, lw), y(type, {n, m}, ly) {
        x.fill(unsigned(m), 0x1p-3);
        w.fill(unsigned(n + 7), 0x1p-3);
    }
    void check(LoadedLibrary &lib, kiln_type type, const std::string &what) {
        ASSERT_EQ(call(lib, {&x, &w}, {&y}), KILN_OK) << what << ": " << lib.last_message();
        int64_t wrong = 0;
        y.each([&](const std::vector<int64_t> &at) {
            double sum = 0; // exact in float32 in any order: multiples of 1/64 below 2^10
            for (int64_t k = 0; k < x.extent(0); k++) {
                sum += x.get({k, at[1]}) * w.get({at[0], k});
            }
            wrong += !close(y.get(at), sum, type == KILN_FLOAT32 ? 0 : unit_of(type) * std::abs(sum));
        });
        EXPECT_EQ(wrong, 0) << what << " " << name_of(type);
        EXPECT_TRUE(y.surroundings_untouched()) << what << " " << name_of(type);
    }
};

TEST(CasesLayout, ProductsOfOperandsThatLieOddly) {
    for (auto [target, schedule] : {std::pair("cpu avx2", "gemm/cpu_avx2.sched"), std::pair("cpu avx2", ""),
                                    std::pair("opencl", "gemm/opencl.sched")}) {
        for (kiln_type type : types) {
            LoadedLibrary &lib = kernel({"gemm", target, {{"type", name_of(type)}}, schedule});
            auto check = [&](Product &&p, const std::string &what) {
                p.check(lib, type, what + " " + target);
            };
            for (int round = 0; round < 2; round++) { // aligned and not, in turn, in one process
                check(Product(type, 13, 70, 36, {}, {}, {}), "dense");
                check(Product(type, 13, 70, 36, {{}, 1}, {{}, 1}, {{}, 1}), "one element on");
                check(Product(type, 97, 65, 36, {{1, 64}, 1}, {{1, 80}, 3}, {{1, 129}, 1}), "long rows");
            }
            for (auto [s0, s1] : {std::pair(1, 1), std::pair(7, 1), std::pair(1, 7)}) {
                std::string what = "N 1, strides " + std::to_string(s0) + "," + std::to_string(s1);
                check(Product(type, 9, 1, 36, {}, {{s0, s1}}, {{s0, s1}}), what);
                check(Product(type, 1, 9, 36, {{1, s0}}, {}, {{1, s1}}), "M 1, " + what);
                check(Product(type, 9, 33, 1, {{s0, s1}}, {}, {}), "K 1, " + what);
            }
        }
    }
}

TEST(CasesLayout, ChainsOneElementOn) {
    for (auto [target, schedule] :
         {std::pair("cpu avx2", "chain_relu/cpu_avx2.sched"), std::pair("cpu avx2", ""),
          std::pair("opencl", "chain_relu/opencl.sched")}) {
        for (kiln_type type : types) {
            LoadedLibrary &lib = kernel({"chain_relu", target, {{"type", name_of(type)}}, schedule});
            for (int64_t n : {1, 7, 67, 2048, 2049}) {
                for (int64_t offset : {0, 1, 0, 3}) {
                    Tensor x(type, {n}, {{}, offset}), y(type, {n}, {{}, 4 - offset});
                    x.fill(unsigned(n));
                    ASSERT_EQ(call(lib, {&x}, {&y}, {2, 0.5}), KILN_OK) << lib.last_message();
                    int64_t wrong = 0;
                    y.each([&](const std::vector<int64_t> &at) {
                        wrong += y.get(at) != std::max(2 * x.get(at) + 0.5, 0.0);
                    });
                    EXPECT_EQ(wrong, 0)
                        << target << " " << name_of(type) << " n " << n << " offset " << offset;
                    EXPECT_TRUE(y.surroundings_untouched());
                }
            }
        }
    }
}

// ---- K24

/// Floats that end at a page which cannot be touched, or begin behind one; NaN up to the other end.
class Page {
public:
    Page() {
        p_ = static_cast<char *>(
            mmap(nullptr, 3 * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        mprotect(p_, bytes, PROT_NONE);
        mprotect(p_ + 2 * bytes, bytes, PROT_NONE);
    }
    ~Page() { munmap(p_, 3 * bytes); }
    float *take(int64_t n, bool at_end) {
        float *begin = reinterpret_cast<float *>(p_ + bytes),
              *end = reinterpret_cast<float *>(p_ + 2 * bytes);
        std::fill(begin, end, NAN);
        first_ = at_end ? end - n : begin;
        n_ = n;
        return first_;
    }
    bool surroundings_untouched() const {
        const float *begin = reinterpret_cast<float *>(p_ + bytes),
                    *end = reinterpret_cast<float *>(p_ + 2 * bytes);
        for (const float *f = begin; f < end; f++) {
            if ((f < first_ || f >= first_ + n_) && !std::isnan(*f)) {
                return false;
            }
        }
        return true;
    }
    bool untouched() const {
        return surroundings_untouched() && std::isnan(first_[0]) && std::isnan(first_[n_ - 1]);
    }

private:
    static constexpr size_t bytes = 8192;
    char *p_;
    float *first_ = nullptr;
    int64_t n_ = 0;
};

TEST(CasesLayout, TailsAtAProtectedPage) {
    const char *tails[] = {
        "RoundUp",      "GuardWithIf",          "Predicate",      "PredicateLoads", "PredicateStores",
        "ShiftInwards", "ShiftInwardsAndBlend", "RoundUpAndBlend"};
    int built = 0, right = 0, refused = 0;
    Page pages[6];
    for (const std::string tail : tails) {
        for (int lanes : {4, 8, 16}) {
            std::string text = "schedule s {\n  op case_edges\n  target cpu avx2\n";
            for (const char *output : {"chain", "stencil", "gemv"}) {
                text += "  " + std::string(output) + ".vectorize(i, " + std::to_string(lanes) + ", " + tail +
                        ");\n";
            }
            text += "  sum.compute_root().vectorize(i, " + std::to_string(lanes) +
                    ");\n  sum.update().vectorize(i, " + std::to_string(lanes) + ");\n}\n";
            Build b{"case_edges", "cpu avx2", {}, text};
            LoadedLibrary &lib = kernel(b);
            built++;
            for (int64_t n = 1; n <= 67; n++) {
                for (bool at_end : {true, false}) {
                    int64_t sizes[] = {n, n + 2, 5 * n, n, n, n};
                    float *p[6];
                    for (int i = 0; i < 6; i++) {
                        p[i] = pages[i].take(sizes[i], at_end);
                        for (int64_t e = 0; i < 3 && e < sizes[i]; e++) {
                            p[i][e] = float(e * 7 % 11 - 5);
                        }
                    }
                    View<float> x(p[0], {n}), wide(p[1], {n + 2}), a(p[2], {n, 5}), y0(p[3], {n}),
                        y1(p[4], {n}), y2(p[5], {n});
                    wide.set_min(0, -1);
                    void *arguments[] = {x.buffer(),  wide.buffer(), a.buffer(),
                                         y0.buffer(), y1.buffer(),   y2.buffer()};
                    int status = lib.call(nullptr, arguments);
                    std::string what = tail + " " + std::to_string(lanes) + " n " + std::to_string(n);
                    if (status != KILN_OK) {
                        ASSERT_EQ(status, KILN_INVALID_ARGUMENT) << what << lib.last_message();
                        ASSERT_FALSE(lib.last_message().empty());
                        ASSERT_TRUE(n % lanes != 0) << what << ": " << lib.last_message();
                        for (int i = 3; i < 6; i++) {
                            ASSERT_TRUE(pages[i].untouched()) << what;
                        }
                        refused++;
                        continue;
                    }
                    for (int64_t i = 0; i < n; i++) {
                        float sum = 0;
                        for (int r = 0; r < 5; r++) {
                            sum += p[2][r * n + i] * float(r + 1);
                        }
                        ASSERT_EQ(p[3][i], std::max(2 * p[0][i] + 1, 0.0f)) << what;
                        ASSERT_EQ(p[4][i], p[1][i] + p[1][i + 1] + p[1][i + 2]) << what;
                        ASSERT_EQ(p[5][i], sum) << what;
                    }
                    for (int i = 3; i < 6; i++) {
                        ASSERT_TRUE(pages[i].surroundings_untouched()) << what;
                    }
                    right++;
                }
            }
        }
    }
    EXPECT_EQ(built, 24);
    // GuardWithIf and Predicate, the two without conditions, fit every size.
    EXPECT_GE(right, 2 * 3 * 67 * 2);
    EXPECT_GT(refused, 0) << "RoundUp must refuse what it cannot do";
}

TEST(CasesLayout, NaNBehindARowStaysOutOfItsSum) {
    Page pages[3];
    for (const char *lanes : {"4", "8", "16"}) {
        std::string text =
            std::string("schedule s {\n  op case_dot\n  target cpu avx2\n  sum.compute_root();\n"
                        "  sum.update().atomic().vectorize(r, ") +
            lanes + ");\n}\n";
        LoadedLibrary &lib = kernel({"case_dot", "cpu avx2", {}, text});
        for (int64_t n = 1; n <= 67; n++) {
            const int64_t rows = 3, stride = n + 5; // NaN between the rows
            float *a = pages[0].take(stride * (rows - 1) + n, true), *x = pages[1].take(n, true),
                  *y = pages[2].take(rows, true);
            double want[rows] = {};
            for (int64_t i = 0; i < n; i++) {
                x[i] = float(i % 5 - 2);
                for (int64_t r = 0; r < rows; r++) {
                    a[r * stride + i] = float((i + r) % 7 - 3);
                    want[r] += double(a[r * stride + i]) * x[i];
                }
            }
            View<float> va(a, {n, rows}, {1, stride}), vx(x, {n}), vy(y, {rows});
            void *arguments[] = {va.buffer(), vx.buffer(), vy.buffer()};
            ASSERT_EQ(lib.call(nullptr, arguments), KILN_OK) << lib.last_message();
            for (int64_t r = 0; r < rows; r++) {
                ASSERT_EQ(y[r], want[r]) << "n " << n << " lanes " << lanes;
            }
        }
    }
}

} // namespace
} // namespace kiln::test
