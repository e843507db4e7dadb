/** \file
 * What a test sees of the CUDA driver that computes nothing (fake_cuda.c): numbers to set before a call, and counts and
 * arguments of what was called. The library exports one of it, `fake_cuda`.
 */
#ifndef KILN_FAKE_CUDA_H
#define KILN_FAKE_CUDA_H

#include <stdint.h>

/** The arguments of cuTensorMapEncodeTiled, which a descriptor is made of here. */
struct fake_tensor_map {
    uint64_t address;
    uint32_t type, rank, swizzle, promotion;
    uint32_t extents[5], strides[4], boxes[5]; /**< strides in bytes */
    uint32_t encoded;                          /**< the number of this encoding, from 1 */
};

/** As CUlaunchConfig and CUlaunchAttribute. */
struct fake_launch_attribute {
    int id;
    char pad[4];
    unsigned value[16];
};
struct fake_launch_config {
    unsigned grid[3], block[3], shared_bytes;
    void *stream;
    struct fake_launch_attribute *attributes;
    unsigned attribute_count;
};

struct fake_cuda {
    int capability, driver_version, device_count;
    int init_error, load_error, alloc_error, launch_error;
    int loads, unloads, launches, allocs, async_allocs, frees, async_frees;
    void *launch_stream, *launch_context, *alloc_stream;
    /* Tile kernels. Zero stands for what an H200 has: 132 processors, 227 KiB of shared memory, one block each. */
    int processors, shared_bytes, resident_blocks, resident_clusters, max_grid;
    int encodings, tile_launches, memsets, shared_set, non_portable;
    struct fake_launch_config config;
    struct fake_launch_attribute attributes[4];
    /** Called in place of a tile kernel, if set; the memory of this device is the host's. */
    void (*kernel)(const struct fake_launch_config *config, void **parameters);
    /** Of the last kernel of Halide's loops, also of one that was refused. */
    unsigned launch_grid[3], launch_block[3], launch_shared;
    /** Called in place of a kernel of Halide's loops, if set, with what cuLaunchKernel got. */
    void (*loops)(void **arguments);
    int refused; /**< launches beyond what an H200 allows, which answers them with CUDA_ERROR_INVALID_VALUE */
};

#endif
