#include "dsl/target/CalibrateCpu.h"

#include "dsl/target/Detect.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace kiln {

namespace {

double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// The least time of several rounds in which `threads` threads each run `work(thread)`, started together.
double best_time(int threads, double seconds, const std::function<void(int)> &work) {
    double best = 1e30, end = now() + seconds;
    for (int round = 0; round < 3 || now() < end; round++) {
        std::atomic<int> ready{0};
        std::atomic<bool> go{false};
        std::vector<std::thread> pool;
        std::vector<double> starts(threads), ends(threads);
        for (int t = 0; t < threads; t++) {
            pool.emplace_back([&, t] {
                ready++;
                while (!go) {
                    std::this_thread::yield();
                }
                starts[t] = now();
                work(t);
                ends[t] = now();
            });
        }
        while (ready < threads) {
            std::this_thread::yield();
        }
        go = true;
        for (std::thread &t : pool) {
            t.join();
        }
        best = std::min(best, *std::max_element(ends.begin(), ends.end()) -
                                  *std::min_element(starts.begin(), starts.end()));
    }
    return best;
}

void copy_plain(char *to, const char *from, size_t bytes) {
    std::memcpy(to, from, bytes);
}

#if defined(__x86_64__)
__attribute__((target("avx"))) void copy_streaming(char *to, const char *from, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 64) {
        __m256 a = _mm256_load_ps(reinterpret_cast<const float *>(from + i));
        __m256 b = _mm256_load_ps(reinterpret_cast<const float *>(from + i + 32));
        _mm256_stream_ps(reinterpret_cast<float *>(to + i), a);
        _mm256_stream_ps(reinterpret_cast<float *>(to + i + 32), b);
    }
    _mm_sfence();
}

// 12 independent chains cover a latency of 4 at two a cycle, and fit in 16 registers with the two operands. They are
// written out because an array would go through memory. Each function returns the operations it did; the asm
// statements keep the compiler from dropping results that nobody uses.
constexpr int chains = 12;
constexpr int64_t rounds = 2'000'000;

#define KILN_EACH(M, X)                                                                                      \
    M(0, X) M(1, X) M(2, X) M(3, X) M(4, X) M(5, X) M(6, X) M(7, X) M(8, X) M(9, X) M(10, X) M(11, X)
#define KILN_START(I, SET) auto acc##I = SET(1.0f + I);
#define KILN_STEP(I, OPERATION)                                                                              \
    acc##I = OPERATION(acc##I);                                                                              \
    asm volatile("" : "+v"(acc##I));
#define KILN_PEAK(NAME, TARGET, SET, OPERATION, LANES, OPS)                                                  \
    __attribute__((target(TARGET))) double NAME() {                                                          \
        auto a = SET(0.999f), b = SET(0.001f);                                                               \
        KILN_EACH(KILN_START, SET)                                                                           \
        for (int64_t r = 0; r < rounds; r++) {                                                               \
            KILN_EACH(KILN_STEP, OPERATION)                                                                  \
        }                                                                                                    \
        return static_cast<double>(rounds) * chains * (LANES) * (OPS);                                       \
    }

#define KILN_F32_SSE41(X) _mm_add_ps(_mm_mul_ps(X, a), b)
#define KILN_F64_SSE41(X) _mm_add_pd(_mm_mul_pd(X, a), b)
#define KILN_F32_AVX2(X) _mm256_fmadd_ps(X, a, b)
#define KILN_F64_AVX2(X) _mm256_fmadd_pd(X, a, b)
#define KILN_F32_AVX512(X) _mm512_fmadd_ps(X, a, b)
#define KILN_F64_AVX512(X) _mm512_fmadd_pd(X, a, b)
KILN_PEAK(peak_f32_sse41, "sse4.1", _mm_set1_ps, KILN_F32_SSE41, 4, 2)
KILN_PEAK(peak_f64_sse41, "sse4.1", _mm_set1_pd, KILN_F64_SSE41, 2, 2)
KILN_PEAK(peak_f32_avx2, "avx2,fma", _mm256_set1_ps, KILN_F32_AVX2, 8, 2)
KILN_PEAK(peak_f64_avx2, "avx2,fma", _mm256_set1_pd, KILN_F64_AVX2, 4, 2)
KILN_PEAK(peak_f32_avx512, "avx512f", _mm512_set1_ps, KILN_F32_AVX512, 16, 2)
KILN_PEAK(peak_f64_avx512, "avx512f", _mm512_set1_pd, KILN_F64_AVX512, 8, 2)

#define KILN_BF16(X) _mm512_dpbf16_ps(X, pairs, pairs)
__attribute__((target("avx512f,avx512bf16"))) double peak_bf16() {
    __m512bh pairs = _mm512_cvtne2ps_pbh(_mm512_set1_ps(0.5f), _mm512_set1_ps(0.25f));
    KILN_EACH(KILN_START, _mm512_set1_ps)
    for (int64_t r = 0; r < rounds; r++) {
        KILN_EACH(KILN_STEP, KILN_BF16)
    }
    return static_cast<double>(rounds) * chains * 32 * 2;
}

// Four sums of 16 x 16 from operands that stay in their tiles: 16 cycles an instruction, 52 until its result is there.
__attribute__((target("amx-tile,amx-bf16"))) double peak_amx() {
    static const struct alignas(64) Config {
        uint8_t palette = 1, start_row = 0, reserved[14] = {};
        uint16_t bytes_a_row[16] = {64, 64, 64, 64, 64, 64, 64, 64};
        uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    } config;
    alignas(64) static const uint16_t operand[512] = {};
    _tile_loadconfig(&config);
    _tile_loadd(4, operand, 64);
    _tile_loadd(5, operand, 64);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t r = 0; r < rounds / 8; r++) {
        _tile_dpbf16ps(0, 4, 5);
        _tile_dpbf16ps(1, 4, 5);
        _tile_dpbf16ps(2, 4, 5);
        _tile_dpbf16ps(3, 4, 5);
    }
    _tile_release();
    return static_cast<double>(rounds / 8) * 4 * 16 * 16 * 32 * 2;
}

struct Peak {
    const char *feature, *type;
    double (*run)();
};
constexpr Peak peaks[] = {
    {"sse41", "float32", peak_f32_sse41},   {"sse41", "float64", peak_f64_sse41},
    {"avx2", "float32", peak_f32_avx2},     {"avx2", "float64", peak_f64_avx2},
    {"avx512", "float32", peak_f32_avx512}, {"avx512", "float64", peak_f64_avx512},
    {"avx512_bf16", "bfloat16", peak_bf16}, {"amx", "bfloat16", peak_amx},
};
#else
struct Peak {
    const char *feature, *type;
    double (*run)();
};
double peak_f32_base() {
    using Vector __attribute__((vector_size(16))) = float;
    constexpr int64_t rounds = 2'000'000;
    Vector acc[12] = {};
    Vector a = {0.999f, 0.999f, 0.999f, 0.999f}, b = {0.001f, 0.001f, 0.001f, 0.001f};
    for (int64_t r = 0; r < rounds; r++) {
        for (Vector &v : acc) {
            for (int l = 0; l < 4; l++) {
                v[l] = __builtin_fmaf(v[l], a[l], b[l]);
            }
        }
        asm volatile("" ::: "memory");
    }
    for (Vector &v : acc) {
        asm volatile("" : : "w"(v));
    }
    return static_cast<double>(rounds) * 12 * 4 * 2;
}
constexpr Peak peaks[] = {{"", "float32", peak_f32_base}};
#endif

bool has_feature(const Device &device, const char *feature) {
    const bool has = !*feature || std::find(device.features.begin(), device.features.end(), feature) !=
                                      device.features.end();
    return has &&
           (std::string_view(feature) != "amx" || permit_amx()); // another process may have detected it
}

double copy_speed(int threads, size_t bytes, double seconds, void (*copy)(char *, const char *, size_t)) {
    size_t each = bytes / threads / 4096 * 4096;
    auto free_aligned = [](char *p) { std::free(p); };
    std::unique_ptr<char, decltype(free_aligned)> from(
        static_cast<char *>(std::aligned_alloc(4096, each * threads)), free_aligned);
    std::unique_ptr<char, decltype(free_aligned)> to(
        static_cast<char *>(std::aligned_alloc(4096, each * threads)), free_aligned);
    std::memset(from.get(), 1, each * threads);
    std::memset(to.get(), 2, each * threads);
    // Small arrays are copied several times in a round, or starting threads would be what is measured.
    int repeats = std::max<int>(1, static_cast<int>((size_t(64) << 20) / (each * threads)));
    double best = best_time(threads, seconds, [&](int t) {
        for (int r = 0; r < repeats; r++) {
            copy(to.get() + t * each, from.get() + t * each, each);
        }
    });
    return 2.0 * static_cast<double>(each) * threads * repeats / best;
}

} // namespace

std::string utc_now() {
    std::time_t t = std::time(nullptr);
    std::tm tm{};
    gmtime_r(&t, &tm);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm);
    return text;
}

Ceilings calibrate_cpu(const Device &device, const Progress &progress) {
    Ceilings c;
    c.units = std::max(1, device.units);
    auto say = [&](double done, const std::string &what) {
        if (progress) {
            progress(done, what);
        }
    };
    say(0, "copying memory");
    // Each array four times the last cache, but not so large that page tables are what is measured.
    size_t large =
        std::clamp<size_t>(static_cast<size_t>(device.cache_bytes) * 4, size_t(64) << 20, size_t(512) << 20);
    for (int threads : {1, c.units}) {
        std::string suffix = threads == c.units ? "" : "/1";
        c.copy_ways["memcpy" + suffix] = copy_speed(threads, large, 0.3, copy_plain);
#if defined(__x86_64__)
        if (has_feature(device, "avx2")) {
            c.copy_ways["non_temporal" + suffix] = copy_speed(threads, large, 0.3, copy_streaming);
        }
#endif
        if (c.units == 1) {
            break;
        }
    }
    for (const auto &[way, speed] : c.copy_ways) {
        c.copy_bytes_per_s = std::max(c.copy_bytes_per_s, speed);
    }
    size_t small = std::max<size_t>(static_cast<size_t>(device.cache_bytes) / 4, size_t(64) << 10);
    c.cached_copy_bytes_per_s = copy_speed(c.units, small, 0.2, copy_plain);
    double done = 0.5;
    for (const Peak &peak : peaks) {
        if (!has_feature(device, peak.feature)) {
            continue;
        }
        say(done,
            fmt::format("multiplying {} with {}", peak.type, *peak.feature ? peak.feature : "no feature"));
        done = std::min(0.95, done + 0.1);
        double operations = 0;
        double seconds = best_time(c.units, 0.15, [&](int t) {
            double n = peak.run();
            if (t == 0) {
                operations = n;
            }
        });
        double rate = operations * c.units / seconds;
        c.flops[fmt::format("{}/{}", peak.type, peak.feature)] = rate;
        double &best = c.flops[peak.type];
        best = std::max(best, rate);
    }
    c.date = utc_now();
    return c;
}

} // namespace kiln
