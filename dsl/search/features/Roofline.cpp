#include "dsl/search/features/Roofline.h"

#include "dsl/target/Device.h"

#include <algorithm>
#include <cmath>

namespace kiln::search {

namespace {

// Of current cores (Agner Fog, "The microarchitecture of Intel, AMD and VIA CPUs"; AMD's Software Optimization Guide for
// Zen 3, Intel's for Golden Cove): two multiply-adds, two loads, one store and about four instructions in all a cycle; a
// multiply-add takes four cycles, so eight chains keep both units busy; 64 bytes a cycle from the first cache, 32 from
// the second, 12 a core from the third.
constexpr double fp_a_cycle = 2, loads_a_cycle = 2, stores_a_cycle = 1, all_a_cycle = 4;
constexpr double chains_needed = 8;
constexpr double first_bytes_a_cycle = 64, second_bytes_a_cycle = 32, third_bytes_a_cycle = 12;
constexpr double cycles_of_gather = 1.5; ///< an element: load and insert
// Of Halide's thread pool, measured with empty tasks: waking it, and handing out one task.
constexpr double launch_s = 4e-6, task_s = 0.2e-6;
constexpr double allocation_s = 0.15e-6; ///< malloc and free of a block that the C library keeps
// Of NVIDIA's GPUs since Volta (CUDA C++ Programming Guide, throughput of instructions): a unit has four schedulers of one
// warp instruction a cycle, 128 bytes of shared memory a cycle, 64 of L1; a dependent multiply-add waits four cycles.
constexpr double gpu_issue = 4, gpu_shared_bytes = 128, gpu_l1_bytes = 64, gpu_specials = 0.5;
constexpr double occupancy_for_bandwidth = 0.25; ///< resident threads that keep memory busy
constexpr double barrier_cycles = 40;

double clock_hz(const Device &d) {
    return d.clock_mhz > 0 ? d.clock_mhz * 1e6 : 2.5e9;
}

struct Times {
    double compute = 0, first = 0, second = 0, third = 0, memory = 0, overhead = 0; ///< s
};

double bandwidth(const Device &d) {
    return d.ceilings && d.ceilings->copy_bytes_per_s > 0 ? d.ceilings->copy_bytes_per_s : 10e9;
}

/// Of a GPU's last cache, bytes a second. Never less than memory's: a measured copy that fits the cache is short, and mostly launch.
double cache_bandwidth(const Device &d) {
    double measured = d.ceilings ? d.ceilings->cached_copy_bytes_per_s : 0;
    return measured > 0 ? std::max(measured, bandwidth(d)) : 2.5 * bandwidth(d);
}

Times cpu_times(const FeatureRow &r, const Device &d) {
    Times t;
    // The clock that the measured peak implies, where there is one: two multiply-adds of all lanes a cycle and core.
    double hz = clock_hz(d), units = std::max(1.0f, r[Feature::device_units]);
    if (r[Feature::device_peak_flops] > 0 && d.ceilings && d.ceilings->units > 0) {
        hz = r[Feature::device_peak_flops] /
             (2 * fp_a_cycle * std::max(1.0f, r[Feature::device_lanes]) * d.ceilings->units);
    }
    double used =
        std::clamp<double>(r[Feature::cores_used], 1, units) * std::max(0.05f, r[Feature::wave_use]);
    double fp = r[Feature::arithmetic_instructions] + r[Feature::special_instructions];
    double loads =
        r[Feature::vector_loads] + r[Feature::scalar_loads] + cycles_of_gather * 2 * r[Feature::gathers];
    double stores = r[Feature::vector_stores] + r[Feature::scalar_stores] + 2 * r[Feature::scatters];
    double block = std::max(1.0, double(r[Feature::lanes]) * r[Feature::unrolled]);
    // A spilled value is stored and loaded in each step of the block; copies of a reduction's step are steps.
    double steps = std::max(1.0, std::min(block, 8.0 * std::max(1.0f, r[Feature::chains])));
    double spills = r[Feature::spilled] * r[Feature::points] / steps;
    loads += spills, stores += spills;
    double chains = std::clamp<double>(r[Feature::chains], 1, chains_needed);
    bool dependent = r[Feature::reduction_extent] > 1;
    double cycles =
        std::max({fp / fp_a_cycle * (dependent ? chains_needed / chains : 1), loads / loads_a_cycle,
                  stores / stores_a_cycle, (fp + loads + stores + 2 * r[Feature::iterations]) / all_a_cycle});
    // Code that does not fit the decoded cache (some 4000 instructions) is fetched again and again.
    double code = r[Feature::points] > 0 ? (fp + loads + stores) / r[Feature::points] * block : 0;
    cycles *= code > 4000 ? 1.5 : 1;
    t.compute = cycles / hz / used;
    t.first = r[Feature::bytes_first] / first_bytes_a_cycle / hz / used;
    t.second =
        r[Feature::bytes_second] / second_bytes_a_cycle / hz / used * (1 + r[Feature::power_of_two_stride]);
    t.third = r[Feature::bytes_third] / third_bytes_a_cycle / hz / used;
    // One core alone draws about half of what all draw, or all where there are two.
    double share = std::min(1.0, std::max(0.6, r[Feature::cores_used] / units));
    t.memory = r[Feature::bytes_memory] / (bandwidth(d) * share);
    double allocations = r[Feature::allocations] * allocation_s;
    t.overhead = r[Feature::launches] * launch_s +
                 (r[Feature::launches] > 0 ? r[Feature::tasks] * task_s / used : 0) + allocations / used +
                 2 * r[Feature::iterations] / all_a_cycle / hz / used * 0.1;
    return t;
}

Times gpu_times(const FeatureRow &r, const Device &d) {
    Times t;
    double hz = clock_hz(d), units = std::max(1.0f, r[Feature::device_units]);
    double used = std::clamp<double>(r[Feature::tasks], 1, units) * std::max(0.05f, r[Feature::wave_use]);
    double lanes = std::max(1.0f, r[Feature::device_lanes]);
    double width =
        lanes * gpu_issue * std::max(0.03f, r[Feature::warp_use]); // thread instructions a cycle and unit
    if (r[Feature::device_peak_flops] > 0) {
        width = std::min(width, r[Feature::device_peak_flops] / 2 / units / hz *
                                    std::max(0.03f, r[Feature::warp_use]));
    }
    double fp = r[Feature::arithmetic_instructions],
           special = r[Feature::special_instructions] * gpu_specials;
    double loads = r[Feature::vector_loads] + r[Feature::scalar_loads] + r[Feature::gathers];
    double stores = r[Feature::vector_stores] + r[Feature::scalar_stores] + r[Feature::scatters];
    // Too few threads wait for each other: four cycles a dependent instruction, by all schedulers.
    double resident = std::max(1.0, double(r[Feature::occupancy]) *
                                        (d.limits.threads_unit > 0 ? double(d.limits.threads_unit) : 1024.0));
    double hidden =
        std::min(1.0, resident * std::max(1.0, std::min(4.0, double(r[Feature::chains]))) / (width * 4));
    t.compute = (fp + special + 2 * (loads + stores) + 2 * r[Feature::iterations] + 8 * r[Feature::spilled]) /
                width / hidden / hz / used;
    t.first = (r[Feature::bytes_register] / std::max(0.05f, r[Feature::coalescing]) / gpu_l1_bytes +
               r[Feature::bytes_shared] * r[Feature::bank_conflicts] / gpu_shared_bytes) /
              hz / used;
    double l2 = cache_bandwidth(d);
    double busy =
        std::min(1.0, used / units * std::min(1.0, r[Feature::occupancy] / occupancy_for_bandwidth));
    t.second = r[Feature::bytes_first] / l2 / std::max(0.02, busy);
    t.memory = r[Feature::bytes_memory] / bandwidth(d) / std::max(0.02, busy);
    double launch = d.ceilings && d.ceilings->launch_s > 0 ? d.ceilings->launch_s : 4e-6;
    t.overhead = r[Feature::launches] * launch + r[Feature::barriers] * barrier_cycles / hz / (units * 4);
    return t;
}

Times tile_times(const FeatureRow &r, const Device &d) {
    Times t = gpu_times(r, d);
    double hz = clock_hz(d), units = std::max(1.0f, r[Feature::device_units]);
    double used = std::clamp<double>(r[Feature::tasks], 1, units) * std::max(0.05f, r[Feature::wave_use]);
    double rate = r[Feature::device_peak_flops] / units; // of the operands' type, one unit
    double mma = rate > 0 ? r[Feature::mma_flops] / rate / used : 0;
    // A product of few columns cannot use the whole of its instruction's rate (its operands come from shared memory).
    mma *= std::max(1.0, 128.0 / std::max(8.0f, r[Feature::mma_columns]) * 0.5);
    double rest =
        (r[Feature::arithmetic_instructions] + r[Feature::special_instructions]) / (128.0 * hz) / used;
    // One warpgroup's arithmetic hides under the other's products only where they take turns.
    bool overlaps = r[Feature::ping_pong] > 0 || r[Feature::consumers] > 1;
    t.compute = overlaps ? std::max(mma, rest) + 0.3 * std::min(mma, rest) : mma + rest;
    t.first =
        r[Feature::bytes_shared] / gpu_shared_bytes / hz / used * std::max(1.0f, r[Feature::bank_conflicts]);
    double l2 = cache_bandwidth(d);
    // Little's law: what the rings have on their way in a round trip of about 700 ns bounds the rate.
    double flight = r[Feature::bytes_in_flight] * std::min<double>(units, r[Feature::tasks]) / 0.7e-6;
    double reach = flight > 0 ? std::min(1.0, flight / bandwidth(d)) : 1;
    double busy = std::min(1.0, used / units);
    t.second = r[Feature::bytes_first] / l2 / std::max(0.02, busy) / reach;
    t.memory = r[Feature::bytes_memory] / bandwidth(d) / std::max(0.02, busy) / reach;
    return t;
}

} // namespace

void estimate_row(FeatureRow &row, const Device &device) {
    Times t = row[Feature::is_tile] > 0  ? tile_times(row, device)
              : row[Feature::is_gpu] > 0 ? gpu_times(row, device)
                                         : cpu_times(row, device);
    auto set = [&](Feature c, double s) { row[c] = static_cast<float>(s * 1e3); };
    set(Feature::ms_compute, t.compute);
    set(Feature::ms_first, t.first);
    set(Feature::ms_second, t.second);
    set(Feature::ms_third, t.third);
    set(Feature::ms_memory, t.memory);
    set(Feature::ms_overhead, t.overhead);
    // Overlap is good but never whole: the largest part, and a tenth of the others.
    double parts[] = {t.compute, t.first, t.second, t.third, t.memory};
    double most = 0, sum = 0;
    for (double p : parts) {
        most = std::max(most, p);
        sum += p;
    }
    row.estimate_ms = 1e3 * (most + 0.1 * (sum - most) + t.overhead);
}

double estimate_ms(Features &features, const Device &device) {
    for (FeatureRow &row : features.rows) {
        estimate_row(row, device);
    }
    return estimate_ms(features);
}

} // namespace kiln::search
