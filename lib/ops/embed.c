/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "ops/checks.h"
#include "ops/ops.h"

static tpcl_status check(const tpi_embed_args *a)
{
    tpcl_status status = TPCL_OK;
    const tpi_weight *w = a->weight;
    TPI_TRY(tpi_need("embed ids", a->ids, a->tokens, 1));
    TPI_TRY(tpi_need("embed y", a->y, a->tokens, w->k));
    TPI_REQUIRE(tpcl_range_size(a->base) + tpcl_range_size(a->added) == w->n, TPCL_ERR_ARG,
                "embed: words %lld..%lld and %lld..%lld, the weight has %d rows",
                (long long)a->base.begin, (long long)a->base.end, (long long)a->added.begin,
                (long long)a->added.end, w->n);
done:
    return status;
}

tpcl_status tpi_embed(const tpi_embed_args *a)
{
    tpcl_status status = TPCL_OK;
    const tpi_weight *w = a->weight;
    tpi_launch l = {.dev = w->dev};
    char options[96];
    TPI_TRY(check(a));
    if (w->k == 0) goto done;
    snprintf(options, sizeof options, "-cl-std=CL1.2 -DDT_%s -DP=%d", tpcl_dtype_name(w->dtype),
             TPI_PANEL);
    TPI_TRY(tpi_kernel_get(w->dev, "embed", options, "embed", &l.kernel));
    tpi_arg_mem(&l, a->ids->mem);
    tpi_arg_mem(&l, w->mem ? w->mem : a->y->mem); /* not read where this rank owns no word */
    tpi_arg_mem(&l, a->y->mem);
    tpi_arg_int(&l, w->k);
    tpi_arg_int(&l, (int)a->base.begin);
    tpi_arg_int(&l, (int)tpcl_range_size(a->base));
    tpi_arg_int(&l, (int)a->added.begin);
    tpi_arg_int(&l, (int)tpcl_range_size(a->added));
    tpi_arg_int(&l, a->vocab);
    const size_t global[2] = {(size_t)(w->k + 31) / 32, (size_t)a->tokens}, local[2] = {1, 1};
    TPI_TRY(tpi_launch_run(&l, 2, global, local, "embed"));
done:
    return status;
}
