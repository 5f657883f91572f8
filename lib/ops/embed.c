/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "ops/checks.h"
#include "ops/ops.h"

tpcl_status tpi_embed(const tpi_weight *w, const tpcl_tensor *ids, tpcl_tensor *y, int tokens,
                      int v0)
{
    tpcl_status status = TPCL_OK;
    tpi_launch l = {.dev = y->dev};
    char options[96];
    TPI_TRY(tpi_need("embed ids", ids, tokens, 1));
    TPI_TRY(tpi_need("embed y", y, tokens, w->k));
    if (w->bytes == 0) { /* this rank owns no word */
        TPI_TRY(tpi_fill_zero(y->dev, y->mem, (uint64_t)tokens * (uint64_t)w->k));
        goto done;
    }
    snprintf(options, sizeof options, "-cl-std=CL1.2 -DDT_%s -DP=%d", tpcl_dtype_name(w->dtype),
             TPI_PANEL);
    TPI_TRY(tpi_kernel_get(w->dev, "embed", options, "embed", &l.kernel));
    tpi_arg_mem(&l, ids->mem);
    tpi_arg_mem(&l, w->mem);
    tpi_arg_mem(&l, y->mem);
    tpi_arg_int(&l, w->k);
    tpi_arg_int(&l, v0);
    tpi_arg_int(&l, w->n);
    const size_t global[2] = {(size_t)(w->k + 31) / 32, (size_t)tokens}, local[2] = {1, 1};
    TPI_TRY(tpi_launch_run(&l, 2, global, local, "embed"));
done:
    return status;
}
