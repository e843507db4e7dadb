/** \file
 * What a kernel library says of itself to the runtime. Generated C fills these tables in; applications may read them
 * through NAME_info(). Part of the ABI: see KILN_ABI_VERSION.
 */
#ifndef KILN_ENTRY_H
#define KILN_ENTRY_H

#include "kiln.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { KILN_SCALAR = 0, KILN_INPUT = 1, KILN_OUTPUT = 2 };
enum { KILN_CPU = 0, KILN_CUDA = 1, KILN_OPENCL = 2 };

/** A bound that the contract sets on one dimension; KILN_FREE where it sets none. */
#define KILN_FREE INT32_MIN
typedef struct kiln_entry_dimension {
    int32_t min, extent, stride;
} kiln_entry_dimension;

typedef struct kiln_entry_argument {
    const char *name;
    uint8_t kind;
    uint8_t type_code,
        type_bits; /**< as halide_type_t; the type of the algorithm, not of a variant's storage */
    uint8_t dimensions;
    int32_t
        alignment; /**< of the host pointer, in bytes; that of one element where the contract asks for no more */
    const kiln_entry_dimension *dimension;
} kiln_entry_argument;

/** What a variant needs of a call beyond the contract. */
enum {
    KILN_EXTENT_AT_LEAST = 0,
    KILN_EXTENT_AT_MOST = 1,
    KILN_EXTENT_MULTIPLE_OF = 2,
    KILN_STRIDE_MULTIPLE_OF = 3,
    KILN_ALIGNED_TO = 4, /**< host or device address, in bytes */
    KILN_STRIDE_IS = 5,
    KILN_MIN_IS = 6,
    KILN_DEVICE_ALIGNED_TO =
        7,                   /**< device address, in bytes, where there is one yet: new memory is aligned */
    KILN_BLOCKS_AT_MOST = 8, /**< no more blocks of `value` elements than the other argument has */
    KILN_DEVICE_IS =
        9, /**< OpenCL: CL_DEVICE_TYPE of the call's device has the bit `value`; of no argument */
    KILN_ELEMENTS_AT_MOST =
        10, /**< `value` elements in all, and from the first to the last of each dimension */
    KILN_DEVICE_VECTOR =
        11 /**< OpenCL: CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT of that device is `value` at least; of no argument */
};
typedef struct kiln_entry_condition {
    uint8_t what, argument, dimension;
    uint8_t other, other_dimension; /**< KILN_BLOCKS_AT_MOST */
    int64_t value;
} kiln_entry_condition;

typedef struct kiln_entry_variant {
    const char *target;   /**< `cpu avx2` */
    const char *schedule; /**< its name */
    uint8_t backend;
    uint8_t exact;                /**< CUDA: runs on no other compute capability than cuda_capability */
    int32_t cuda_capability;      /**< CUDA: the least that it runs on, 10 * major + minor */
    const uint64_t *cpu_features; /**< bits by halide_target_feature_t, two words; null: none */
    int32_t condition_count;
    const kiln_entry_condition *conditions;
    int (*argv)(void **);
    const struct halide_filter_metadata_t *(*metadata)(void);
    int (*workspace)(void **); /**< the arguments of argv; calls kiln_workspace_note */
    /** CUDA: what each argument's device address must be a multiple of, in bytes; null: of one element. The runtime
     * copies an argument that is not. */
    const uint8_t *device_alignment;
    int32_t tile_count;
    const struct kiln_tile_kernel *const *tiles; /**< its tile kernels (kiln_tile.h), for NAME_prepare */
} kiln_entry_variant;

typedef struct kiln_entry_library {
    int32_t abi;
    int32_t argument_count, variant_count;
    const char *name;
    const kiln_entry_argument *arguments;
    const kiln_entry_variant *variants;
    const char *json;       /**< the text of NAME.json */
    const int *runtime_abi; /**< &KILN_ABI_SYMBOL: a runtime of another ABI does not link */
} kiln_entry_library;

KILN_API int kiln_entry_call(const kiln_entry_library *library, const kiln_call *call, void **arguments);
KILN_API int kiln_entry_prepare(const kiln_entry_library *library, const kiln_call *call);
/** The variant that a call with these arguments would run, or null with a message. `reason` (may be null) gets why
 * earlier ones were passed over. */
KILN_API const kiln_entry_variant *kiln_entry_choose(const kiln_entry_library *library, const kiln_call *call,
                                                     void **arguments, char *reason, size_t reason_size);

/** What a variant takes for intermediate values under this call: see kiln_workspace. Buffers need shapes, but no
 * memory; a variant that asks for an alignment counts as fitting an argument without an address. */
KILN_API int kiln_entry_workspace(const kiln_entry_library *library, const kiln_call *call, void **arguments,
                                  kiln_workspace *workspace);
/** Called by generated code. -1: the bytes depend on values that only a run computes. */
KILN_API int kiln_workspace_note(void *user_context, int64_t host_bytes, int64_t device_bytes);
/** What the runtime puts around a block of host memory, and what an empty buffer takes of a device. */
#define KILN_ALLOCATION_HEADER 256
#define KILN_DEVICE_BYTES_OF_EMPTY 64

/** Defined by a runtime of this ABI and asked for by each library. */
#define KILN_ABI_SYMBOL kiln_runtime_abi_1
extern KILN_API const int KILN_ABI_SYMBOL;

#ifdef __cplusplus
} // extern "C"
#endif

#endif
