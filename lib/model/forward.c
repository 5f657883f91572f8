/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"

static tpcl_status attention_half(tpcl_model *m, int index, const tpcl_tensor *add)
{
    tpcl_status status = TPCL_OK;
    const tpi_layer *l = &m->layers[index];
    const int tokens = tpcl_batch_tokens(m->batch), dim = m->config.hidden;
    TPI_TRY(tpcl_rmsnorm(m->h, add, l->attn_norm, m->x, tokens, dim, m->config.norm_eps));
    TPI_TRY(tpcl_linear_forward(l->qkv, m->x, m->qkv, tokens));
    TPI_TRY(tpcl_attention_forward(l->attention, index, m->qkv, m->batch, m->cache, m->attention));
    TPI_TRY(tpcl_linear_forward(l->o, m->attention, m->y, tokens));
done:
    return status;
}

static tpcl_status mlp_half(tpcl_model *m, int index)
{
    tpcl_status status = TPCL_OK;
    const tpi_layer *l = &m->layers[index];
    const int tokens = tpcl_batch_tokens(m->batch), dim = m->config.hidden;
    TPI_TRY(tpcl_rmsnorm(m->h, m->y, l->ffn_norm, m->x, tokens, dim, m->config.norm_eps));
    TPI_TRY(tpcl_linear_forward(l->gate_up, m->x, m->gate_up, tokens));
    TPI_TRY(tpcl_swiglu(m->gate_up, m->act, tokens, l->inter));
    TPI_TRY(tpcl_linear_forward(l->down, m->act, m->y, tokens));
done:
    return status;
}

static tpcl_status pass(tpcl_model *m, bool every_layer)
{
    tpcl_status status = TPCL_OK;
    const int tokens = tpcl_batch_tokens(m->batch);
    TPI_TRY(tpcl_batch_upload(m->batch));
    TPI_TRY(tpcl_embedding_forward(m->embedding, tpcl_batch_ids(m->batch), m->h, tokens));
    const tpcl_tensor *add = NULL; /* what the layer before left to be added */
    for (int i = 0; i < m->config.layers; i++) {
        if (!every_layer && m->layers[i].like_last) continue;
        TPI_TRY(attention_half(m, i, add));
        TPI_TRY(mlp_half(m, i));
        add = m->y;
    }
    TPI_TRY(
        tpcl_rmsnorm(m->h, add, m->out_norm, m->x, tokens, m->config.hidden, m->config.norm_eps));
done:
    return status;
}

tpcl_status tpi_model_forward(tpcl_model *m, bool every_layer)
{
    const tpcl_status status = pass(m, every_layer);
    if (status == TPCL_OK || tpcl_comm_failed(m->group->comm, NULL, NULL)) return status;
    return tpcl_comm_agree(m->group->comm, status, "forward pass");
}

void tpi_model_reset(tpcl_model *m)
{
    tpcl_kv_cache_free(m->cache, 0);
    tpcl_batch_clear(m->batch);
}
