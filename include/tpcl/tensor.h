/** @file tensor.h  Tensors: full ones on the host, a rank's own on its device. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPCL_TENSOR_H
#define TPCL_TENSOR_H

#include <stdint.h>
#include <tpcl/device.h>
#include <tpcl/dtype.h>
#include <tpcl/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * A *full* (unsharded) tensor on the host, row-major, the last dimension contiguous.
 * Layers fetch only their rank's part of it. Block types count elements in `shape`.
 */
typedef struct tpcl_host_tensor {
    const char *name; /**< for messages; not NULL */
    tpcl_dtype dtype; /**< of the stored elements */
    int ndim;         /**< 0..4 */
    int64_t shape[4]; /**< outermost first: a weight is [out_features, in_features] */
    const void *data; /**< all bytes, or NULL when `read` is used */
    /** Copies `bytes` from byte `offset` of the tensor to `destination`. A layer asks for its
     * rank's part only, in pieces; what it returns, if not TPCL_OK, ends the create call. */
    tpcl_status (*read)(void *context, uint64_t offset, size_t bytes, void *destination);
    void *context; /**< given to read */
} tpcl_host_tensor;

/** A dense f32 (or I32) array in device memory. Opaque. */
typedef struct tpcl_tensor tpcl_tensor;

/**
 * Allocates an uninitialised device tensor.
 *
 * @param dtype  in  TPCL_F32 or TPCL_I32
 * @param ndim   in  1..4
 * @param shape  in  elements, each >= 0; a tensor without elements is legal
 * Collective: no.  Blocks: no.  Allocates: yes.
 * Errors: TPCL_ERR_ARG, TPCL_ERR_SHAPE (over the device's allocation limit), TPCL_ERR_DEVICE_MEM.
 */
TPCL_NODISCARD tpcl_status tpcl_tensor_create(tpcl_device *device, tpcl_dtype dtype, int ndim,
                                              const int64_t *shape, tpcl_tensor **out);
/**
 * NULL and *NULL are no-ops; sets *tensor to NULL. What was queued with it still runs.
 *
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
void tpcl_tensor_destroy(tpcl_tensor **tensor);

/**
 * Copies the first @p elements elements to the device, or from it, after all that was queued
 * before.
 *
 * Collective: no.  Blocks: yes.  Allocates: no.  Errors: TPCL_ERR_SHAPE, TPCL_ERR_DEVICE.
 */
TPCL_NODISCARD tpcl_status tpcl_tensor_write(tpcl_tensor *dst, const void *src, size_t elements);
TPCL_NODISCARD tpcl_status tpcl_tensor_read(const tpcl_tensor *src, void *dst, size_t elements);

#ifdef __cplusplus
}
#endif
#endif
