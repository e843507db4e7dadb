#include "dsl/check/Compare.h"

#include "dsl/check/Tolerance.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>
#include <set>

namespace kiln {

namespace {

constexpr int64_t run_length = 16;
constexpr size_t memory_to_keep = size_t(1) << 30;

std::string number(const Value &v, const Halide::Type &type) {
    return !type.is_float()
               ? type.is_uint() ? fmt::format("{}", static_cast<uint64_t>(v.i)) : fmt::format("{}", v.i)
           : std::isnan(v.v) ? "NaN"
                             : fmt::format("{:.9g}", v.v);
}

} // namespace

std::vector<std::vector<int>> sample_points(const std::vector<int64_t> &extents, int64_t max_points,
                                            uint64_t seed) {
    std::vector<std::vector<int>> points;
    if (extents.empty()) {
        return {{}};
    }
    int64_t total = 1;
    for (int64_t e : extents) {
        if (e == 0) {
            return {};
        }
        total *= std::min<int64_t>(e, (int64_t(1) << 40) / total + 1);
    }
    int64_t runs_per_row = (extents[0] + run_length - 1) / run_length;
    auto add_run = [&](std::vector<int> at, int64_t run) {
        for (int64_t x = run * run_length; x < std::min(extents[0], (run + 1) * run_length); x++) {
            at[0] = static_cast<int>(x);
            points.push_back(at);
        }
    };
    std::mt19937_64 rng(seed);
    std::set<std::pair<std::vector<int>, int64_t>> seen;
    // Corners: first, last and (up to rank 4) second index of each outer dimension, both ends of the row.
    size_t outer = extents.size() - 1;
    for (int64_t corner = 0; corner < (int64_t(1) << std::min<size_t>(outer, 5)); corner++) {
        std::vector<int> at(extents.size());
        for (size_t d = 0; d < outer; d++) {
            at[d + 1] = (corner >> std::min<size_t>(d, 4)) & 1 ? static_cast<int>(extents[d + 1] - 1) : 0;
        }
        for (int64_t run : {int64_t(0), runs_per_row - 1}) {
            if (seen.insert({at, run}).second) {
                add_run(at, run);
            }
        }
    }
    int64_t rows = 1;
    for (size_t d = 1; d < extents.size(); d++) {
        rows *= extents[d];
    }
    auto row_at = [&](int64_t row) {
        std::vector<int> at(extents.size());
        for (size_t d = 1; d < extents.size(); d++) {
            at[d] = static_cast<int>(row % extents[d]);
            row /= extents[d];
        }
        return at;
    };
    if (total <= max_points) {
        std::vector<int64_t> runs(rows * runs_per_row);
        for (size_t i = 0; i < runs.size(); i++) {
            runs[i] = static_cast<int64_t>(i);
        }
        std::shuffle(runs.begin(), runs.end(), rng);
        for (int64_t r : runs) {
            std::vector<int> at = row_at(r / runs_per_row);
            if (seen.insert({at, r % runs_per_row}).second) {
                add_run(at, r % runs_per_row);
            }
        }
        return points;
    }
    while (static_cast<int64_t>(points.size()) < max_points) {
        std::vector<int> at = row_at(static_cast<int64_t>(rng() % static_cast<uint64_t>(rows)));
        // Several runs of a row share what the row needs (a softmax's sum).
        for (int i = 0; i < 4; i++) {
            int64_t run = static_cast<int64_t>(rng() % static_cast<uint64_t>(runs_per_row));
            if (seen.insert({at, run}).second) {
                add_run(at, run);
            }
        }
    }
    return points;
}

Judgement judge(const Value &got, const Value &expected, const Halide::Type &type) {
    Judgement j;
    if (!type.is_float()) {
        j.bound = expected.terms_error;
        j.is_open = std::isinf(j.bound);
        j.error = std::abs(static_cast<double>(got.i) - static_cast<double>(expected.i));
        j.is_right = got.i == expected.i || j.error <= j.bound;
        return j;
    }
    j.bound = full_error(expected, type);
    if (std::isinf(j.bound)) {
        j.is_open = true;
        return j;
    }
    bool zero_may_flip = expected.adds > 0 || expected.zero_sign_is_open || j.bound > 0;
    if (std::isnan(expected.v) || std::isnan(got.v)) {
        j.is_right = std::isnan(expected.v) && std::isnan(got.v);
        j.error = j.is_right ? 0 : INFINITY;
        return j;
    }
    if (got.v == expected.v) {
        j.is_right = expected.v != 0 || zero_may_flip || std::signbit(got.v) == std::signbit(expected.v);
        return j;
    }
    j.error = std::abs(got.v - expected.v);
    // The reference is not rounded to the output's type unless the formula says so.
    j.bound += j.bound > 0 ? 0.01 * unit_roundoff(type) * std::abs(expected.v) : 0;
    if (std::abs(expected.v) < underflow_error(type) && !(type.bits() == 16 && !type.is_bfloat())) {
        j.bound = std::max(j.bound, std::abs(expected.v)); // subnormal results may be flushed
    }
    j.is_right = j.error <= j.bound;
    return j;
}

Comparison compare_points(Evaluator &evaluator, int output, int value_index,
                          const std::vector<std::vector<int>> &points,
                          const std::function<Value(const std::vector<int> &)> &got, double seconds) {
    const Halide::Type type = evaluator.output_types(output)[value_index];
    Comparison c;
    double worst = -1;
    auto start = std::chrono::steady_clock::now();
    for (const std::vector<int> &point : points) {
        if ((c.checked & 15) == 0 && c.checked >= 64) {
            std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
            if (passed.count() > seconds) {
                break;
            }
            if ((c.checked & 1023) == 0 && evaluator.bytes() > memory_to_keep) {
                evaluator.forget();
            }
        }
        Value expected = evaluator.at(output, value_index, point), actual = got(point);
        Judgement j = judge(actual, expected, type);
        c.checked++;
        c.open += j.is_open;
        double badness = j.error == 0 ? 0 : j.bound > 0 ? j.error / j.bound : INFINITY;
        if (!j.is_right && c.wrong++ == 0) {
            c.first_wrong = point;
            c.got = actual;
            c.expected = expected;
        }
        if (badness > worst) {
            worst = badness;
            c.error = j.error;
            c.bound = j.bound;
        }
    }
    return c;
}

std::string trivial_answer(Evaluator &evaluator, int output, int value_index,
                           const std::vector<std::vector<int>> &points,
                           const std::vector<std::function<Value(const std::vector<int> &)>> &inputs) {
    const Halide::Type type = evaluator.output_types(output)[value_index];
    std::vector<Value> expected;
    double sum = 0;
    int64_t finite = 0;
    for (const std::vector<int> &p : points) {
        expected.push_back(evaluator.at(output, value_index, p));
        double v = type.is_float() ? expected.back().v : static_cast<double>(expected.back().i);
        if (std::isfinite(v)) {
            sum += v;
            finite++;
        }
    }
    auto passes = [&](const std::function<Value(size_t)> &answer) {
        for (size_t i = 0; i < expected.size(); i++) {
            if (!judge(answer(i), expected[i], type).is_right) {
                return false;
            }
        }
        return !expected.empty();
    };
    auto constant = [&](double v) {
        Value value = type.is_float() ? float_value(round_to(v, type)) : int_value(type, std::llround(v));
        return passes([&](size_t) { return value; });
    };
    if (constant(0)) {
        return "zeros";
    }
    // One element is its own mean: such a task is judged by whether it depends on its inputs.
    if (finite > 0 && points.size() > 1 && constant(sum / static_cast<double>(finite))) {
        return "constant";
    }
    for (const auto &input : inputs) {
        if (passes([&](size_t i) { return input(points[i]); })) {
            return "identity";
        }
    }
    return "";
}

bool differ(const std::vector<Value> &a, const std::vector<Value> &b, const Halide::Type &type) {
    for (size_t i = 0; i < a.size(); i++) {
        if (!type.is_float()) {
            if (a[i].i != b[i].i) {
                return true;
            }
            continue;
        }
        bool both_nan = std::isnan(a[i].v) && std::isnan(b[i].v);
        if (!both_nan && !(a[i].v == b[i].v) &&
            !(std::abs(a[i].v - b[i].v) <= full_error(a[i], type) + full_error(b[i], type))) {
            return true;
        }
    }
    return false;
}

Diagnostic wrong_result(const std::string &argument, const Comparison &c, const Halide::Type &type,
                        bool is_untouched, const std::string &probe, uint64_t seed) {
    Diagnostic d;
    d.code = "K0806";
    std::string where = fmt::format("`{}` at ({})", argument, fmt::join(c.first_wrong, ", "));
    double bound = type.is_float() ? full_error(c.expected, type) : c.expected.terms_error;
    std::string expected = bound > 0 ? fmt::format("{} ± {:.3g}", number(c.expected, type), bound)
                                     : fmt::format("exactly {}", number(c.expected, type));
    d.message = is_untouched ? fmt::format("{} was never written, it should be {}", where, expected)
                             : fmt::format("{} is {}, it should be {}", where, number(c.got, type), expected);
    d.notes = {
        fmt::format("{} of the {} elements that were compared are wrong, with {}", c.wrong, c.checked, probe),
        fmt::format("seed {}", seed)};
    d.helps = {fmt::format("`kiln check --seed {}` repeats this run", seed)};
    return d;
}

} // namespace kiln
