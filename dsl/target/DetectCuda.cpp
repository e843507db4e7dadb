// CUDA devices through the driver API, opened at run time: nothing of CUDA is needed to build.
#include "dsl/target/Detect.h"

#include <fmt/format.h>

#include <algorithm>
#include <dlfcn.h>

namespace kiln {

namespace {

// CUdevice_attribute, cuda.h.
enum Attribute {
    MaxThreadsPerBlock = 1,
    MaxBlockDimX = 2,
    MaxGridDimX = 5,
    MaxSharedPerBlock = 8,
    WarpSize = 10,
    ClockRate = 13,
    MultiprocessorCount = 16,
    L2CacheSize = 38,
    MaxThreadsPerMultiprocessor = 39,
    CapabilityMajor = 75,
    CapabilityMinor = 76,
    MaxSharedPerMultiprocessor = 81,
    MaxRegistersPerMultiprocessor = 82,
    MaxSharedPerBlockOptin = 97,
};

struct Driver {
    int (*init)(unsigned) = nullptr;
    int (*driver_version)(int *) = nullptr;
    int (*count)(int *) = nullptr;
    int (*get)(int *, int) = nullptr;
    int (*name)(char *, int, int) = nullptr;
    int (*attribute)(int *, int, int) = nullptr;
    int (*memory)(size_t *, int) = nullptr;
};

bool open_driver(Driver &driver) {
    void *handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        return false;
    }
    bool ok = true;
    auto find = [&](auto &function, const char *name) {
        function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(handle, name));
        ok = ok && function;
    };
    find(driver.init, "cuInit");
    find(driver.driver_version, "cuDriverGetVersion");
    find(driver.count, "cuDeviceGetCount");
    find(driver.get, "cuDeviceGet");
    find(driver.name, "cuDeviceGetName");
    find(driver.attribute, "cuDeviceGetAttribute");
    find(driver.memory, "cuDeviceTotalMem_v2");
    return ok;
}

/// The feature for a capability: the architecture's own (sm_90a) where Kiln knows it, else the nearest below.
std::string feature_for(int capability) {
    std::string best;
    for (const std::string &f : target_features(Backend::Cuda)) {
        int level = Target{Backend::Cuda, f}.level();
        if (level == capability || (level < capability && f.back() != 'a')) {
            best = f;
        }
    }
    return best;
}

} // namespace

std::vector<Device> detect_cuda(std::vector<std::string> &notes) {
    Driver driver;
    if (!open_driver(driver)) {
        notes.push_back("no CUDA driver: libcuda.so.1 is not there");
        return {};
    }
    int count = 0;
    if (int code = driver.init(0); code != 0 || driver.count(&count) != 0 || count == 0) {
        notes.push_back(fmt::format("the CUDA driver finds no GPU (error {})", code));
        return {};
    }
    std::vector<Device> devices;
    for (int i = 0; i < count; i++) {
        int handle = 0, version = 0;
        driver.get(&handle, i);
        driver.driver_version(&version);
        auto attribute = [&](int which) {
            int value = 0;
            driver.attribute(&value, which, handle);
            return int64_t(value);
        };
        Device d;
        char name[256] = "";
        driver.name(name, sizeof name, handle);
        size_t bytes = 0;
        driver.memory(&bytes, handle);
        int capability = static_cast<int>(attribute(CapabilityMajor) * 10 + attribute(CapabilityMinor));
        d.name = name;
        d.vendor = "NVIDIA";
        d.platform = "CUDA";
        d.driver = fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10);
        d.index = i;
        d.units = static_cast<int>(attribute(MultiprocessorCount));
        d.clock_mhz = static_cast<double>(attribute(ClockRate)) / 1000;
        d.memory_bytes = static_cast<int64_t>(bytes);
        d.cache_bytes = attribute(L2CacheSize);
        d.caches["L2"] = d.cache_bytes;
        d.target = {Backend::Cuda, feature_for(capability)};
        d.features = {fmt::format("compute capability {}.{}", capability / 10, capability % 10)};
        d.limits = limits_of(d.target);
        d.limits.shared_bytes_static = attribute(MaxSharedPerBlock);
        d.limits.shared_bytes = std::max(attribute(MaxSharedPerBlockOptin), d.limits.shared_bytes_static);
        d.limits.shared_bytes_unit = attribute(MaxSharedPerMultiprocessor);
        d.limits.threads = attribute(MaxThreadsPerBlock);
        d.limits.threads_unit = attribute(MaxThreadsPerMultiprocessor);
        d.limits.registers_unit = attribute(MaxRegistersPerMultiprocessor);
        d.limits.lanes = static_cast<int>(attribute(WarpSize));
        for (int k = 0; k < 3; k++) {
            d.limits.block_extent[k] = attribute(MaxBlockDimX + k);
            d.limits.grid_extent[k] = attribute(MaxGridDimX + k);
        }
        devices.push_back(std::move(d));
    }
    return devices;
}

} // namespace kiln
