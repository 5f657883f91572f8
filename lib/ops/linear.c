/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "ops/checks.h"
#include "ops/ops.h"

enum {
    KC = 128,        /* columns widened at a time: 8 KiB of f32, half of a first-level cache */
    TILE_MR = 8,     /* rows in registers */
    TILE_ROWS = 128, /* rows that share one widening */
    TILE_FROM = 24   /* tokens from which linear_tile wins over linear_rows */
};

/* How one call is cut: rows in registers, and which of the two kernels. */
typedef struct linear_plan {
    int mr;
    bool tile;
} linear_plan;

static linear_plan plan_for(int tokens)
{
    if (tokens >= TILE_FROM) return (linear_plan){TILE_MR, true};
    const int mr = tokens == 1 ? 1 : tokens == 2 ? 2 : tokens <= 4 ? 4 : 8;
    return (linear_plan){mr, false};
}

static tpcl_status get_kernel(const tpi_weight *w, linear_plan plan, cl_kernel *kernel)
{
    char options[160];
    snprintf(options, sizeof options, "-cl-std=CL1.2 -DDT_%s -DP=%d -DMR=%d -DKC=%d -DTILE_ROWS=%d",
             tpcl_dtype_name(w->dtype), TPI_PANEL, plan.mr, KC, TILE_ROWS);
    return tpi_kernel_get(w->dev, "linear", options, plan.tile ? "linear_tile" : "linear_rows",
                          kernel);
}

tpcl_status tpi_linear(const tpi_weight *w, const tpcl_tensor *x, const tpcl_tensor *bias,
                       tpcl_tensor *y, int tokens)
{
    tpcl_status status = TPCL_OK;
    tpi_launch l = {.dev = w->dev};
    TPI_TRY(tpi_need("linear x", x, tokens, w->k));
    TPI_TRY(tpi_need("linear y", y, tokens, w->n));
    if (bias) TPI_TRY(tpi_need("linear bias", bias, 1, w->n));
    if (tokens == 0 || w->n == 0) goto done;
    if (w->k == 0) { /* an empty shard's partial sum */
        TPI_TRY(tpi_fill_zero(w->dev, y->mem, (uint64_t)tokens * (uint64_t)w->n));
        if (bias) TPI_TRY(tpi_add_bias(y, bias, tokens, w->n));
        goto done;
    }
    const linear_plan plan = plan_for(tokens);
    TPI_TRY(get_kernel(w, plan, &l.kernel));
    tpi_arg_mem(&l, x->mem);
    tpi_arg_mem(&l, w->mem);
    tpi_arg_mem(&l, bias ? bias->mem : x->mem);
    tpi_arg_mem(&l, y->mem);
    tpi_arg_int(&l, tokens);
    tpi_arg_int(&l, w->n);
    tpi_arg_int(&l, w->k);
    tpi_arg_int(&l, bias != NULL);
    const size_t panels = (size_t)(w->n + TPI_PANEL - 1) / TPI_PANEL, local[2] = {1, 1};
    const size_t rows[2] = {panels, (size_t)(tokens + plan.mr - 1) / (size_t)plan.mr};
    const size_t tile[2] = {(size_t)(tokens + TILE_ROWS - 1) / TILE_ROWS, panels};
    TPI_TRY(tpi_launch_run(&l, 2, plan.tile ? tile : rows, local, "linear"));
done:
    return status;
}

void tpi_linear_ref(const float *x, const float *w, const float *bias, float *y, int tokens, int n,
                    int k)
{
    for (int t = 0; t < tokens; t++) {
        for (int o = 0; o < n; o++) {
            double sum = bias ? bias[o] : 0.0;
            for (int i = 0; i < k; i++)
                sum += (double)x[(size_t)t * (size_t)k + (size_t)i] *
                       w[(size_t)o * (size_t)k + (size_t)i];
            y[(size_t)t * (size_t)n + (size_t)o] = (float)sum;
        }
    }
}
