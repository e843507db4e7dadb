#include "dsl/target/Detect.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <sched.h>
#include <set>
#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace kiln {

namespace {

std::string field_of(const char *path, const std::string &name) {
    std::ifstream in(path);
    for (std::string line; std::getline(in, line);) {
        if (line.rfind(name, 0) == 0) {
            size_t at = line.find(':');
            size_t start = at == std::string::npos ? at : line.find_first_not_of(" \t", at + 1);
            return start == std::string::npos ? "" : line.substr(start);
        }
    }
    return "";
}

std::string first_line(const std::string &path) {
    std::ifstream in(path);
    std::string line;
    std::getline(in, line);
    return line;
}

int64_t parse_size(const std::string &text) {
    int64_t n = 0;
    for (char c : text) {
        if (c >= '0' && c <= '9') {
            n = n * 10 + (c - '0');
        } else if (c == 'K') {
            return n << 10;
        } else if (c == 'M') {
            return n << 20;
        }
    }
    return n;
}

void find_caches(Device &device) {
    for (int i = 0; i < 8; i++) {
        std::string base = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", i);
        std::string level = first_line(base + "level"), type = first_line(base + "type");
        if (level.empty() || type == "Instruction") {
            continue;
        }
        int64_t bytes = parse_size(first_line(base + "size"));
        device.caches[level == "1" ? "L1d" : "L" + level] = bytes;
        device.cache_bytes = std::max(device.cache_bytes, bytes);
    }
    if (device.caches.empty()) { // hidden by a container
        for (auto [name, key] : {std::pair{"L1d", _SC_LEVEL1_DCACHE_SIZE},
                                 {"L2", _SC_LEVEL2_CACHE_SIZE},
                                 {"L3", _SC_LEVEL3_CACHE_SIZE}}) {
            if (int64_t bytes = sysconf(key); bytes > 0) {
                device.caches[name] = bytes;
                device.cache_bytes = std::max(device.cache_bytes, bytes);
            }
        }
    }
}

#if defined(__x86_64__)
/// What Halide's Sapphire Rapids set may use, where the system lets this process use it. gcc 12 has no names for these bits.
bool has_amx() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    constexpr unsigned amx_bf16 = 1u << 22, avx512_fp16 = 1u << 23, amx_tile = 1u << 24, amx_int8 = 1u << 25;
    constexpr unsigned all = amx_bf16 | avx512_fp16 | amx_tile | amx_int8;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & all) == all && permit_amx();
}
#endif

std::string best_feature(std::vector<std::string> &features) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    bool sse41 = __builtin_cpu_supports("sse4.1");
    bool avx2 = sse41 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                  __builtin_cpu_supports("avx512cd");
    // All that Halide's Zen 4 set may use, not bf16 alone.
    bool zen4 = avx512 && __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vnni") &&
                __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512ifma") &&
                __builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("avx512bitalg") &&
                __builtin_cpu_supports("avx512vpopcntdq");
    bool amx = zen4 && has_amx();
    std::string best;
    for (auto [has, name] : {std::pair{sse41, "sse41"},
                             {avx2, "avx2"},
                             {avx512, "avx512"},
                             {zen4, "avx512_bf16"},
                             {amx, "amx"}}) {
        if (has) {
            features.push_back(best = name);
        }
    }
    return best;
#else
    return "";
#endif
}

} // namespace

bool permit_amx() {
#if defined(__linux__) && defined(__x86_64__)
    constexpr long request_permission = 0x1023, tile_data = 18; // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
    return false;
#endif
}

Device detect_cpu() {
    Device device;
    device.name = field_of("/proc/cpuinfo", "model name");
    device.vendor = field_of("/proc/cpuinfo", "vendor_id");
    utsname u{};
    uname(&u);
    if (device.name.empty()) {
        device.name = u.machine;
    }
    device.platform = fmt::format("{} {}", u.sysname, u.machine);
    device.driver = u.release;
    cpu_set_t set;
    CPU_ZERO(&set);
    device.units = sched_getaffinity(0, sizeof set, &set) == 0
                       ? CPU_COUNT(&set)
                       : static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
    std::string max_khz = first_line("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq");
    std::string mhz = field_of("/proc/cpuinfo", "cpu MHz");
    device.clock_mhz = !max_khz.empty() ? std::stod(max_khz) / 1000 : mhz.empty() ? 0 : std::stod(mhz);
    device.memory_bytes = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
    find_caches(device);
    device.target = {Backend::Cpu, best_feature(device.features)};
    device.limits = limits_of(device.target);
    return device;
}

} // namespace kiln
