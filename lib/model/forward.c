/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/normed.h"
#include "model/model.h"

/* What one layer hands to the next: the residual stream, and what is to be added to it. */
typedef struct stream {
    tpcl_tensor *h, *spare;
    const tpcl_tensor *add;
} stream;

static tpcl_status attention_half(tpcl_model *m, int index, stream *s)
{
    tpcl_status status = TPCL_OK;
    const tpi_layer *l = &m->layers[index];
    const int tokens = tpcl_batch_tokens(m->batch);
    const tpi_normed_args in = {.h = &s->h,
                                .spare = &s->spare,
                                .add = s->add,
                                .norm = l->attn_norm,
                                .eps = m->config.norm_eps,
                                .x = m->x,
                                .y = m->qkv};
    TPI_TRY(tpi_normed_forward(l->qkv, &in, tokens));
    TPI_TRY(tpcl_attention_forward(l->attention, index, m->qkv, m->batch, m->cache, m->attention));
    TPI_TRY(tpcl_linear_forward(l->o, m->attention, m->y, tokens));
    s->add = m->y;
done:
    return status;
}

static tpcl_status mlp_half(tpcl_model *m, int index, stream *s)
{
    tpcl_status status = TPCL_OK;
    const tpi_layer *l = &m->layers[index];
    const int tokens = tpcl_batch_tokens(m->batch);
    const tpi_normed_args in = {.h = &s->h,
                                .spare = &s->spare,
                                .add = s->add,
                                .norm = l->ffn_norm,
                                .eps = m->config.norm_eps,
                                .x = m->x,
                                .wide = m->gate_up,
                                .y = m->act};
    TPI_TRY(tpi_normed_forward(l->gate_up, &in, tokens));
    TPI_TRY(tpcl_linear_forward(l->down, m->act, m->y, tokens));
done:
    return status;
}

static tpcl_status pass(tpcl_model *m, bool every_layer)
{
    tpcl_status status = TPCL_OK;
    const int tokens = tpcl_batch_tokens(m->batch);
    stream s = {.h = m->h, .spare = m->spare};
    TPI_TRY(tpcl_batch_upload(m->batch));
    TPI_TRY(tpcl_embedding_forward(m->embedding, tpcl_batch_ids(m->batch), m->h, tokens));
    for (int i = 0; i < m->config.layers; i++) {
        if (!every_layer && m->layers[i].like_last) continue;
        TPI_TRY(attention_half(m, i, &s));
        TPI_TRY(mlp_half(m, i, &s));
    }
    TPI_TRY(
        tpcl_rmsnorm(s.h, s.add, m->out_norm, m->x, tokens, m->config.hidden, m->config.norm_eps));
done:
    return status;
}

tpcl_status tpi_model_forward(tpcl_model *m, bool every_layer)
{
    tpcl_group *g = m->group;
    g->queued.wanted = true;
    tpcl_status status = pass(m, every_layer);
    g->queued.wanted = false;
    if (status == TPCL_OK) return TPCL_OK; /* a queued sum's failure shows at the next collective */
    const tpcl_status queued = tpi_queue_settle(g, &status);
    if (queued != TPCL_OK) return queued;
    return tpcl_comm_failed(g->comm, NULL, NULL) ? status
                                                 : tpcl_comm_agree(g->comm, status, "forward pass");
}

void tpi_model_reset(tpcl_model *m)
{
    tpcl_kv_cache_free(m->cache, 0);
    tpcl_batch_clear(m->batch);
}
