/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "ops/checks.h"
#include "ops/ops.h"
#include "ops/vec.h"

static tpcl_status check(const tpi_attention_args *a, int stride)
{
    tpcl_status status = TPCL_OK;
    const tpi_heads *g = &a->heads;
    TPI_REQUIRE(a->pairs == 1 || a->pairs == 2 || a->pairs == TPI_ATTENTION_PAIRS, TPCL_ERR_ARG,
                "attention: %d pairs, need 1, 2 or 4", a->pairs);
    TPI_REQUIRE(g->head_dim >= 2 && g->head_dim <= 256 && g->head_dim % 2 == 0, TPCL_ERR_ARG,
                "attention: head_dim %d, need an even number up to 256", g->head_dim);
    TPI_TRY(tpi_need("attention qkv", a->qkv, a->tokens, stride));
    TPI_TRY(tpi_need("attention out", a->out, a->tokens, (int64_t)g->heads * g->head_dim));
    TPI_TRY(tpi_need("attention pos", a->pos, a->tokens, 1));
    TPI_TRY(tpi_need("attention seq", a->seq, a->tokens, 1));
    TPI_TRY(tpi_need("attention row tiles", a->row_tiles, a->n_row_tiles, 2));
    TPI_TRY(tpi_need("attention head tiles", a->head_tiles, a->n_head_tiles, 4));
done:
    return status;
}

/* What both kernels take, in their order; only attention takes row tiles. */
static void push_args(tpi_launch *l, const tpi_attention_args *a, int stride, bool row_tiles)
{
    const tpi_heads *g = &a->heads;
    tpi_arg_mem(l, a->qkv->mem);
    tpi_arg_mem(l, a->cache->k);
    tpi_arg_mem(l, a->cache->v);
    tpi_arg_mem(l, a->out->mem);
    tpi_arg_mem(l, a->pos->mem);
    tpi_arg_mem(l, a->seq->mem);
    tpi_arg_mem(l, a->table->mem);
    if (row_tiles) tpi_arg_mem(l, a->row_tiles->mem);
    tpi_arg_mem(l, a->head_tiles->mem);
    tpi_arg_int(l, stride);
    tpi_arg_int(l, g->heads);
    tpi_arg_int(l, g->kv_heads);
    tpi_arg_int(l, g->block_size);
    tpi_arg_int(l, a->table_width);
    tpi_arg_float(l, (float)(1.0 / sqrt((double)g->head_dim)));
}

/* A work-item per tile pair: CPUs. */
static tpcl_status run_vector(tpi_launch *l, const tpi_attention_args *a, int stride)
{
    tpcl_status status = TPCL_OK;
    char options[128];
    snprintf(options, sizeof options, "-cl-std=CL1.2 -DD=%d -DVEC=%d -DQT=%d -DKV_F16=%d",
             a->heads.head_dim, tpi_vec(a->heads.head_dim), a->pairs, !a->heads.kv_f32);
    TPI_TRY(tpi_kernel_get(l->dev, "attention", options, "attention", &l->kernel));
    push_args(l, a, stride, true);
    const size_t global[2] = {(size_t)a->n_row_tiles, (size_t)a->n_head_tiles}, local[2] = {1, 1};
    TPI_TRY(tpi_launch_run(l, 2, global, local, "attention"));
done:
    return status;
}

/* A work-group per token and head; `head_tiles` has one head in each. */
static tpcl_status run_group(tpi_launch *l, const tpi_attention_args *a, int stride)
{
    tpcl_status status = TPCL_OK;
    char options[128];
    const size_t wg = tpi_workgroup(l->dev);
    snprintf(options, sizeof options, "-cl-std=CL1.2 -DD=%d -DWG=%zu -DKV_F16=%d",
             a->heads.head_dim, wg, !a->heads.kv_f32);
    TPI_TRY(tpi_kernel_get(l->dev, "attention_group", options, "attention_group", &l->kernel));
    push_args(l, a, stride, false);
    const size_t global[2] = {(size_t)a->tokens * wg, (size_t)a->n_head_tiles}, local[2] = {wg, 1};
    TPI_TRY(tpi_launch_run(l, 2, global, local, "attention"));
done:
    return status;
}

tpcl_status tpi_attention(const tpi_attention_args *a)
{
    tpcl_status status = TPCL_OK;
    const int stride = (a->heads.heads + 2 * a->heads.kv_heads) * a->heads.head_dim;
    tpi_launch l = {.dev = a->qkv->dev};
    TPI_TRY(check(a, stride));
    if (a->heads.heads == 0) goto done; /* a rank without heads */
    if (l.dev->info.type == TPCL_DEVICE_CPU || a->n_head_tiles != a->heads.heads)
        TPI_TRY(run_vector(&l, a, stride));
    else
        TPI_TRY(run_group(&l, a, stride));
done:
    return status;
}

void tpcl_ref_attention(const float *q, const float *k, const float *v, float *out, int keys,
                       int head_dim)
{
    const double scale = 1.0 / sqrt((double)head_dim);
    double peak = -INFINITY, mass = 0.0;
    for (int pass = 0; pass < 2; pass++) { /* first the maximum, then the weighted sum */
        double acc[256] = {0};
        for (int j = 0; j < keys; j++) {
            double s = 0.0;
            for (int i = 0; i < head_dim; i++)
                s += (double)q[i] * k[(size_t)j * (size_t)head_dim + (size_t)i];
            s *= scale;
            if (pass == 0) {
                peak = fmax(peak, s);
                continue;
            }
            const double p = exp(s - peak);
            mass += p;
            for (int i = 0; i < head_dim; i++)
                acc[i] += p * v[(size_t)j * (size_t)head_dim + (size_t)i];
        }
        for (int i = 0; pass == 1 && i < head_dim; i++) out[i] = (float)(acc[i] / mass);
    }
}
