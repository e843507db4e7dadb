#include "dsl/search/space/Accept.h"
#include "dsl/search/space/Algorithm.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace kiln::search {

namespace {

/// Copies of one definition that unrolling makes, above which compilers take seconds and code leaves the cache.
constexpr int64_t most_copies = 512;
/// Threads of Halide's pool have this stack, and Funcs of constant size up to a limit lie on it.
constexpr int64_t stack_bytes = int64_t(8) << 20;

int64_t product(const StageNest &stage, LoopKind kind) {
    int64_t n = 1;
    for (const Loop &l : stage.loops) {
        if (l.kind == kind) {
            n *= std::clamp<int64_t>(l.extent.value_or(1), 1, 1 << 20);
        }
    }
    return n;
}

/// Operations of one definition with all that is inlined into it, call by call: a chain of stencils grows by their widths
/// with every stage, and compilers with it.
constexpr double most_inlined = 600;

double inlined_size(const Problem &problem, const LoopNest &nest, const FuncNest &f,
                    const StageAlgorithm &stage, std::map<std::string, double> &known) {
    const OpCount &o = stage.ops;
    double size = o.adds + o.muls + o.divs + o.specials + o.compares + o.ints + o.casts;
    for (const Access &read : stage.reads) {
        const FuncNest *callee = nest.find(read.func);
        const FuncAlgorithm *a = problem.algorithm->find(read.func);
        double one = 1;
        if (callee && a && callee->is_inlined() && !callee->is_input && !callee->is_output &&
            a->stages.size() == 1) {
            auto [slot, fresh] = known.try_emplace(read.func, 1);
            if (fresh) {
                double below = inlined_size(problem, nest, *callee, a->stages[0], known);
                known[read.func] = below;
            }
            one = known[read.func];
        }
        size += read.count * one;
    }
    return size;
}

bool is_too_large(const Problem &problem, const LoopNest &nest) {
    std::map<std::string, double> known;
    for (const FuncNest &f : nest.funcs) {
        const FuncAlgorithm *a = problem.algorithm->find(f.name);
        if (!a || f.is_input || (f.is_inlined() && !f.is_output)) {
            continue;
        }
        for (const StageAlgorithm &stage : a->stages) {
            double calls = 0;
            for (const Access &read : stage.reads) {
                const FuncNest *callee = nest.find(read.func);
                calls += callee && callee->is_inlined() && !callee->is_input;
            }
            // What the algorithm itself writes out is no doing of the schedule.
            if (calls > 0 && inlined_size(problem, nest, f, stage, known) > most_inlined) {
                return true;
            }
        }
    }
    return false;
}

} // namespace

std::string over_device_limits(const Problem &problem, const LoopNest &sized) {
    const DeviceLimits &limits = problem.device.limits;
    if (is_too_large(problem, sized)) {
        return fmt::format("limit more than {:.0f} operations in one definition, with what is inlined",
                           most_inlined);
    }
    int64_t heap = 0;
    for (const FuncNest &f : sized.funcs) {
        if (f.is_input) {
            continue;
        }
        for (const StageNest &stage : f.stages) {
            int64_t copies = product(stage, LoopKind::Unrolled);
            if (copies > most_copies) {
                return fmt::format("limit more than {} copies of a loop body", most_copies);
            }
            int64_t threads = product(stage, LoopKind::GpuThread) * product(stage, LoopKind::GpuLane);
            if (limits.threads > 0 && threads > limits.threads) {
                return "limit more threads in a block than the device has";
            }
        }
        std::optional<int64_t> bytes = f.stored_bytes();
        if (!bytes || f.is_inlined()) {
            continue;
        }
        if (f.memory == "Stack" && *bytes > stack_bytes) {
            return "limit more bytes on the stack than a thread has";
        }
        if (f.memory == "GPUShared" && limits.shared_bytes > 0 && *bytes > limits.shared_bytes) {
            return "limit more shared memory than a block has";
        }
        bool is_local = f.memory == "GPUShared" || f.memory == "Register";
        heap += f.is_output || is_local ? 0 : *bytes;
    }
    if (problem.device.memory_bytes > 0 && heap > problem.device.memory_bytes / 2) {
        return "limit more memory than half of the device's";
    }
    return "";
}

} // namespace kiln::search
