/** \file
 * What an application needs to call kernels that Kiln built: C11 and C++17, no exceptions, no other library.
 * Every kernel NAME comes with NAME.h, which includes this file and declares
 *
 *     int NAME(const kiln_call *call, halide_buffer_t *input, …, halide_buffer_t *output, …);
 *     int NAME_argv(const kiln_call *call, void **arguments);
 *     int NAME_prepare(const kiln_call *call);
 *     int NAME_workspace(const kiln_call *call, …the arguments of NAME…, kiln_workspace *workspace);
 *     const kiln_entry_library *NAME_info(void);
 *
 * A kernel checks its contract before it does anything. On a breach it returns a code other than KILN_OK, leaves
 * every output as it was, and kiln_last_message() names the argument, its value and the need. It never aborts.
 * GPU kernels return when their work is queued; results stay on the device (halide_copy_to_host fetches them).
 */
#ifndef KILN_H
#define KILN_H

#include "HalideRuntime.h"
#include "HalideRuntimeCuda.h"
#include "HalideRuntimeOpenCL.h"
#include "kiln_dlpack.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(KILN_BUILDING_RUNTIME)
#define KILN_API __attribute__((visibility("default")))
#else
#define KILN_API
#endif

/** Changes when kiln_call, kiln_view or what kernels and runtime say to each other change. A kernel library asks
 * for the symbol kiln_runtime_abi_N, so that a runtime of another N fails at link time and not at run time. */
#define KILN_ABI_VERSION 1

/** The deepest rank and the most arguments of a kernel. */
#define KILN_MAX_RANK 8
#define KILN_MAX_ARGUMENTS 32

typedef enum kiln_status {
    KILN_OK = 0,
    KILN_INVALID_ARGUMENT = 1, /**< the call breaks the kernel's contract; nothing was written */
    KILN_OUT_OF_MEMORY = 2,    /**< host or device memory for intermediate values ran out */
    KILN_NO_DEVICE = 3,     /**< no driver or no device for it, or one that is too old; nothing was written */
    KILN_DEVICE_ERROR = 4,  /**< the driver reported an error; outputs may be half written */
    KILN_UNSUPPORTED = 5,   /**< no variant in the library can run here; nothing was written */
    KILN_INTERNAL_ERROR = 6 /**< a fault of Kiln's; please report it */
} kiln_status;

/** `invalid argument`, and so on. Never null. */
KILN_API const char *kiln_status_name(int status);

/** The message of the last failed call on this thread, or "". Valid until this thread's next call. */
KILN_API const char *kiln_last_message(void);

/** Where memory is, for kiln_call.alloc. */
typedef enum kiln_space { KILN_SPACE_HOST = 0, KILN_SPACE_CUDA = 1 } kiln_space;

/** How to make one call. Null stands for all defaults. Start from KILN_CALL_INIT; the struct is only read.
 * Buffers made under one call (halide_device_malloc, halide_copy_to_host, …) take it as their user_context. */
typedef struct kiln_call {
    size_t size;        /**< sizeof(kiln_call): lets later versions add members */
    int device;         /**< ordinal of the GPU, where no context is given; 0 is the first */
    void *cuda_context; /**< CUcontext; null: the one of cuda_stream, or the device's primary context */
    void *cuda_stream;  /**< CUstream; null: the context's default stream */
    void *cl_context;   /**< cl_context; null: that of cl_queue, or one that the runtime makes and keeps */
    void *cl_queue;     /**< cl_command_queue, in order; null: the runtime's own */
    /** Called once on the calling thread with the message of a failed call. May be null. */
    void (*on_message)(const struct kiln_call *call, int status, const char *message);
    void *user; /**< not touched */
    /** Memory for intermediate values, in place of malloc and the stream-ordered pool. `alignment` is a power of
     * two. KILN_SPACE_CUDA: a device address valid on cuda_stream. Null on failure. Called from worker threads too. */
    void *(*alloc)(const struct kiln_call *call, size_t bytes, size_t alignment, int space);
    void (*free)(const struct kiln_call *call, void *memory, size_t bytes, int space);
} kiln_call;

#ifdef __cplusplus
#define KILN_CALL_INIT                                                                                       \
    kiln_call {                                                                                              \
        sizeof(kiln_call), 0, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr         \
    }
#else
#define KILN_CALL_INIT                                                                                       \
    (kiln_call) {                                                                                            \
        sizeof(kiln_call), 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL                                 \
    }
#endif

/** Bytes for intermediate values that one call holds at once, at most: the sum of what it asks of kiln_call.alloc and
 * has not given back. A CPU kernel's worker threads are counted in. */
typedef struct kiln_workspace {
    int64_t host_bytes;   /**< KILN_SPACE_HOST, each block aligned to 128 bytes */
    int64_t device_bytes; /**< on the device of the call; for CUDA each block aligned to 256 bytes */
} kiln_workspace;

/** Element types. 16-bit floats may also be passed as uint16, their bits. */
typedef enum kiln_type {
    KILN_INT8,
    KILN_INT16,
    KILN_INT32,
    KILN_INT64,
    KILN_UINT8,
    KILN_UINT16,
    KILN_UINT32,
    KILN_UINT64,
    KILN_FLOAT16,
    KILN_FLOAT32,
    KILN_FLOAT64,
    KILN_BFLOAT16,
    KILN_BOOL
} kiln_type;

/** A halide_buffer_t with room for its dimensions: pass &view.buffer to a kernel. A view owns no data, but
 * one of OpenCL memory holds a handle until kiln_view_release. Do not copy it: `buffer` points into it. */
typedef struct kiln_view {
    halide_buffer_t buffer;
    halide_dimension_t dim[KILN_MAX_RANK];
} kiln_view;

/** Views of the caller's memory. Dimension 0 is the innermost (Halide's order); extents and strides count
 * elements; `strides` null means dense. Every dimension starts at 0 (set view->dim[d].min to move it).
 * Return KILN_OK, or KILN_INVALID_ARGUMENT: rank above KILN_MAX_RANK, a negative extent, an extent or a stride
 * beyond 2^31 - 1. */
KILN_API int kiln_view_host(kiln_view *view, kiln_type type, void *data, int rank, const int64_t *extents,
                            const int64_t *strides);
/** `data` is a CUdeviceptr, which may point into an allocation. */
KILN_API int kiln_view_cuda(kiln_view *view, kiln_type type, void *data, int rank, const int64_t *extents,
                            const int64_t *strides);
/** `mem` is a cl_mem, which the view retains; the data start `byte_offset` bytes into it. */
KILN_API int kiln_view_opencl(kiln_view *view, kiln_type type, void *mem, uint64_t byte_offset, int rank,
                              const int64_t *extents, const int64_t *strides);
/** The tensor's last dimension becomes dimension 0. CPU, pinned host, CUDA, managed and OpenCL memory. */
KILN_API int kiln_view_dlpack(kiln_view *view, const DLTensor *tensor);
/** Frees what a view of OpenCL memory holds, and device memory that a kernel made for a view of host memory.
 * Harmless on others and when called twice. `call` as given to the kernel. */
KILN_API int kiln_view_release(const kiln_call *call, kiln_view *view);

/** Waits until all work that kernels queued under `call` is done: its CUDA stream or its OpenCL queue. */
KILN_API int kiln_synchronize(const kiln_call *call, const struct halide_device_interface_t *device);

/** Waits for the device, then drops everything that the runtime holds for the context of `call` (compiled modules,
 * memory kept for reuse). Call it before you destroy a context that kernels ran in, and while no call runs. `device`
 * NULL: of the context of `call` on CUDA, and of every OpenCL context that the runtime made. Call it so before you
 * dlclose a library, which itself waits for no OpenCL device. */
KILN_API int kiln_release_context(const kiln_call *call, const struct halide_device_interface_t *device);

/** Which variant of a kernel the last call on this thread ran, and why it was not an earlier one; "" before the
 * first call. */
KILN_API const char *kiln_last_choice(void);

/** "0.1.0 (Halide 21.0.0)" */
KILN_API const char *kiln_runtime_version(void);

#ifdef __cplusplus
} // extern "C"
#endif

#endif
