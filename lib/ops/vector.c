/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/dtype.h"
#include "ops/ops.h"

tpcl_status tpi_vector_range(tpcl_device *dev, const tpcl_host_tensor *t, int64_t begin,
                             int64_t end, tpcl_tensor **out)
{
    tpcl_status status = TPCL_OK;
    const int64_t n = end - begin;
    tpcl_tensor *vector = NULL;
    float *values = NULL;
    TPI_REQUIRE(t->ndim == 1, TPCL_ERR_SHAPE, "%s: %d dimensions, need 1", t->name, t->ndim);
    TPI_REQUIRE(0 <= begin && begin <= end && end <= t->shape[0], TPCL_ERR_SHAPE,
                "%s: elements %lld..%lld of %lld", t->name, (long long)begin, (long long)end,
                (long long)t->shape[0]);
    TPI_REQUIRE(t->dtype != TPCL_I32 && tpcl_dtype_block_bytes(t->dtype) > 0, TPCL_ERR_UNSUPPORTED,
                "%s: stored as %s, which no layer can use", t->name, tpcl_dtype_name(t->dtype));
    TPI_REQUIRE(t->shape[0] % tpcl_dtype_block(t->dtype) == 0, TPCL_ERR_SHAPE,
                "%s: %lld elements are not whole %s blocks of %d", t->name, (long long)t->shape[0],
                tpcl_dtype_name(t->dtype), tpcl_dtype_block(t->dtype));
    TPI_REQUIRE(t->data || t->read || n == 0, TPCL_ERR_ARG, "%s: neither data nor read", t->name);
    values = malloc((size_t)n * sizeof *values + 1);
    TPI_REQUIRE(values, TPCL_ERR_NOMEM, "%s: %lld values", t->name, (long long)n);
    const tpi_part part = {t, 0, 1, begin, end};
    TPI_TRY(tpi_part_read_f32(&part, 0, values));
    TPI_TRY(tpcl_tensor_create(dev, TPCL_F32, 1, &n, &vector));
    TPI_TRY(tpcl_tensor_write(vector, values, (size_t)n));
    *out = vector;
    vector = NULL;
done:
    tpcl_tensor_destroy(&vector);
    free(values);
    return status;
}

tpcl_status tpcl_vector_create(tpcl_device *device, const tpcl_host_tensor *tensor,
                               tpcl_tensor **out)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(out, TPCL_ERR_ARG, "vector: out is NULL");
    *out = NULL;
    TPI_REQUIRE(device, TPCL_ERR_ARG, "vector: device is NULL");
    TPI_REQUIRE(tensor && tensor->name, TPCL_ERR_ARG, "vector: tensor or its name is NULL");
    TPI_TRY(tpi_vector_range(device, tensor, 0, tensor->shape[0], out));
done:
    return status;
}
