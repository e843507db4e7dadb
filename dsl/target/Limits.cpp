#include "dsl/target/Device.h"

#include <algorithm>

namespace kiln {

namespace {

/// CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
struct CudaLimits {
    int capability;
    int64_t shared_block, shared_unit, threads_unit;
    int cluster;
};

constexpr CudaLimits cuda_table[] = {
    {75, 64 << 10, 64 << 10, 1024, 0},    {80, 163 << 10, 164 << 10, 2048, 0},
    {86, 99 << 10, 100 << 10, 1536, 0},   {87, 163 << 10, 164 << 10, 1536, 0},
    {88, 99 << 10, 100 << 10, 1536, 0},   {89, 99 << 10, 100 << 10, 1536, 0},
    {90, 227 << 10, 228 << 10, 2048, 8},  {100, 227 << 10, 228 << 10, 2048, 8},
    {103, 227 << 10, 228 << 10, 2048, 8}, {110, 227 << 10, 228 << 10, 1536, 8},
    {120, 99 << 10, 100 << 10, 1536, 8},  {121, 99 << 10, 100 << 10, 1536, 8},
};

DeviceLimits cuda_limits(int capability) {
    const CudaLimits *row = &cuda_table[0];
    for (const CudaLimits &r : cuda_table) {
        if (r.capability <= capability) {
            row = &r;
        }
    }
    DeviceLimits l;
    l.shared_bytes = row->shared_block;
    l.shared_bytes_static = 48 << 10;
    l.shared_bytes_unit = row->shared_unit;
    l.threads = 1024;
    l.block_extent = {1024, 1024, 64};
    l.grid_extent = {2147483647, 65535, 65535};
    l.threads_unit = row->threads_unit;
    l.registers = 255;
    l.registers_unit = 65536;
    l.lanes = 32;
    l.cluster_blocks = row->cluster;
    return l;
}

/// OpenCL full profile guarantees 32 KiB of local memory. It guarantees no work-group size above 1; 1024 is
/// what current GPUs and PoCL offer at least, and a device that offers less is found by detection.
DeviceLimits opencl_limits() {
    DeviceLimits l;
    l.shared_bytes = l.shared_bytes_static = l.shared_bytes_unit = 32 << 10;
    l.threads = 1024;
    l.block_extent = {1024, 1024, 64};
    l.lanes = 1;
    l.vector_lanes = 16;
    return l;
}

DeviceLimits cpu_limits(int level) {
    DeviceLimits l;
#if defined(__x86_64__)
    l.lanes = level >= 3 ? 16 : level >= 2 ? 8 : 4;
    l.vector_registers = level >= 3 ? 32 : 16;
#else
    l.lanes = 4;
    l.vector_registers = 32;
#endif
    return l;
}

} // namespace

DeviceLimits limits_of(const Target &target) {
    switch (target.backend) {
    case Backend::Cpu:
        return cpu_limits(target.level());
    case Backend::Cuda:
        return cuda_limits(target.level());
    case Backend::OpenCL:
        return opencl_limits();
    }
    return {};
}

} // namespace kiln
