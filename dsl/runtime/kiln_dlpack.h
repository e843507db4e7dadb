/** \file
 * DLPack's stable ABI (version 1, https://dmlc.github.io/dlpack/latest/c_api.html), as far as kiln_view_dlpack reads
 * it. Left out where the application has included dlpack.h already; include that one first if you use both.
 */
#ifndef KILN_DLPACK_H
#define KILN_DLPACK_H

#ifndef DLPACK_DLPACK_H_

#ifdef __cplusplus
#include <cstdint>
extern "C" {
#else
#include <stdint.h>
#endif

typedef enum
#ifdef __cplusplus
    : int32_t
#endif
{ kDLCPU = 1,
  kDLCUDA = 2,
  kDLCUDAHost = 3,
  kDLOpenCL = 4,
  kDLCUDAManaged = 13,
} DLDeviceType;

typedef struct {
    DLDeviceType device_type;
    int32_t device_id;
} DLDevice;

typedef enum { kDLInt = 0U, kDLUInt = 1U, kDLFloat = 2U, kDLBfloat = 4U, kDLBool = 6U } DLDataTypeCode;

typedef struct {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
} DLDataType;

typedef struct {
    void *data;
    DLDevice device;
    int32_t ndim;
    DLDataType dtype;
    int64_t *shape;
    int64_t *strides; /* in elements; null: dense, last dimension innermost */
    uint64_t byte_offset;
} DLTensor;

#ifdef __cplusplus
}
#endif

#endif /* DLPACK_DLPACK_H_ */
#endif
