/* A CUDA driver for machines without a GPU: memory is the host's, kernels do nothing but be counted. It shows how the
 * runtime uses contexts, streams and memory, and what it says when the driver or the device will not do. */
#include "fake_cuda.h"

#include <stdlib.h>
#include <string.h>

struct fake_cuda fake_cuda = {.capability = 86, .driver_version = 12020, .device_count = 1};

static _Thread_local void *stack[16];
static _Thread_local int depth;
static char primary[8];

int cuInit(unsigned flags) {
    return fake_cuda.init_error;
}
int cuDriverGetVersion(int *version) {
    *version = fake_cuda.driver_version;
    return 0;
}
int cuDeviceGetCount(int *count) {
    *count = fake_cuda.device_count;
    return 0;
}
int cuDeviceGet(int *device, int ordinal) {
    *device = ordinal;
    return ordinal < fake_cuda.device_count ? 0 : 101;
}
int cuDeviceGetName(char *name, int size, int device) {
    strncpy(name, "Fake GPU", (size_t)size);
    return 0;
}
int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    *bytes = (size_t)1 << 33;
    return 0;
}
int cuDeviceTotalMem(size_t *bytes, int device) {
    return cuDeviceTotalMem_v2(bytes, device);
}
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    switch (attribute) {
    case 1:
    case 2:
    case 3:
        *value = 1024;
        break;
    case 4:
        *value = 64;
        break;
    case 6:
    case 7:
        *value = 65535;
        break;
    case 8:
        *value = 49152;
        break;
    case 5:
        *value = fake_cuda.max_grid ? fake_cuda.max_grid : 2147483647;
        break;
    case 16:
        *value = fake_cuda.processors ? fake_cuda.processors : 132;
        break;
    case 75:
        *value = fake_cuda.capability / 10;
        break;
    case 76:
        *value = fake_cuda.capability % 10;
        break;
    case 97:
        *value = fake_cuda.shared_bytes ? fake_cuda.shared_bytes : 232448;
        break;
    default:
        *value = 1;
    }
    return 0;
}
int cuDevicePrimaryCtxRetain(void **context, int device) {
    *context = &primary[device];
    return 0;
}
int cuDevicePrimaryCtxRelease_v2(int device) {
    return 0;
}
int cuCtxCreate_v2(void **context, unsigned flags, int device) {
    *context = malloc(1);
    return 0;
}
int cuCtxDestroy_v2(void *context) {
    return 0;
}
int cuProfilerStop(void) {
    return 0;
}
int cuCtxGetApiVersion(void *context, unsigned *version) {
    *version = 12000;
    return 0;
}
int cuCtxPushCurrent_v2(void *context) {
    if (!context) {
        return 201;
    }
    stack[depth++] = context;
    return 0;
}
int cuCtxPopCurrent_v2(void **context) {
    *context = stack[--depth];
    return 0;
}
int cuCtxGetDevice(int *device) {
    *device = 0;
    return depth > 0 ? 0 : 201;
}
int cuCtxSynchronize(void) {
    return 0;
}
int cuStreamGetCtx(void *stream, void **context) {
    *context = stream;
    return 0;
}
int cuStreamSynchronize(void *stream) {
    return 0;
}
int cuModuleLoadDataEx(void **module, const void *image, unsigned n, void *options, void *values) {
    __atomic_add_fetch(&fake_cuda.loads, 1, __ATOMIC_SEQ_CST);
    *module = malloc(1);
    return fake_cuda.load_error;
}
int cuModuleLoadData(void **module, const void *image) {
    return cuModuleLoadDataEx(module, image, 0, 0, 0);
}
int cuModuleUnload(void *module) {
    fake_cuda.unloads++;
    free(module);
    return 0;
}
int cuModuleGetFunction(void **function, void *module, const char *name) {
    *function = module;
    return 0;
}
int cuMemAlloc_v2(uint64_t *pointer, size_t bytes) {
    __atomic_add_fetch(&fake_cuda.allocs, 1, __ATOMIC_SEQ_CST);
    *pointer = (uint64_t)malloc(bytes);
    return fake_cuda.alloc_error;
}
int cuMemFree_v2(uint64_t pointer) {
    fake_cuda.frees++;
    free((void *)pointer);
    return 0;
}
int cuMemAllocAsync(uint64_t *pointer, size_t bytes, void *stream) {
    __atomic_add_fetch(&fake_cuda.async_allocs, 1, __ATOMIC_SEQ_CST);
    fake_cuda.alloc_stream = stream;
    *pointer = fake_cuda.alloc_error ? 0 : (uint64_t)malloc(bytes);
    return fake_cuda.alloc_error;
}
int cuMemFreeAsync(uint64_t pointer, void *stream) {
    if (pointer % 16 != 0) {
        return 1; // no allocation begins there
    }
    __atomic_add_fetch(&fake_cuda.async_frees, 1, __ATOMIC_SEQ_CST);
    free((void *)pointer);
    return 0;
}
int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t n) {
    memcpy((void *)to, from, n);
    return 0;
}
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t n) {
    memcpy(to, (void *)from, n);
    return 0;
}
int cuMemcpyDtoD_v2(uint64_t to, uint64_t from, size_t n) {
    memcpy((void *)to, (void *)from, n);
    return 0;
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t n, void *s) {
    return cuMemcpyHtoD_v2(to, from, n);
}
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t n, void *s) {
    return cuMemcpyDtoH_v2(to, from, n);
}
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t n, void *s) {
    return cuMemcpyDtoD_v2(to, from, n);
}
int cuMemcpy3D_v2(const void *copy) {
    return 1;
}
int cuPointerGetAttribute(void *value, int attribute, uint64_t pointer) {
    return 1;
}
int cuGetErrorName(int error, const char **name) {
    *name = error == 1     ? "CUDA_ERROR_INVALID_VALUE"
            : error == 2   ? "CUDA_ERROR_OUT_OF_MEMORY"
            : error == 100 ? "CUDA_ERROR_NO_DEVICE"
            : error == 209 ? "CUDA_ERROR_NO_BINARY_FOR_GPU"
                           : "CUDA_ERROR_UNKNOWN";
    return 0;
}
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void *stream, void **arguments, void **extra) {
    __atomic_add_fetch(&fake_cuda.launches, 1, __ATOMIC_SEQ_CST);
    fake_cuda.launch_stream = stream;
    fake_cuda.launch_context = depth > 0 ? stack[depth - 1] : NULL;
    unsigned grid[] = {gx, gy, gz}, block[] = {bx, by, bz};
    memcpy(fake_cuda.launch_grid, grid, sizeof(grid));
    memcpy(fake_cuda.launch_block, block, sizeof(block));
    fake_cuda.launch_shared = shared;
    int empty = !gx || !gy || !gz || !bx || !by || !bz;
    if (empty || bx * by * bz > 1024 || bz > 64 || gy > 65535 || gz > 65535 || shared > 49152) {
        fake_cuda.refused++;
        return 1;
    }
    if (fake_cuda.loops && !fake_cuda.launch_error) {
        fake_cuda.loops(arguments);
    }
    return fake_cuda.launch_error;
}
int cuFuncSetAttribute(void *function, int attribute, int value) {
    fake_cuda.shared_set = attribute == 8 ? value : fake_cuda.shared_set;
    fake_cuda.non_portable = attribute == 14 ? value : fake_cuda.non_portable;
    return 0;
}
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *function, int threads, size_t shared) {
    *blocks = fake_cuda.resident_blocks ? fake_cuda.resident_blocks : 1;
    return 0;
}
int cuOccupancyMaxActiveClusters(int *clusters, void *function, const struct fake_launch_config *config) {
    *clusters = fake_cuda.resident_clusters ? fake_cuda.resident_clusters : 66;
    return config->attribute_count == 1 && config->attributes[0].id == 4 ? 0 : 1;
}
int cuThreadExchangeStreamCaptureMode(int *mode) {
    return 0;
}
int cuMemsetD32Async(uint64_t pointer, unsigned value, size_t n, void *stream) {
    fake_cuda.memsets++;
    for (size_t i = 0; i < n; i++) {
        ((unsigned *)pointer)[i] = value;
    }
    return 0;
}
int cuTensorMapEncodeTiled(void *map, int type, uint32_t rank, void *address, const uint64_t *extents,
                           const uint64_t *strides, const uint32_t *box, const uint32_t *element_strides,
                           int interleave, int swizzle, int promotion, int fill) {
    struct fake_tensor_map m = {(uint64_t)address, (uint32_t)type, rank, (uint32_t)swizzle,
                                (uint32_t)promotion};
    if (m.address % 16 != 0 || rank < 1 || rank > 5 || interleave != 0 || fill != 0) {
        return 1;
    }
    for (uint32_t d = 0; d < rank; d++) {
        if (extents[d] == 0 || extents[d] > (uint64_t)1 << 32 || box[d] == 0 || box[d] > 256 ||
            element_strides[d] != 1 ||
            (d > 0 && (strides[d - 1] % 16 != 0 || strides[d - 1] >= (uint64_t)1 << 40))) {
            return 1;
        }
        m.extents[d] = (uint32_t)extents[d];
        m.boxes[d] = box[d];
        if (d > 0) {
            m.strides[d - 1] = (uint32_t)strides[d - 1];
        }
    }
    m.encoded = (uint32_t)__atomic_add_fetch(&fake_cuda.encodings, 1, __ATOMIC_SEQ_CST);
    memset(map, 0, 128);
    memcpy(map, &m, sizeof(m));
    return 0;
}
int cuLaunchKernelEx(const struct fake_launch_config *config, void *function, void **parameters,
                     void **extra) {
    __atomic_add_fetch(&fake_cuda.tile_launches, 1, __ATOMIC_SEQ_CST);
    fake_cuda.launch_stream = config->stream;
    fake_cuda.launch_context = depth > 0 ? stack[depth - 1] : NULL;
    fake_cuda.config = *config;
    for (unsigned i = 0; i < config->attribute_count && i < 4; i++) {
        fake_cuda.attributes[i] = config->attributes[i];
    }
    if (fake_cuda.kernel && !fake_cuda.launch_error) {
        fake_cuda.kernel(config, parameters);
    }
    return fake_cuda.launch_error;
}
