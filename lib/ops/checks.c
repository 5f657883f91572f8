/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/checks.h"

tpcl_status tpi_need(const char *what, const tpcl_tensor *t, int64_t rows, int64_t columns)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(t, TPCL_ERR_ARG, "%s is NULL", what);
    TPI_REQUIRE(rows >= 0 && columns >= 0, TPCL_ERR_ARG, "%s: %lld x %lld elements", what,
                (long long)rows, (long long)columns);
    TPI_REQUIRE((uint64_t)rows * (uint64_t)columns <= t->bytes / 4, TPCL_ERR_SHAPE,
                "%s: %lld x %lld elements needed, the tensor has %zu", what, (long long)rows,
                (long long)columns, t->bytes / 4);
done:
    return status;
}

static size_t elements(const tpi_operand *o)
{
    return (size_t)o->rows * (size_t)o->columns;
}

static bool clash(const tpi_operand *a, const tpi_operand *b)
{
    if (a->use != TPI_WRITTEN && b->use != TPI_WRITTEN) return false;
    const bool in_place = a->use == TPI_READ_IN_PLACE || b->use == TPI_READ_IN_PLACE;
    if (in_place && tpi_tensor_same(a->tensor, b->tensor)) return false;
    return tpi_tensor_overlap(a->tensor, elements(a), b->tensor, elements(b));
}

tpcl_status tpi_need_all(const tpi_operand *o, int n)
{
    tpcl_status status = TPCL_OK;
    for (int i = 0; i < n; i++) {
        TPI_TRY(tpi_need(o[i].what, o[i].tensor, o[i].rows, o[i].columns));
        TPI_REQUIRE(o[i].tensor->dtype == TPCL_F32, TPCL_ERR_ARG, "%s: dtype %s, need F32",
                    o[i].what, tpcl_dtype_name(o[i].tensor->dtype));
        TPI_REQUIRE(o[i].tensor->dev == o[0].tensor->dev, TPCL_ERR_ARG,
                    "%s is a tensor of another device than %s", o[i].what, o[0].what);
    }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++)
            TPI_REQUIRE(!clash(&o[i], &o[j]), TPCL_ERR_ARG,
                        "%s overlaps %s: give it a tensor of its own", o[i].what, o[j].what);
done:
    return status;
}

size_t tpi_workgroup(const tpcl_device *dev)
{
    size_t wg = 64;
    if (dev->info.type == TPCL_DEVICE_CPU) return 1;
    while (wg > dev->info.max_workgroup) wg /= 2;
    return wg;
}

size_t tpi_single_group(const tpcl_device *dev)
{
    const size_t most = 256;
    if (dev->info.type != TPCL_DEVICE_CPU) return 0;
    return most < dev->info.max_workgroup ? most : dev->info.max_workgroup;
}
