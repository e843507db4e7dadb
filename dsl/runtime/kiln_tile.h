/** \file
 * What generated code says to the runtime about a tile kernel: a GPU kernel that Kiln compiled itself and that stands in
 * a pipeline as an extern stage. The generated function of such a stage describes its views, asks kiln_tile_query and
 * kiln_tile_check, evaluates the kernel's parameters and calls kiln_tile_launch. Part of the ABI: see KILN_ABI_VERSION.
 *
 * All functions report through `user_context` as every kernel does (kiln_last_message) and return 0 or a code that is
 * not. None aborts, and where one refuses nothing was written.
 */
#ifndef KILN_TILE_H
#define KILN_TILE_H

#include "kiln.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The most parameters of a tile kernel, and the deepest rank that TMA moves. */
#define KILN_TILE_MAX_PARAMS 64
#define KILN_TILE_MAX_TMA_RANK 5

/** A compiled kernel: constant, but for the number behind `id`. */
typedef struct kiln_tile_kernel {
    const char *name;     /**< the Func, for messages */
    const char *function; /**< its name in the image */
    const void *image;    /**< a cubin, PTX, or OpenCL C; text ends with a zero byte */
    uint64_t image_bytes;
    uint32_t
        *id; /**< 0 at first: the runtime's number for this kernel, by which it keeps modules a context */
    int32_t threads;      /**< a block */
    int32_t shared_bytes; /**< dynamic shared memory of a block */
    int32_t cluster;      /**< blocks of a cluster; 1: none */
    /** 0: one block a tile. 1: as many blocks as the device holds at once, tiles at most. */
    uint8_t persistent;
    uint8_t
        launch_ahead; /**< may start before the kernel before it has ended (programmatic dependent launch) */
    uint8_t cooperative; /**< all blocks must run at once */
    uint8_t backend;     /**< KILN_TILE_CUDA or KILN_TILE_OPENCL */
} kiln_tile_kernel;

/** What a kernel was compiled for. In OpenCL a block is a work-group; it has no clusters, and nothing starts ahead. */
enum { KILN_TILE_CUDA = 0, KILN_TILE_OPENCL = 1 };

/** Elements of a view, by the numbers of CUtensorMapDataType. */
enum {
    KILN_TILE_UINT8 = 0,
    KILN_TILE_UINT16 = 1,
    KILN_TILE_UINT32 = 2,
    KILN_TILE_INT32 = 3,
    KILN_TILE_UINT64 = 4,
    KILN_TILE_INT64 = 5,
    KILN_TILE_FLOAT16 = 6,
    KILN_TILE_FLOAT32 = 7,
    KILN_TILE_FLOAT64 = 8,
    KILN_TILE_BFLOAT16 = 9
};

/** A buffer as the kernel sees it. Kernels count from 0: every buffer must begin there. */
typedef struct kiln_tile_view {
    const char *name;
    halide_buffer_t *buffer;
    uint8_t element; /**< KILN_TILE_… */
    uint8_t is_output;
    /** What this call reads of an input: first and last coordinate of each dimension; a last one below the first:
     * nothing. Of an output: {0, -1}. */
    int64_t box[KILN_MAX_RANK][2];
    int64_t
        extent[KILN_MAX_RANK]; /**< that the kernel sees: the buffer's, or less where it would read in vain */
} kiln_tile_view;

enum {
    KILN_TILE_TENSOR_MAP = 0, /**< 128 bytes: a box of view `view` for TMA */
    KILN_TILE_POINTER = 1,    /**< device address of the view's element at its minimum */
    KILN_TILE_VALUE = 2,      /**< `value`, of which the kernel takes as many bytes as its parameter has */
    KILN_TILE_INT = 3,        /**< `value`, which must fit in 32 bits */
    /** unsigned 64-bit (2^64 - 1) / v + 1, modulo 2^64, for v = `value` or 1 where that is less: kernels divide by
     * it */
    KILN_TILE_RECIPROCAL = 4,
    KILN_TILE_COUNTER =
        5, /**< address of two zeroed ints, for tiles that are handed out as blocks get free */
    KILN_TILE_WORKSPACE = 6, /**< address of `value` bytes of the launch's own */
    KILN_TILE_COUNTERS = 7   /**< address of `value` zeroed ints, which the kernel leaves zeroed */
};

/** One parameter of the kernel function, in order. */
typedef struct kiln_tile_param {
    uint8_t kind;
    uint8_t view;                        /**< index: TENSOR_MAP, POINTER */
    uint8_t swizzle;                     /**< TENSOR_MAP: 0, 32, 64 or 128 bytes */
    const char *text;                    /**< INT: what it is, for messages */
    int32_t box[KILN_TILE_MAX_TMA_RANK]; /**< TENSOR_MAP: elements, innermost first */
    int64_t value;
    uint8_t bytes; /**< VALUE: of the kernel's parameter; 0: 4 */
} kiln_tile_param;

/** 1 where any buffer is a bounds query: then the queries among the inputs have got their boxes, the outputs' begin at
 * 0, and the stage is to return 0. Else 0. */
KILN_API int kiln_tile_query(const kiln_tile_view *views, int32_t view_count);

/** KILN_INVALID_ARGUMENT where an input has less than is read, or a buffer does not begin at 0. */
KILN_API int kiln_tile_check(void *user_context, const kiln_tile_kernel *kernel, const kiln_tile_view *views,
                             int32_t view_count);

/** KILN_INVALID_ARGUMENT: the call breaks a condition of the kernel, which `condition` states. */
KILN_API int kiln_tile_refuse(void *user_context, const kiln_tile_kernel *kernel, const char *condition);

/** Gives an output memory on the kernel's device, where it has none. For outputs that this kernel writes under another
 * stage. */
KILN_API int kiln_tile_allocate(void *user_context, const kiln_tile_kernel *kernel, halide_buffer_t *buffer);

/** Queues the kernel on the stream of the call. The number of tiles is the product of `grid`; without tiles nothing is
 * launched. Neither waits nor, in a call on device buffers, allocates anything but counters and workspaces (from the stream's pool),
 * so that a CUDA graph captures it; the first launch of a context loads the module, which kiln_tile_prepare does ahead. */
KILN_API int kiln_tile_launch(void *user_context, const kiln_tile_kernel *kernel, const kiln_tile_view *views,
                              int32_t view_count, const int64_t *grid, int32_t grid_count,
                              const kiln_tile_param *params, int32_t param_count);

/** Loads the kernel's module on the device of the call. */
KILN_API int kiln_tile_prepare(void *user_context, const kiln_tile_kernel *kernel);

#ifdef __cplusplus
} // extern "C"
#endif

#endif
