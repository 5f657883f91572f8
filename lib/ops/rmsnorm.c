/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>

#include "ops/checks.h"
#include "ops/ops.h"

tpcl_status tpi_rmsnorm(tpcl_tensor *h, const tpcl_tensor *add, const tpcl_tensor *w,
                        tpcl_tensor *y, int tokens, int dim, float eps)
{
    tpcl_status status = TPCL_OK;
    tpi_launch l = {.dev = y->dev};
    char options[64];
    TPI_REQUIRE(dim >= 1 && eps >= 0.0f, TPCL_ERR_ARG, "rmsnorm: dim %d, eps %g", dim, (double)eps);
    TPI_TRY(tpi_need("rmsnorm h", h, tokens, dim));
    TPI_TRY(tpi_need("rmsnorm y", y, tokens, dim));
    TPI_TRY(tpi_need("rmsnorm w", w, 1, dim));
    if (add) TPI_TRY(tpi_need("rmsnorm add", add, tokens, dim));
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

void tpcl_ref_rmsnorm(float *h, const float *add, const float *w, float *y, int tokens, int dim,
                     float eps)
{
    for (int t = 0; t < tokens; t++) {
        const size_t at = (size_t)t * (size_t)dim;
        double sum = 0.0;
        for (int i = 0; i < dim; i++) {
            if (add) h[at + (size_t)i] += add[at + (size_t)i];
            sum += (double)h[at + (size_t)i] * h[at + (size_t)i];
        }
        const double scale = 1.0 / sqrt(sum / dim + eps);
        for (int i = 0; i < dim; i++) y[at + (size_t)i] = (float)(h[at + (size_t)i] * scale * w[i]);
    }
}
