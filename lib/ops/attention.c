/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "ops/checks.h"
#include "ops/ops.h"
#include "ops/vec.h"

static tpcl_status check(const tpi_attention_args *a, int64_t stride)
{
    tpcl_status status = TPCL_OK;
    const tpi_heads *g = &a->heads;
    TPI_REQUIRE(a->pairs == 1 || a->pairs == 2 || a->pairs == TPI_ATTENTION_PAIRS, TPCL_ERR_ARG,
                "attention: %d pairs, need 1, 2 or 4", a->pairs);
    TPI_REQUIRE(tpi_head_dim_ok(g->head_dim), TPCL_ERR_ARG,
                "attention: head_dim %d, need an even number from 2 to 256", g->head_dim);
    TPI_REQUIRE(tpi_head_dim_ok(g->v_head_dim), TPCL_ERR_ARG,
                "attention: v_head_dim %d, need an even number from 2 to 256", g->v_head_dim);
    TPI_REQUIRE(a->window >= 0, TPCL_ERR_ARG, "attention: window %d, need 0 or more", a->window);
    TPI_TRY(tpi_need("attention qkv", a->qkv, a->tokens, stride));
    TPI_TRY(tpi_need("attention out", a->out, a->tokens, (int64_t)g->heads * g->v_head_dim));
    TPI_TRY(tpi_need("attention pos", a->pos, a->tokens, 1));
    TPI_TRY(tpi_need("attention seq", a->seq, a->tokens, 1));
    TPI_TRY(tpi_need("attention row tiles", a->row_tiles, a->n_row_tiles, 2));
    TPI_TRY(tpi_need("attention head tiles", a->head_tiles, a->n_head_tiles, 4));
done:
    return status;
}

/* What both kernels take, in their order; only attention takes row tiles. */
static void push_args(tpi_launch *l, const tpi_attention_args *a, int64_t stride, bool row_tiles)
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
    tpi_arg_int(l, (int)stride);
    tpi_arg_int(l, g->heads);
    tpi_arg_int(l, g->kv_heads);
    tpi_arg_int(l, g->block_size);
    tpi_arg_int(l, a->table_width);
    tpi_arg_int(l, a->window ? a->window : INT_MAX);
    tpi_arg_float(l, a->scale != 0.0f ? a->scale : (float)(1.0 / sqrt((double)g->head_dim)));
}

/* A work-item per tile pair: CPUs. */
static tpcl_status run_vector(tpi_launch *l, const tpi_attention_args *a, int64_t stride)
{
    tpcl_status status = TPCL_OK;
    char options[128];
    const int d = a->heads.head_dim, dv = a->heads.v_head_dim;
    snprintf(options, sizeof options,
             "-cl-std=CL1.2 -DD=%d -DVEC=%d -DDV=%d -DVVEC=%d -DQT=%d -DKV_F16=%d", d, tpi_vec(d),
             dv, tpi_vec(dv), a->pairs, !a->heads.kv_f32);
    TPI_TRY(tpi_kernel_get(l->dev, "attention", options, "attention", &l->kernel));
    push_args(l, a, stride, true);
    const size_t global[2] = {(size_t)a->n_row_tiles, (size_t)a->n_head_tiles}, local[2] = {1, 1};
    TPI_TRY(tpi_launch_run(l, 2, global, local, "attention"));
done:
    return status;
}

/* A work-group per token and head; `head_tiles` has one head in each. */
static tpcl_status run_group(tpi_launch *l, const tpi_attention_args *a, int64_t stride)
{
    tpcl_status status = TPCL_OK;
    char options[128];
    const size_t wg = tpi_workgroup(l->dev);
    snprintf(options, sizeof options, "-cl-std=CL1.2 -DD=%d -DDV=%d -DWG=%zu -DKV_F16=%d",
             a->heads.head_dim, a->heads.v_head_dim, wg, !a->heads.kv_f32);
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
    const int64_t stride = tpi_qkv_columns(&a->heads);
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

/* Keys [begin, end) of one kv head, and where their rows lie. */
typedef struct kv_rows {
    const float *k, *v;
    int begin, end;
    const int32_t *blocks; /* NULL: the rows lie in order */
    int block_size, kv_heads, kv_head;
} kv_rows;

static size_t row_of(const kv_rows *of, int j)
{
    if (!of->blocks) return (size_t)j;
    const size_t block = (size_t)of->blocks[j / of->block_size];
    return (block * (size_t)of->kv_heads + (size_t)of->kv_head) * (size_t)of->block_size +
           (size_t)(j % of->block_size);
}

static double score(const float *q, const kv_rows *of, int j, int head_dim, double scale)
{
    const float *k = of->k + row_of(of, j) * (size_t)head_dim;
    double s = 0.0;
    for (int i = 0; i < head_dim; i++) s += (double)q[i] * k[i];
    return s * scale;
}

/* Columns [at, at + n) of the result, n <= 256. */
static void attend(const float *q, const kv_rows *of, float *out, int head_dim, int v_head_dim,
                   int at, int n, double scale)
{
    double peak = -INFINITY, mass = 0.0, acc[256] = {0};
    for (int j = of->begin; j < of->end; j++) peak = fmax(peak, score(q, of, j, head_dim, scale));
    for (int j = of->begin; j < of->end; j++) {
        const float *v = of->v + row_of(of, j) * (size_t)v_head_dim + at;
        const double p = exp(score(q, of, j, head_dim, scale) - peak);
        mass += p;
        for (int i = 0; i < n; i++) acc[i] += p * v[i];
    }
    for (int i = 0; i < n; i++) out[at + i] = (float)(acc[i] / mass);
}

static void attend_all(const float *q, const kv_rows *of, float *out, int head_dim, int v_head_dim,
                       float scale)
{
    const double by = scale != 0.0f ? (double)scale : 1.0 / sqrt((double)head_dim);
    for (int at = 0; at < v_head_dim; at += 256) {
        const int n = v_head_dim - at < 256 ? v_head_dim - at : 256;
        attend(q, of, out, head_dim, v_head_dim, at, n, by);
    }
}

void tpcl_ref_attention(const float *q, const float *k, const float *v, float *out, int keys,
                        int head_dim, int v_head_dim, float scale)
{
    const kv_rows all = {.k = k, .v = v, .end = keys};
    attend_all(q, &all, out, head_dim, v_head_dim, scale);
}

void tpcl_ref_paged_attention(const tpcl_ref_paged *a, float *out)
{
    for (int t = 0; t < a->tokens; t++) {
        const int pos = a->pos[t];
        kv_rows seen = {.k = a->k,
                        .v = a->v,
                        .begin = a->window > 0 && a->window <= pos ? pos - a->window + 1 : 0,
                        .end = pos + 1,
                        .blocks = a->table + (size_t)a->seq[t] * (size_t)a->table_width,
                        .block_size = a->block_size,
                        .kv_heads = a->kv_heads};
        for (int h = 0; h < a->heads; h++) {
            const size_t q = (size_t)t * (size_t)a->q_stride + (size_t)h * (size_t)a->head_dim;
            const size_t to = ((size_t)t * (size_t)a->heads + (size_t)h) * (size_t)a->v_head_dim;
            seen.kv_head = a->kv_of ? a->kv_of[h] : h / (a->heads / a->kv_heads);
            attend_all(a->q + q, &seen, out + to, a->head_dim, a->v_head_dim, a->scale);
        }
    }
}
