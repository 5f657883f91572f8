/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/checked.h"
#include "base/dtype.h"
#include "device/device.h"

tpcl_status tpi_tensor_alloc(tpcl_device *device, tpcl_dtype dtype, int ndim, const int64_t *shape,
                             tpcl_tensor **out)
{
    tpcl_status status = TPCL_OK;
    tpcl_tensor *t = NULL;
    uint64_t bytes = 4;

    TPI_REQUIRE(device, TPCL_ERR_ARG, "tensor: device is NULL");
    TPI_REQUIRE(shape, TPCL_ERR_ARG, "tensor: shape is NULL");
    TPI_REQUIRE(dtype == TPCL_F32 || dtype == TPCL_I32, TPCL_ERR_ARG,
                "tensor: dtype %s, need F32 or I32", tpcl_dtype_name(dtype));
    TPI_REQUIRE(ndim >= 1 && ndim <= 4, TPCL_ERR_ARG, "tensor: %d dimensions, need 1 to 4", ndim);
    t = calloc(1, sizeof *t);
    TPI_REQUIRE(t, TPCL_ERR_NOMEM, "tensor object");
    t->dev = tpi_device_retain(device);
    t->dtype = dtype;
    t->ndim = ndim;
    for (int d = 0; d < ndim; d++) {
        TPI_REQUIRE(shape[d] >= 0, TPCL_ERR_ARG, "tensor: dimension %d is %lld", d,
                    (long long)shape[d]);
        t->shape[d] = shape[d];
        TPI_REQUIRE(tpi_mul_u64(bytes, (uint64_t)shape[d], &bytes), TPCL_ERR_SHAPE,
                    "tensor: its size overflows at dimension %d", d);
    }
    t->bytes = (size_t)bytes;
    *out = t;
    t = NULL;
done:
    tpcl_tensor_destroy(&t);
    return status;
}

tpcl_status tpcl_tensor_create(tpcl_device *device, tpcl_dtype dtype, int ndim,
                               const int64_t *shape, tpcl_tensor **out)
{
    tpcl_status status = TPCL_OK;
    tpcl_tensor *t = NULL;
    TPI_REQUIRE(out, TPCL_ERR_ARG, "tensor: out is NULL");
    *out = NULL;
    TPI_TRY(tpi_tensor_alloc(device, dtype, ndim, shape, &t));
    TPI_TRY(tpi_buffer_create(device, t->bytes, "tensor", &t->mem));
    t->root = t->mem;
    *out = t;
    t = NULL;
done:
    tpcl_tensor_destroy(&t);
    return status;
}

bool tpi_tensor_overlap(const tpcl_tensor *a, size_t a_elements, const tpcl_tensor *b,
                        size_t b_elements)
{
    if (!a->root || a->root != b->root || a_elements == 0 || b_elements == 0) return false;
    return a->at < b->at + b_elements * 4 && b->at < a->at + a_elements * 4;
}

bool tpi_tensor_same(const tpcl_tensor *a, const tpcl_tensor *b)
{
    return a == b || (a->root && a->root == b->root && a->at == b->at);
}

void tpcl_tensor_destroy(tpcl_tensor **tensor)
{
    if (!tensor || !*tensor) return;
    tpi_buffer_release(&(*tensor)->mem);
    tpcl_device_close(&(*tensor)->dev);
    free(*tensor);
    *tensor = NULL;
}

tpcl_status tpcl_tensor_write(tpcl_tensor *dst, const void *src, size_t elements)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(dst && (src || !elements), TPCL_ERR_ARG, "tensor write: a pointer is NULL");
    TPI_REQUIRE(elements <= dst->bytes / 4, TPCL_ERR_SHAPE, "tensor write: %zu elements into %zu",
                elements, dst->bytes / 4);
    if (elements == 0) goto done;
    TPI_TRY(TPI_CL(clEnqueueWriteBuffer(dst->dev->queue, dst->mem, CL_TRUE, 0, elements * 4, src, 0,
                                        NULL, NULL)));
done:
    return status;
}

tpcl_status tpcl_tensor_read(const tpcl_tensor *src, void *dst, size_t elements)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(src && (dst || !elements), TPCL_ERR_ARG, "tensor read: a pointer is NULL");
    TPI_REQUIRE(elements <= src->bytes / 4, TPCL_ERR_SHAPE, "tensor read: %zu elements from %zu",
                elements, src->bytes / 4);
    if (elements == 0) goto done;
    TPI_TRY(TPI_CL(clEnqueueReadBuffer(src->dev->queue, src->mem, CL_TRUE, 0, elements * 4, dst, 0,
                                       NULL, NULL)));
done:
    return status;
}
