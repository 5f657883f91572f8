/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>

#include "ops/checks.h"
#include "ops/ops.h"
#include "ops/vec.h"

tpcl_status tpi_rope_store(const tpi_rope_args *a)
{
    tpcl_status status = TPCL_OK;
    const tpi_heads *g = &a->heads;
    const int rows = g->heads + 2 * g->kv_heads;
    tpi_launch l = {.dev = a->qkv->dev};
    char options[128];
    TPI_REQUIRE(tpi_head_dim_ok(g->head_dim), TPCL_ERR_ARG,
                "rope: head_dim %d, need an even number from 2 to 256", g->head_dim);
    TPI_REQUIRE(tpi_head_dim_ok(g->v_head_dim), TPCL_ERR_ARG,
                "rope: v_head_dim %d, need an even number from 2 to 256", g->v_head_dim);
    TPI_REQUIRE(!a->q_norm == !a->k_norm, TPCL_ERR_ARG, "rope: q_norm and k_norm go together");
    TPI_TRY(tpi_need("rope qkv", a->qkv, a->tokens, tpi_qkv_columns(g)));
    TPI_TRY(tpi_need("rope pos", a->pos, a->tokens, 1));
    TPI_TRY(tpi_need("rope slot", a->slot, a->tokens, 1));
    if (a->q_norm) TPI_TRY(tpi_need("rope q_norm", a->q_norm, 1, g->head_dim));
    if (a->k_norm) TPI_TRY(tpi_need("rope k_norm", a->k_norm, 1, g->head_dim));
    if (rows == 0) goto done; /* a rank without heads */
    snprintf(options, sizeof options,
             "-cl-std=CL1.2 -DD=%d -DVEC=%d -DDV=%d -DVVEC=%d -DINTERLEAVED=%d -DKV_F16=%d",
             g->head_dim, tpi_vec(g->head_dim), g->v_head_dim, tpi_vec(g->v_head_dim),
             g->interleaved, !g->kv_f32);
    TPI_TRY(tpi_kernel_get(l.dev, "rope", options, "rope_store", &l.kernel));
    tpi_arg_mem(&l, a->qkv->mem);
    tpi_arg_mem(&l, a->angles ? a->angles->mem : a->pos->mem); /* what is not read needs a buffer */
    tpi_arg_mem(&l, a->pos->mem);
    tpi_arg_mem(&l, a->slot->mem);
    tpi_arg_mem(&l, a->q_norm ? a->q_norm->mem : a->pos->mem);
    tpi_arg_mem(&l, a->k_norm ? a->k_norm->mem : a->pos->mem);
    tpi_arg_mem(&l, a->cache->k);
    tpi_arg_mem(&l, a->cache->v);
    tpi_arg_int(&l, g->heads);
    tpi_arg_int(&l, g->kv_heads);
    tpi_arg_int(&l, g->block_size);
    tpi_arg_float(&l, a->eps);
    tpi_arg_int(&l, a->q_norm != NULL);
    tpi_arg_int(&l, a->angles != NULL);
    const bool whole = a->tokens == 1 && (size_t)rows <= tpi_single_group(l.dev);
    const size_t global[2] = {(size_t)rows, (size_t)a->tokens},
                 local[2] = {whole ? (size_t)rows : 1, 1};
    TPI_TRY(tpi_launch_run(&l, 2, global, local, "rope"));
done:
    return status;
}

void tpcl_ref_rope(float *x, const float *norm, const float *angles, int head_dim, bool interleaved,
                   float eps)
{
    if (norm) tpcl_ref_rmsnorm(x, NULL, norm, x, 1, head_dim, eps);
    for (int j = 0; j < head_dim / 2; j++) {
        const int ia = interleaved ? 2 * j : j, ib = interleaved ? 2 * j + 1 : j + head_dim / 2;
        const double a = x[ia], b = x[ib], c = angles[2 * j], s = angles[2 * j + 1];
        x[ia] = (float)(a * c - b * s);
        x[ib] = (float)(b * c + a * s);
    }
}
