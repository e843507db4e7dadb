#include "tour.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <random>

namespace tour {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_of(const std::function<void()> &work, int times) {
    Clock::time_point start = Clock::now();
    for (int i = 0; i < times; i++) {
        work();
    }
    return std::chrono::duration<double>(Clock::now() - start).count() / times;
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    size_t half = values.size() / 2;
    return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/// Medians of alternating turns: what disturbs one disturbs the other.
struct Times {
    double candidate, baseline, ratio;
};
Times compare(const std::function<void()> &candidate, const std::function<void()> &baseline) {
    constexpr int rounds = 11;
    constexpr double turn = 0.02; // seconds
    auto repeats = [&](const std::function<void()> &work) {
        return std::max(1, static_cast<int>(turn / std::max(seconds_of(work, 1), 1e-7)));
    };
    candidate();
    baseline();
    const int of_candidate = repeats(candidate), of_baseline = repeats(baseline);
    std::vector<double> candidates, baselines, ratios;
    for (int round = 0; round < rounds; round++) {
        candidates.push_back(seconds_of(candidate, of_candidate));
        baselines.push_back(seconds_of(baseline, of_baseline));
        ratios.push_back(baselines.back() / candidates.back());
    }
    return {median(candidates), median(baselines), median(ratios)};
}

/// The arguments of one call: views of the arrays, which live on the device once they are there.
class Call {
public:
    Call(const Problem &problem, const Build &build) : device_(build.device ? build.device() : nullptr) {
        views_.resize(problem.arguments.size());
        for (size_t i = 0; i < problem.arguments.size(); i++) {
            const Argument &argument = problem.arguments[i];
            if (!argument.array) {
                arguments_.push_back(const_cast<float *>(argument.scalar));
                continue;
            }
            Array &array = *argument.array;
            kiln_view_host(&views_[i], KILN_FLOAT32, array.data.data(),
                           static_cast<int>(array.extents.size()), array.extents.data(), nullptr);
            // A kernel for a device copies to it what the host has written.
            views_[i].buffer.flags = device_ ? uint64_t(halide_buffer_flag_host_dirty) : 0;
            arguments_.push_back(&views_[i].buffer);
            if (&array == problem.output) {
                output_ = &views_[i].buffer;
            }
        }
    }
    ~Call() {
        for (size_t i = 0; i < views_.size(); i++) {
            if (arguments_[i] == &views_[i].buffer) {
                kiln_view_release(nullptr, &views_[i]);
            }
        }
    }
    void **arguments() { return arguments_.data(); }
    halide_buffer_t *output() { return output_; }
    void wait() {
        if (device_) {
            kiln_synchronize(nullptr, device_);
        }
    }

private:
    const halide_device_interface_t *device_;
    std::vector<kiln_view> views_;
    std::vector<void *> arguments_;
    halide_buffer_t *output_ = nullptr;
};

/// A copy of `bytes` / 2 bytes, where the kernel runs: reads and writes `bytes` together.
class Copy {
public:
    Copy(double bytes, const halide_device_interface_t *device)
        : device_(device), count_(static_cast<int64_t>(bytes / 2 / sizeof(float))), from_(count_, 1.0f),
          to_(count_) {
        kiln_view_host(&views_[0], KILN_FLOAT32, from_.data(), 1, &count_, nullptr);
        kiln_view_host(&views_[1], KILN_FLOAT32, to_.data(), 1, &count_, nullptr);
        if (device_) {
            views_[0].buffer.flags = halide_buffer_flag_host_dirty;
            halide_copy_to_device(nullptr, &views_[0].buffer, device_);
            halide_device_malloc(nullptr, &views_[1].buffer, device_);
        }
    }
    ~Copy() {
        for (kiln_view &view : views_) {
            kiln_view_release(nullptr, &view);
        }
    }
    void operator()() {
        if (!device_) {
            std::memcpy(to_.data(), from_.data(), count_ * sizeof(float));
            return;
        }
        halide_buffer_copy(nullptr, &views_[0].buffer, device_, &views_[1].buffer);
        kiln_synchronize(nullptr, device_);
    }

private:
    const halide_device_interface_t *device_;
    int64_t count_;
    std::vector<float> from_, to_;
    kiln_view views_[2];
};

struct Verdict {
    double error = 0; ///< the largest, as a share of its bound
    double largest = 0, bound = 0;
    bool right = true;
};
Verdict check(const Problem &problem) {
    Verdict verdict;
    for (size_t i = 0; i < problem.expected.size(); i++) {
        double error = std::abs(problem.output->data[i] - problem.expected[i]);
        // Numbers below the least normal float may come out as zero.
        double bound = problem.bound[i] + double(std::numeric_limits<float>::min());
        // Written so that a NaN on either side counts as wrong.
        if (!(error <= bound)) {
            return {error / bound, error, bound, false};
        }
        if (error / bound >= verdict.error) {
            verdict = {error / bound, error, bound, true};
        }
    }
    return verdict;
}

std::string escaped(const char *text) {
    std::string out;
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') {
            out += '\\';
        }
        out += *text == '\n' ? ' ' : *text;
    }
    return out;
}

bool run_one(const Problem &problem, const Build &build) {
    std::printf("{\"work\": \"%s\", \"shape\": \"%s\", \"type\": \"float32\", \"target\": \"%s\"",
                problem.work.c_str(), problem.shape.c_str(), build.target);
    Array &output = *problem.output;
    std::fill(output.data.begin(), output.data.end(), std::nanf(""));
    Call call(problem, build);
    int status = build.argv(nullptr, call.arguments());
    if (status == KILN_OK && build.device) {
        status = halide_copy_to_host(nullptr, call.output());
    }
    if (status != KILN_OK) {
        bool absent = status == KILN_NO_DEVICE || status == KILN_UNSUPPORTED;
        std::printf(", \"%s\": \"%s\"}\n", absent ? "skipped" : "failed",
                    escaped(kiln_last_message()).c_str());
        return absent;
    }
    std::string choice = escaped(kiln_last_choice());
    Verdict verdict = check(problem);
    std::function<void()> candidate = [&] {
        build.argv(nullptr, call.arguments());
        call.wait();
    };
    std::function<void()> baseline = problem.baseline;
    std::string baseline_name = problem.baseline_name;
    if (!baseline) {
        baseline = [copy = std::make_shared<Copy>(problem.bytes, build.device ? build.device() : nullptr)] {
            (*copy)();
        };
        baseline_name = build.device ? "device copy" : "memcpy";
    }
    Times times = compare(candidate, baseline);
    std::printf(", \"choice\": \"%s\", \"right\": %s, \"error\": %.3g, \"bound\": %.3g, \"ms\": %.4g, "
                "\"baseline\": \"%s\", "
                "\"baseline_ms\": %.4g, \"ratio\": %.4g, \"flops\": %.6g, \"bytes\": %.6g}\n",
                choice.c_str(), verdict.right ? "true" : "false", verdict.largest, verdict.bound,
                times.candidate * 1e3, baseline_name.c_str(), times.baseline * 1e3, times.ratio,
                problem.flops, problem.bytes);
    std::fflush(stdout);
    return verdict.right;
}

} // namespace

Array::Array(std::string name, std::vector<int64_t> extents)
    : name(std::move(name)), extents(std::move(extents)) {
    int64_t count = 1;
    for (int64_t extent : this->extents) {
        count *= extent;
    }
    data.resize(count);
}

Array &Array::fill(uint32_t seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (float &value : data) {
        value = uniform(random);
    }
    return *this;
}

int run(const Problem &problem, const std::vector<Build> &builds) {
    int faults = 0;
    for (const Build &build : builds) {
        faults += run_one(problem, build) ? 0 : 1;
    }
    return faults;
}

} // namespace tour
