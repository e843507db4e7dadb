#include "dsl/search/search/Bound.h"

#include "dsl/lower/Work.h"
#include "dsl/target/Device.h"

#include <algorithm>

namespace kiln::search {

namespace {

/// Of the first input of floats: what its arithmetic is bound by.
std::string type_of(const Problem &problem) {
    for (bool inputs : {true, false}) {
        for (const FuncInfo &f : problem.info.funcs) {
            if ((inputs ? f.is_input : f.is_output) && !f.types.empty() &&
                f.types[0].find("float") != std::string::npos) {
                return f.types[0];
            }
        }
    }
    return "";
}

/// Operations a second that no CPU of these registers exceeds: two fused multiply-adds of a vector a cycle at 6 GHz, twice that
/// for 16-bit pairs. Its measured ceiling is no such bound: other work may have slowed the measurement.
double most_flops(const Device &device, const std::string &type, int threads) {
    double lanes = device.limits.lanes * 4.0 /
                   (type == "float64"                   ? 8
                    : type == "float32" || type.empty() ? 4
                                                        : 2);
    int units = threads > 0 ? std::min(threads, std::max(1, device.units)) : std::max(1, device.units);
    return units * lanes * 2 * 2 * 6e9;
}

} // namespace

Workload workload_of(const Problem &problem) {
    Workload w;
    w.name = problem.name();
    w.extents = problem.extents;
    w.scalars = problem.scalars;
    w.params = problem.parameters;
    return w;
}

Bound bound_of(const Problem &problem, int threads) {
    Bound bound;
    kiln::Work work;
    try {
        work = count_work(problem.outputs, workload_of(problem));
    } catch (const Error &) {
        return bound; // sizes that depend on values: nothing can be said
    }
    bound.flops = work.flops();
    bound.bytes = work.bytes();
    if (!problem.device.ceilings) {
        return bound;
    }
    const Ceilings &c = *problem.device.ceilings;
    std::string type = type_of(problem);
    double compute = roofline_seconds(problem.device, type, bound.flops, 0, threads) * 1e3;
    double memory = roofline_seconds(problem.device, type, 0, bound.bytes) * 1e3;
    bool measured = c.flops.count(type) > 0;
    bool narrow = type == "bfloat16" || type == "float16";
    if (problem.target.backend == Backend::Cuda && narrow && !measured) {
        compute = 0; // tensor cores are far above the float32 ceiling
    }
    // What the last cache holds need not come from memory.
    bool cached = bound.bytes <= static_cast<double>(problem.device.cache_bytes);
    bound.by_memory = !cached && memory > compute;
    bound.ms = std::max(compute, cached ? 0 : memory);
    if (problem.target.backend == Backend::Cpu) {
        bound.floor_ms = bound.flops / most_flops(problem.device, type, threads) * 1e3;
        return bound;
    }
    bool far_larger = bound.bytes > 4 * static_cast<double>(problem.device.cache_bytes);
    bound.floor_ms = std::max(measured ? compute : 0, far_larger ? memory : 0);
    return bound;
}

} // namespace kiln::search
