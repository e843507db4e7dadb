/** \file
 * The functions and numbers of the CUDA driver API (cuda.h) that tile kernels need, opened at run time.
 */
#pragma once

#include "Frame.h"

namespace kiln::runtime {

/// CUlaunchAttribute and CUlaunchConfig.
struct LaunchAttribute {
    enum Id : int { Cooperative = 2, ClusterDimension = 4, ProgrammaticStreamSerialization = 6 };
    Id id;
    char pad[4];
    union {
        char bytes[64];
        struct {
            unsigned x, y, z;
        } cluster;
        int flag;
    };
};

struct LaunchConfig {
    unsigned grid[3], block[3];
    unsigned shared_bytes;
    void *stream;
    LaunchAttribute *attributes;
    unsigned attribute_count;
};

/// CUtensorMap.
struct alignas(64) TensorMap {
    uint64_t words[16];
};

struct TileDriver {
    int (*CtxPushCurrent)(void *);
    int (*CtxPopCurrent)(void **);
    int (*CtxGetDevice)(int *);
    int (*DeviceGetAttribute)(int *, int, int);
    int (*ModuleLoadData)(void **, const void *);
    int (*ModuleUnload)(void *);
    int (*ModuleGetFunction)(void **, void *, const char *);
    int (*FuncSetAttribute)(void *, int, int);
    int (*OccupancyMaxActiveBlocksPerMultiprocessor)(int *, void *, int, size_t);
    int (*OccupancyMaxActiveClusters)(int *, void *, const LaunchConfig *);
    int (*LaunchKernelEx)(const LaunchConfig *, void *, void **, void **);
    int (*TensorMapEncodeTiled)(TensorMap *, int type, uint32_t rank, void *address, const uint64_t *extents,
                                const uint64_t *strides, const uint32_t *box, const uint32_t *element_strides,
                                int interleave, int swizzle, int promotion, int fill);
    int (*MemsetD32Async)(unsigned long long, unsigned, size_t, void *);
    int (*ThreadExchangeStreamCaptureMode)(int *);
    int (*GetErrorName)(int, const char **);

    enum Attribute {
        MaxGridX = 5,
        MultiprocessorCount = 16,
        MaxSharedBytesOptIn = 97,
    };
    enum FunctionAttribute { MaxDynamicSharedBytes = 8, NonPortableClusterSize = 14 };
};

/// The driver, or null after a report: there is none, or it is older than what tile kernels need.
const TileDriver *tile_driver(void *user_context);

/// Reports the driver's error in its own words and ours (HalideErrors.cpp). `doing`: "cuLaunchKernelEx of …".
int tile_fault(void *user_context, const TileDriver &driver, const char *doing, int error);

} // namespace kiln::runtime
