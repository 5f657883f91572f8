/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "ops/checks.h"
#include "ops/ops.h"
#include "ops/vec.h"

tpcl_status tpi_attention(const tpi_attention_args *a)
{
    tpcl_status status = TPCL_OK;
    const tpi_heads *g = &a->heads;
    const int stride = (g->heads + 2 * g->kv_heads) * g->head_dim;
    tpi_launch l = {.dev = a->qkv->dev};
    char options[128];
    TPI_REQUIRE(a->pairs == 1 || a->pairs == 2 || a->pairs == TPI_ATTENTION_PAIRS, TPCL_ERR_ARG,
                "attention: %d pairs, need 1, 2 or 4", a->pairs);
    TPI_REQUIRE(g->head_dim >= 2 && g->head_dim <= 256 && g->head_dim % 2 == 0, TPCL_ERR_ARG,
                "attention: head_dim %d, need an even number from 2 to 256", g->head_dim);
    TPI_TRY(tpi_need("attention qkv", a->qkv, a->tokens, stride));
    TPI_TRY(tpi_need("attention out", a->out, a->tokens, (int64_t)g->heads * g->head_dim));
    TPI_TRY(tpi_need("attention pos", a->pos, a->tokens, 1));
    TPI_TRY(tpi_need("attention seq", a->seq, a->tokens, 1));
    TPI_TRY(tpi_need("attention row tiles", a->row_tiles, a->n_row_tiles, 2));
    TPI_TRY(tpi_need("attention head tiles", a->head_tiles, a->n_head_tiles, 4));
    if (g->heads == 0) goto done;
    snprintf(options, sizeof options, "-cl-std=CL1.2 -DD=%d -DVEC=%d -DQT=%d -DKV_F16=%d",
             g->head_dim, tpi_vec(g->head_dim), a->pairs, !g->kv_f32);
    TPI_TRY(tpi_kernel_get(l.dev, "attention", options, "attention", &l.kernel));
    tpi_arg_mem(&l, a->qkv->mem);
    tpi_arg_mem(&l, a->cache->k);
    tpi_arg_mem(&l, a->cache->v);
    tpi_arg_mem(&l, a->out->mem);
    tpi_arg_mem(&l, a->pos->mem);
    tpi_arg_mem(&l, a->seq->mem);
    tpi_arg_mem(&l, a->table->mem);
    tpi_arg_mem(&l, a->row_tiles->mem);
    tpi_arg_mem(&l, a->head_tiles->mem);
    tpi_arg_int(&l, stride);
    tpi_arg_int(&l, g->heads);
    tpi_arg_int(&l, g->kv_heads);
    tpi_arg_int(&l, g->block_size);
    tpi_arg_int(&l, a->table_width);
    tpi_arg_float(&l, (float)(1.0 / sqrt((double)g->head_dim)));
    const size_t global[2] = {(size_t)a->n_row_tiles, (size_t)a->n_head_tiles}, local[2] = {1, 1};
    TPI_TRY(tpi_launch_run(&l, 2, global, local, "attention"));
done:
    return status;
}

void tpi_attention_ref(const float *q, const float *k, const float *v, float *out, int keys,
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
