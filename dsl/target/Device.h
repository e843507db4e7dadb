/** \file
 * The machine's devices as data: what schedules are checked against (limits), what times are judged by
 * (ceilings), and where both come from (detection, calibration).
 */
#pragma once

#include "dsl/target/Target.h"

#include <nlohmann/json_fwd.hpp>

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kiln {

/// What a kernel may ask of a device. 0 means: no such limit or no such thing (CPUs have no blocks).
struct DeviceLimits {
    int64_t shared_bytes = 0;              ///< of one block, after opting in where the device wants that
    int64_t shared_bytes_static = 0;       ///< of one block without opting in (CUDA: 49152)
    int64_t shared_bytes_unit = 0;         ///< of one multiprocessor, shared by its blocks
    int64_t threads = 0;                   ///< of one block
    std::array<int64_t, 3> block_extent{}; ///< threads along x, y, z
    std::array<int64_t, 3> grid_extent{};  ///< blocks along x, y, z
    int64_t threads_unit = 0;              ///< resident on one multiprocessor
    int64_t registers = 0;                 ///< 32-bit, of one thread
    int64_t registers_unit = 0;            ///< 32-bit, of one multiprocessor
    int lanes = 1;            ///< threads that run in step (warp); CPU: lanes of one f32 register
    int vector_lanes = 0;     ///< the longest vector that the backend can compile; 0: any
    int vector_registers = 0; ///< CPU: architectural vector registers
    int cluster_blocks = 0;   ///< blocks in a cluster (sm_90 and later)
    bool operator==(const DeviceLimits &) const = default;
};

/// The limits that every device of the target keeps (documented minima, CUDA's by compute capability).
DeviceLimits limits_of(const Target &target);

/// What micro-kernels reached on a device: nothing on it may be reported faster without being questioned.
struct Ceilings {
    /// Bytes read plus bytes written a second, by an array far above the last cache; the best of all ways
    /// tried.
    double copy_bytes_per_s = 0;
    std::map<std::string, double> copy_ways; ///< "memcpy", "non_temporal", "runtime", "kernel"; bytes/s
    /// The same for an array that the last cache holds (L2 on GPUs), where it was measured.
    double cached_copy_bytes_per_s = 0;
    double launch_s = 0; ///< GPU: an empty kernel, queued and awaited
    /// Floating-point operations a second by type ("float32", "float64", "bfloat16") under the best feature
    /// that the device has; "float32/avx2" and so on name one feature.
    std::map<std::string, double> flops;
    int units = 0;    ///< CPU threads (or multiprocessors) that took part
    std::string date; ///< of the measurement, ISO 8601
};

struct Device {
    Target target; ///< the most featured target that runs here
    std::string name, vendor, driver, platform;
    int index = 0;        ///< among the devices of its backend (OpenCL: over all platforms)
    int units = 0;        ///< cores that this process may use, multiprocessors, compute units
    double clock_mhz = 0; ///< the highest that the device names
    int64_t memory_bytes = 0;
    int64_t cache_bytes = 0;               ///< the last level
    std::map<std::string, int64_t> caches; ///< "L1d", "L2", "L3": bytes, of one instance
    std::vector<std::string> features;     ///< as the device names them
    DeviceLimits limits;
    std::optional<Ceilings> ceilings; ///< from the cache, where it has been calibrated

    /// `cpu:0`, `cuda:0`, `opencl:1`.
    std::string id() const;
    /// Names the hardware and driver, for file names: a changed driver is another key.
    std::string key() const;
};

/// All devices of this machine: the CPU always, CUDA and OpenCL ones where their drivers load. Ceilings come
/// from the cache. Never throws because a driver is missing; `notes` says what was not found and why.
std::vector<Device> detect_devices(std::vector<std::string> *notes = nullptr);

/// The first device that can run `target`. Throws K0903 where there is none, with what exists.
Device device_for(const Target &target);

/// Called with 0…1 and a few words.
using Progress = std::function<void(double, const std::string &)>;

/// Measures the ceilings (CPU about 3 s, a GPU about 2 s) and stores them in the cache. Throws K0904 where
/// the device fails on the way.
Ceilings calibrate(const Device &device, const Progress &progress = {});

/// Seconds that a roofline allows at best for `flops` of `type` and `bytes` moved; 0 without ceilings.
double roofline_seconds(const Device &device, const std::string &type, double flops, double bytes,
                        int threads = 0);

/// Files that Kiln keeps for itself: $KILN_CACHE_DIR, else $XDG_CACHE_HOME/kiln, else ~/.cache/kiln.
std::filesystem::path cache_dir();

/// Ceilings on disk, `cache_dir()/devices/<key>.json`; written through a temporary file and a rename.
std::optional<Ceilings> load_ceilings(const Device &device);
void store_ceilings(const Device &device, const Ceilings &ceilings);

nlohmann::json to_json(const Device &device);
nlohmann::json to_json(const Ceilings &ceilings);
nlohmann::json to_json(const DeviceLimits &limits);
Ceilings ceilings_from_json(const nlohmann::json &json);

} // namespace kiln
