/** \file
 * The operations again, in plain C++ and double, from their formulas: nothing here is shared with dsl/ops. Each value
 * comes with how far a right kernel may be from it (docs/numerics.md).
 */
#pragma once

#include "dsl/check/Tolerance.h"
#include "tests/correctness/jit.h"

#include <functional>
#include <optional>

namespace kiln::test {

struct Expected {
    std::vector<int> extents;
    std::vector<double> value, bound;
};

inline Expected like(const std::vector<int> &extents) {
    return {extents, std::vector<double>(count(extents)), std::vector<double>(count(extents))};
}

/// Room for a value that took a few operations of float32 on numbers of size `size`, stored as `type`.
inline double few(const Halide::Type &type, double value, double size, int operations = 16) {
    return tolerance(type, Halide::Float(32), operations, value, size);
}

inline double gelu_of(double x) {
    return 0.5 * x * std::erfc(-x * std::sqrt(0.5));
}
inline double silu_of(double x) {
    return x / (1 + std::exp(-x));
}

inline Expected softmax_reference(const Tensor &x, bool log) {
    Expected e = like(x.extents);
    const int n = x.extents[0], rows = x.extents[1];
    for (int i = 0; i < rows; ++i) {
        double top = -INFINITY, sum = 0;
        for (int j = 0; j < n; ++j) {
            top = std::max(top, double(x({j, i})));
        }
        for (int j = 0; j < n; ++j) {
            sum += std::exp(x({j, i}) - top);
        }
        for (int j = 0; j < n; ++j) {
            size_t at = x.index({j, i});
            double d = x({j, i}) - top;
            double r = log ? d - std::log(sum) : std::exp(d) / sum;
            e.value[at] = r;
            e.bound[at] =
                few(x.type, r, log ? std::fabs(d) + std::log(sum) + 1 : r * (1 + std::fabs(d)), n + 16);
        }
    }
    return e;
}

/// layer_norm where `beta` is given, rms_norm elsewhere; x is what is normalized.
inline Expected norm_reference(const Tensor &x, const Tensor &gamma, const Tensor *beta, double eps) {
    Expected e = like(x.extents);
    const int n = x.extents[0], rows = x.extents[1];
    for (int i = 0; i < rows; ++i) {
        double mean = 0, sq = 0, size = 0;
        for (int j = 0; j < n; ++j) {
            size = std::max(size, double(std::fabs(x({j, i}))));
            mean += beta ? double(x({j, i})) / n : 0;
        }
        for (int j = 0; j < n; ++j) {
            sq += (x({j, i}) - mean) * (x({j, i}) - mean);
        }
        double inv = 1 / std::sqrt(sq / n + eps);
        for (int j = 0; j < n; ++j) {
            size_t at = x.index({j, i});
            double g = gamma({j}), b = beta ? double((*beta)({j})) : 0;
            double r = (x({j, i}) - mean) * inv * g + b;
            e.value[at] = r;
            e.bound[at] = few(
                x.type, r,
                (std::fabs(x({j, i})) + std::fabs(mean) + size) * inv * std::fabs(g) + std::fabs(b), n + 16);
        }
    }
    return e;
}

/// x(k, m), w(n, k) → sums at (n, m) with Σ|terms| as bounds, before any epilogue; `batch` by `batch`.
inline Expected product_reference(const Tensor &x, const Tensor &w, bool tx, bool tw) {
    const int k = x.extents[tx ? 1 : 0], m = x.extents[tx ? 0 : 1], n = w.extents[tw ? 1 : 0];
    const int batches = x.extents.size() > 2 ? x.extents[2] : 1;
    std::vector<int> extents = {n, m};
    if (x.extents.size() > 2) {
        extents.push_back(batches);
    }
    Expected e = like(extents);
    for (int b = 0; b < batches; ++b) {
        const float *xs = &x.values[size_t(b) * size_t(k) * size_t(m)],
                    *ws = &w.values[size_t(b) * size_t(k) * size_t(n)];
        for (int row = 0; row < m; ++row) {
            for (int column = 0; column < n; ++column) {
                double sum = 0, size = 0;
                for (int q = 0; q < k; ++q) {
                    double term = double(tx ? xs[row + q * m] : xs[q + row * k]) *
                                  double(tw ? ws[q + column * k] : ws[column + q * n]);
                    sum += term;
                    size += std::fabs(term);
                }
                size_t at = size_t(column) + size_t(n) * (size_t(row) + size_t(m) * size_t(b));
                e.value[at] = sum;
                e.bound[at] = size;
            }
        }
    }
    return e;
}

struct AttentionCase {
    std::function<bool(int i, int j)> allowed = [](int, int) { return true; }; ///< knows the lengths itself
    std::function<double(double s, int i, int j, int head)> change = [](double s, int, int, int) {
        return s;
    };
    std::optional<double> scale;
};

struct AttentionExpected {
    Expected out, lse;
};

inline AttentionExpected attention_reference(const Tensor &q, const Tensor &k, const Tensor &v,
                                             const AttentionCase &c) {
    const int d = q.extents[0], m = q.extents[1], heads = q.extents[2], batches = q.extents[3];
    const int n = k.extents[1], group = heads / k.extents[2], dv = v.extents[0];
    AttentionExpected e{like({dv, m, heads, batches}), like({m, heads, batches})};
    const double scale = c.scale.value_or(1 / std::sqrt(double(d)));
    for (int b = 0; b < batches; ++b) {
        for (int h = 0; h < heads; ++h) {
            for (int i = 0; i < m; ++i) {
                std::vector<double> s(size_t(n), -INFINITY);
                double top = -INFINITY, score_size = 0;
                for (int j = 0; j < n; ++j) {
                    if (!c.allowed(i, j)) {
                        continue;
                    }
                    double dot = 0, size = 0;
                    for (int x = 0; x < d; ++x) {
                        double term = double(q({x, i, h, b})) * k({x, j, h / group, b});
                        dot += term;
                        size += std::fabs(term);
                    }
                    s[size_t(j)] = c.change(dot * scale, i, j, h);
                    top = std::max(top, s[size_t(j)]);
                    score_size = std::max(score_size, size * std::fabs(scale) + std::fabs(s[size_t(j)]));
                }
                double l = 0;
                for (int j = 0; j < n; ++j) {
                    l += top == -INFINITY ? 0 : std::exp(s[size_t(j)] - top);
                }
                // A score that is off by δ changes its weight by the factor e^δ; D terms and the change make δ.
                double delta = 2 * (d + 16) * 0x1p-23 * score_size;
                for (int x = 0; x < dv; ++x) {
                    double o = 0, size = 0;
                    for (int j = 0; j < n && l > 0; ++j) {
                        double p = std::exp(s[size_t(j)] - top) / l;
                        if (p > 0) {
                            o += p * v({x, j, h / group, b});
                            size += p * std::fabs(v({x, j, h / group, b}));
                        }
                    }
                    size_t at =
                        size_t(x) +
                        size_t(dv) * (size_t(i) + size_t(m) * (size_t(h) + size_t(heads) * size_t(b)));
                    e.out.value[at] = o;
                    e.out.bound[at] = few(q.type, o, size, n + 32) + delta * size;
                }
                size_t at = size_t(i) + size_t(m) * (size_t(h) + size_t(heads) * size_t(b));
                e.lse.value[at] = l > 0 ? top + std::log(l) : -INFINITY;
                e.lse.bound[at] = l > 0 ? delta + few(Halide::Float(32), e.lse.value[at],
                                                      std::fabs(top) + std::log(l) + 1, n + 16)
                                        : 0;
            }
        }
    }
    return e;
}

/// "" where every value is within its bound, else the worst. NaN on one side only is a fault, and so is +-inf.
inline std::string differences(const Tensor &got, const Expected &want) {
    if (got.extents != want.extents) {
        return "extents differ";
    }
    size_t bad = 0, first = 0;
    for (size_t i = 0; i < got.values.size(); ++i) {
        double g = got.values[i], w = want.value[i];
        bool ok = std::isnan(w)   ? std::isnan(g)
                  : std::isinf(w) ? g == w
                                  : std::fabs(g - w) <= want.bound[i]; // false for NaN
        if (!ok) {
            first = bad ? first : i;
            ++bad;
        }
    }
    return bad == 0
               ? ""
               : std::to_string(bad) + " of " + std::to_string(got.values.size()) + " differ, the first at " +
                     std::to_string(first) + ": " + std::to_string(got.values[first]) + ", expected " +
                     std::to_string(want.value[first]) + " within " + std::to_string(want.bound[first]);
}

/// A schedule that runs every pipeline on `target`: each Func that has updates (or is an output) at the root.
inline void schedule_roots(LegalizedPipeline &pipeline, const Halide::Target &target) {
    auto at_root = [&](Halide::Func f) {
        f.compute_root();
        if (!target.has_gpu_feature()) {
            return;
        }
        auto on_gpu = [&](Halide::Stage stage) {
            std::vector<std::string> args = f.function().args();
            if (args.empty()) {
                stage.gpu_single_thread();
                return;
            }
            Halide::Var outer("outer"), inner("inner");
            stage.split(Halide::Var(args[0]), outer, inner, 8, Halide::TailStrategy::GuardWithIf)
                .gpu_threads(inner);
            stage.gpu_blocks(outer);
        };
        on_gpu(f);
        for (int u = 0; u < f.num_update_definitions(); ++u) {
            on_gpu(f.update(u));
        }
    };
    for (auto &[name, f] : pipeline.funcs) {
        bool output = false;
        for (const Halide::Func &o : pipeline.outputs) {
            output = output || o.function().same_as(f.function());
        }
        if (output || f.has_update_definition()) {
            at_root(f);
        }
    }
}

} // namespace kiln::test
