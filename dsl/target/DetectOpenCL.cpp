// OpenCL devices of all platforms through the ICD loader, opened at run time.
#include "dsl/target/Detect.h"

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <fmt/format.h>

#include <dlfcn.h>

namespace kiln {

namespace {

struct Loader {
    decltype(&clGetPlatformIDs) platforms = nullptr;
    decltype(&clGetPlatformInfo) platform_info = nullptr;
    decltype(&clGetDeviceIDs) devices = nullptr;
    decltype(&clGetDeviceInfo) device_info = nullptr;
};

bool open_loader(Loader &loader) {
    void *handle = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        return false;
    }
    loader.platforms = reinterpret_cast<decltype(loader.platforms)>(dlsym(handle, "clGetPlatformIDs"));
    loader.platform_info =
        reinterpret_cast<decltype(loader.platform_info)>(dlsym(handle, "clGetPlatformInfo"));
    loader.devices = reinterpret_cast<decltype(loader.devices)>(dlsym(handle, "clGetDeviceIDs"));
    loader.device_info = reinterpret_cast<decltype(loader.device_info)>(dlsym(handle, "clGetDeviceInfo"));
    return loader.platforms && loader.platform_info && loader.devices && loader.device_info;
}

std::vector<std::string> words(const std::string &text) {
    std::vector<std::string> out;
    for (size_t at = 0; at < text.size();) {
        size_t end = std::min(text.find(' ', at), text.size());
        if (end > at) {
            out.push_back(text.substr(at, end - at));
        }
        at = end + 1;
    }
    return out;
}

} // namespace

std::vector<Device> detect_opencl(std::vector<std::string> &notes) {
    Loader cl;
    if (!open_loader(cl)) {
        notes.push_back("no OpenCL: libOpenCL.so.1 is not there");
        return {};
    }
    cl_platform_id platforms[16];
    cl_uint platform_count = 0;
    if (cl.platforms(16, platforms, &platform_count) != CL_SUCCESS || platform_count == 0) {
        notes.push_back("the OpenCL loader finds no platform: install a driver, or pocl-opencl-icd");
        return {};
    }
    std::vector<Device> found;
    for (cl_uint p = 0; p < std::min<cl_uint>(platform_count, 16); p++) {
        cl_device_id ids[16];
        cl_uint count = 0;
        char platform_name[256] = "";
        cl.platform_info(platforms[p], CL_PLATFORM_NAME, sizeof platform_name, platform_name, nullptr);
        if (cl.devices(platforms[p], CL_DEVICE_TYPE_ALL, 16, ids, &count) != CL_SUCCESS) {
            continue;
        }
        for (cl_uint i = 0; i < std::min<cl_uint>(count, 16); i++) {
            auto text = [&](cl_device_info what) {
                size_t size = 0;
                cl.device_info(ids[i], what, 0, nullptr, &size);
                std::string out(size, '\0');
                cl.device_info(ids[i], what, size, out.data(), nullptr);
                out.resize(out.find('\0') == std::string::npos ? out.size() : out.find('\0'));
                return out;
            };
            auto number = [&]<typename T>(cl_device_info what, T value) {
                cl.device_info(ids[i], what, sizeof value, &value, nullptr);
                return static_cast<int64_t>(value);
            };
            Device d;
            d.target = {Backend::OpenCL, ""};
            d.name = text(CL_DEVICE_NAME);
            d.vendor = text(CL_DEVICE_VENDOR);
            d.driver = text(CL_DRIVER_VERSION);
            d.platform = platform_name;
            d.index = static_cast<int>(found.size());
            d.units = static_cast<int>(number(CL_DEVICE_MAX_COMPUTE_UNITS, cl_uint(0)));
            d.clock_mhz = static_cast<double>(number(CL_DEVICE_MAX_CLOCK_FREQUENCY, cl_uint(0)));
            d.memory_bytes = number(CL_DEVICE_GLOBAL_MEM_SIZE, cl_ulong(0));
            d.cache_bytes = number(CL_DEVICE_GLOBAL_MEM_CACHE_SIZE, cl_ulong(0));
            d.features = words(text(CL_DEVICE_EXTENSIONS));
            d.limits = limits_of(d.target);
            d.limits.shared_bytes = number(CL_DEVICE_LOCAL_MEM_SIZE, cl_ulong(0));
            d.limits.shared_bytes_static = d.limits.shared_bytes_unit = d.limits.shared_bytes;
            d.limits.threads = number(CL_DEVICE_MAX_WORK_GROUP_SIZE, size_t(0));
            size_t items[8] = {0};
            cl.device_info(ids[i], CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof items, items, nullptr);
            for (int k = 0; k < 3; k++) {
                d.limits.block_extent[k] = static_cast<int64_t>(items[k]);
            }
            found.push_back(std::move(d));
        }
    }
    return found;
}

} // namespace kiln
