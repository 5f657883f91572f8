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
