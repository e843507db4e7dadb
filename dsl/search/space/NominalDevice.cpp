// Devices to schedule for where none is at hand.
#include "dsl/search/space/Problem.h"

namespace kiln::search {

Device nominal_device(const Target &target, int cores) {
    Device d;
    d.target = target;
    d.limits = limits_of(target);
    d.driver = "nominal";
    Ceilings c;
    if (target.backend == Backend::Cpu) {
        // A server core at 3 GHz: two multiply-adds of one register a cycle.
        d.name = "nominal CPU";
        d.units = cores > 0 ? cores : 8;
        d.clock_mhz = 3000;
        d.caches = {{"L1d", 32 << 10}, {"L2", 512 << 10}, {"L3", 16 << 20}};
        d.cache_bytes = 16 << 20;
        d.memory_bytes = int64_t(16) << 30;
        c.flops["float32"] = 4.0 * d.limits.lanes * 3e9 * d.units;
        c.copy_bytes_per_s = 20e9 + 5e9 * d.units;
    } else if (target.backend == Backend::Cuda && target.level() >= 90) {
        // NVIDIA's data sheet of the H200 SXM, and what copies and products reach of it (docs/results).
        d.name = "nominal H200";
        d.units = 132;
        d.clock_mhz = 1830;
        d.caches = {{"L2", int64_t(50) << 20}};
        d.cache_bytes = int64_t(50) << 20;
        d.memory_bytes = int64_t(141) << 30;
        c.flops["float32"] = 60e12;
        c.flops["bfloat16"] = c.flops["float16"] = 800e12;
        c.copy_bytes_per_s = 4.2e12;
        c.cached_copy_bytes_per_s = 8e12;
        c.launch_s = 3e-6;
    } else {
        // A middling GPU of the last years (NVIDIA's data sheet of the RTX 4060).
        d.name = "nominal GPU";
        d.units = 24;
        d.clock_mhz = 2460;
        d.caches = {{"L2", int64_t(24) << 20}};
        d.cache_bytes = int64_t(24) << 20;
        d.memory_bytes = int64_t(8) << 30;
        c.flops["float32"] = 15e12;
        c.flops["float16"] = c.flops["bfloat16"] = 60e12;
        c.copy_bytes_per_s = 250e9;
        c.cached_copy_bytes_per_s = 1e12;
        c.launch_s = 5e-6;
    }
    c.units = d.units;
    d.ceilings = c;
    return d;
}

} // namespace kiln::search
