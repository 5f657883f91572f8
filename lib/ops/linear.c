/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "ops/checks.h"
#include "ops/gemm.h"
#include "ops/ops.h"

enum {
    KC = 64,         /* columns widened at a time: four panels of them are 16 KiB of f32 */
    TILE_MR = 8,     /* rows in registers */
    TILE_ROWS = 128, /* rows that share one widening */
    TILE_PANELS = 4, /* panels that share the rows of x: a quarter of the traffic from level 2 */
    TILE_FROM = 24,  /* tokens from which linear_tile wins over linear_rows */
    SLICES = 8       /* of a work-group that shares a panel */
};

/* Rows in registers: the smallest kernel that holds the tokens, 8 at most. */
static int rows_for(int tokens)
{
    return tokens == 1 ? 1 : tokens == 2 ? 2 : tokens <= 4 ? 4 : TILE_MR;
}

static size_t ceil_div(int a, int b)
{
    return (size_t)(a + b - 1) / (size_t)b;
}

static void push_args(tpi_launch *l, const tpi_weight *w, const tpcl_tensor *x,
                      const tpcl_tensor *bias, const tpcl_tensor *y, int tokens)
{
    tpi_arg_mem(l, x->mem);
    tpi_arg_mem(l, w->mem);
    tpi_arg_mem(l, bias ? bias->mem : x->mem);
    tpi_arg_mem(l, y->mem);
    tpi_arg_int(l, tokens);
    tpi_arg_int(l, w->n);
    tpi_arg_int(l, w->k);
    tpi_arg_int(l, bias != NULL);
}

/* Several rows, a work-item streams a panel: CPUs. */
static tpcl_status run_vector(const tpi_weight *w, const tpcl_tensor *x, const tpcl_tensor *bias,
                              tpcl_tensor *y, int tokens)
{
    tpcl_status status = TPCL_OK;
    tpi_launch l = {.dev = w->dev};
    char options[160];
    const bool tile = tokens >= TILE_FROM;
    const int mr = rows_for(tokens);
    const size_t panels = ceil_div(w->n, TPI_PANEL), row_tiles = ceil_div(tokens, TILE_ROWS);
    /* Panels go together only where every core still gets several work-items. */
    const size_t enough = 4 * TILE_PANELS * (size_t)w->dev->info.compute_units;
    const int together = row_tiles * panels >= enough ? TILE_PANELS : 1;
    snprintf(options, sizeof options,
             "-cl-std=CL1.2 -DDT_%s -DP=%d -DMR=%d -DKC=%d -DTILE_ROWS=%d -DTILE_PANELS=%d",
             tpcl_dtype_name(w->dtype), TPI_PANEL, mr, KC, TILE_ROWS, tile ? together : 1);
    TPI_TRY(
        tpi_kernel_get(w->dev, "linear", options, tile ? "linear_tile" : "linear_rows", &l.kernel));
    push_args(&l, w, x, bias, y, tokens);
    const size_t local[2] = {1, 1}, rows[2] = {panels, ceil_div(tokens, mr)};
    const size_t tiles[2] = {row_tiles, ceil_div((int)panels, together)};
    TPI_TRY(tpi_launch_run(&l, 2, tile ? tiles : rows, local, "linear"));
done:
    return status;
}

/* A work-group shares a panel: everything else. */
static tpcl_status run_lanes(const tpi_weight *w, const tpcl_tensor *x, const tpcl_tensor *bias,
                             tpcl_tensor *y, int tokens)
{
    tpcl_status status = TPCL_OK;
    tpi_launch l = {.dev = w->dev};
    char options[128];
    const int mr = rows_for(tokens);
    int slices = SLICES;
    while (slices > 1 && (size_t)(slices * TPI_PANEL) > w->dev->info.max_workgroup) slices /= 2;
    snprintf(options, sizeof options, "-cl-std=CL1.2 -DDT_%s -DP=%d -DMR=%d -DSLICES=%d",
             tpcl_dtype_name(w->dtype), TPI_PANEL, mr, slices);
    TPI_TRY(tpi_kernel_get(w->dev, "linear_lanes", options, "linear_lanes", &l.kernel));
    push_args(&l, w, x, bias, y, tokens);
    const size_t local[2] = {(size_t)(slices * TPI_PANEL), 1};
    const size_t global[2] = {ceil_div(w->n, TPI_PANEL) * local[0], ceil_div(tokens, mr)};
    TPI_TRY(tpi_launch_run(&l, 2, global, local, "linear"));
done:
    return status;
}

tpcl_status tpi_linear(const tpi_weight *w, const tpcl_tensor *x, const tpcl_tensor *bias,
                       tpcl_tensor *y, int tokens)
{
    tpcl_status status = TPCL_OK;
    TPI_TRY(tpi_need("linear x", x, tokens, w->k));
    TPI_TRY(tpi_need("linear y", y, tokens, w->n));
    if (bias) TPI_TRY(tpi_need("linear bias", bias, 1, w->n));
    if (tokens == 0 || w->n == 0) goto done;
    const bool blas = tpi_gemm_wanted(w, tokens);
    if (w->k == 0) /* an empty shard's partial sum */
        TPI_TRY(tpi_fill_zero(w->dev, y->mem, (uint64_t)tokens * (uint64_t)w->n));
    else if (blas)
        TPI_TRY(tpi_gemm(w, x, y, tokens));
    else if (tpi_linear_row_fits(w, tokens))
        TPI_TRY(tpi_linear_row(w, x, bias, y));
    else if (w->dev->info.type == TPCL_DEVICE_CPU)
        TPI_TRY(run_vector(w, x, bias, y, tokens));
    else
        TPI_TRY(run_lanes(w, x, bias, y, tokens));
    if (bias && (blas || w->k == 0)) TPI_TRY(tpcl_add_bias(y, bias, tokens, w->n));
done:
    return status;
}
