/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>

#include "ops/checks.h"
#include "ops/ops.h"

static tpcl_status check(const tpcl_tensor *h, const tpcl_tensor *add, const tpcl_tensor *w,
                         const tpcl_tensor *y, int tokens, int dim, float eps)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(dim >= 1, TPCL_ERR_ARG, "rmsnorm: dim %d, need 1 or more", dim);
    TPI_REQUIRE(isfinite(eps) && eps >= 0.0f, TPCL_ERR_ARG,
                "rmsnorm: eps %g, need a finite number >= 0", (double)eps);
    const tpi_operand operands[] = {
        {"rmsnorm h", h, tokens, dim, add ? TPI_WRITTEN : TPI_READ_IN_PLACE},
        {"rmsnorm w", w, 1, dim, TPI_READ},
        {"rmsnorm y", y, tokens, dim, TPI_WRITTEN},
        {"rmsnorm add", add, tokens, dim, TPI_READ}};
    TPI_TRY(tpi_need_all(operands, add ? 4 : 3));
done:
    return status;
}

tpcl_status tpcl_rmsnorm(tpcl_tensor *h, const tpcl_tensor *add, const tpcl_tensor *w,
                         tpcl_tensor *y, int tokens, int dim, float eps)
{
    tpcl_status status = TPCL_OK;
    tpi_launch l = {0};
    char options[64];
    TPI_TRY(check(h, add, w, y, tokens, dim, eps));
    l.dev = y->dev;
    const size_t local = tpi_workgroup(y->dev), global = (size_t)tokens * local;
    snprintf(options, sizeof options, "-cl-std=CL1.2 -DWG=%zu", local);
    TPI_TRY(tpi_kernel_get(y->dev, "rmsnorm", options, "add_rmsnorm", &l.kernel));
    tpi_arg_mem(&l, h->mem);
    tpi_arg_mem(&l, add ? add->mem : h->mem);
    tpi_arg_mem(&l, w->mem);
    tpi_arg_mem(&l, y->mem);
    tpi_arg_int(&l, dim);
    tpi_arg_float(&l, eps);
    tpi_arg_int(&l, add != NULL);
    TPI_TRY(tpi_launch_run(&l, 1, &global, &local, "rmsnorm"));
done:
    return status;
}
