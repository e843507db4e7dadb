// Products: bound by arithmetic, measured beside OpenBLAS.
#include "tour.h"

#include "attention_cpu.h"
#include "attention_cuda.h"
#include "attention_opencl.h"
#include "gemm_cpu.h"
#include "gemm_cuda.h"
#include "gemm_opencl.h"

#include <cblas.h>

#include <algorithm>
#include <cmath>

namespace {

using tour::Array;
using tour::epsilon;
using tour::Problem;

int gemm() {
    const int64_t n = 512;
    Array x("x", {n, n}), w("w", {n, n}), y("y", {n, n}), z("z", {n, n});
    x.fill(1), w.fill(2);
    Problem problem{"gemm", "512x512x512", {x, w, y}, &y, {}, {}, 2.0 * n * n * n, 3.0 * 4 * n * n, "", {}};
    for (int64_t i = 0; i < n; i++) {
        std::vector<double> row(n), magnitude(n);
        for (int64_t k = 0; k < n; k++) {
            for (int64_t j = 0; j < n; j++) {
                double product = double(x.data[i * n + k]) * w.data[k * n + j];
                row[j] += product;
                magnitude[j] += std::abs(product);
            }
        }
        problem.expected.insert(problem.expected.end(), row.begin(), row.end());
        for (double sum : magnitude) {
            problem.bound.push_back((n + 2) * 2 * epsilon * sum); // n products and sums in any order
        }
    }
    problem.baseline_name = "OpenBLAS";
    problem.baseline = [&] {
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1, x.data.data(), n, w.data.data(), n,
                    0, z.data.data(), n);
    };
    return tour::run(problem, TOUR_BUILDS(gemm));
}

/// What a program without a fused kernel does: two products of OpenBLAS a head and a softmax between them.
void attention_by_blas(int64_t d, int64_t length, int64_t heads, const Array &q, const Array &k,
                       const Array &v, Array &scores, Array &out) {
    const float scale = 1 / std::sqrt(float(d));
    for (int64_t h = 0; h < heads; h++) {
        const int64_t at = h * length * d;
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, length, length, d, scale, &q.data[at], d,
                    &k.data[at], d, 0, scores.data.data(), length);
        for (int64_t i = 0; i < length; i++) {
            float *row = &scores.data[i * length], largest = *std::max_element(row, row + length), sum = 0;
            for (int64_t j = 0; j < length; j++) {
                sum += row[j] = std::exp(row[j] - largest);
            }
            for (int64_t j = 0; j < length; j++) {
                row[j] /= sum;
            }
        }
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, length, d, length, 1, scores.data.data(),
                    length, &v.data[at], d, 0, &out.data[at], d);
    }
}

int attention() {
    const int64_t d = 64, length = 256, heads = 4;
    Array q("q", {d, length, heads, 1}), k("k", {d, length, heads, 1}), v("v", {d, length, heads, 1}),
        y("y", {d, length, heads, 1}), z("z", {d, length, heads, 1}), scores("scores", {length, length});
    q.fill(1), k.fill(2), v.fill(3);
    const double flops = 4.0 * heads * length * length * d, bytes = 4.0 * 4 * d * length * heads;
    Problem problem{"attention", "B1 H4 N256 D64", {q, k, v, y}, &y, {}, {}, flops, bytes, "", {}};
    for (int64_t row = 0; row < heads * length; row++) {
        const int64_t first = row / length * length; // of this head's keys
        std::vector<double> score(length), out(d), magnitude(d);
        double largest = -INFINITY, sum = 0, off = 0;
        for (int64_t j = 0; j < length; j++) {
            double size = 0;
            for (int64_t e = 0; e < d; e++) {
                double product =
                    double(q.data[row * d + e]) * k.data[(first + j) * d + e] / std::sqrt(double(d));
                score[j] += product;
                size += std::abs(product);
            }
            largest = std::max(largest, score[j]);
            off = std::max(off, (d + 4) * 2 * epsilon * size);
        }
        for (int64_t j = 0; j < length; j++) {
            score[j] = std::exp(score[j] - largest);
            sum += score[j];
        }
        for (int64_t j = 0; j < length; j++) {
            for (int64_t e = 0; e < d; e++) {
                double part = score[j] / sum * v.data[(first + j) * d + e];
                out[e] += part;
                magnitude[e] += std::abs(part);
            }
        }
        for (int64_t e = 0; e < d; e++) {
            problem.expected.push_back(out[e]);
            // A score that is off by `off` changes its weight by that share, above and below the line; then two sums
            // over the keys and an exp in each of their terms.
            problem.bound.push_back((2 * off + 2 * (length + 2) * 2 * epsilon + 16 * epsilon) * magnitude[e]);
        }
    }
    problem.baseline_name = "OpenBLAS and a softmax";
    problem.baseline = [&] { attention_by_blas(d, length, heads, q, k, v, scores, z); };
    return tour::run(problem, TOUR_BUILDS(attention));
}

} // namespace

int main() {
    return gemm() + attention();
}
