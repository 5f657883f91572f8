/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "model/model.h"
#include "ops/gemm.h"

/* How many deadlines of a collective a rank may take to load and compile: 600 s by default. */
static const double LOAD_PATIENCE = 10.0;

/* What loading needs besides the model itself. */
typedef struct loader {
    tpcl_model *m;
    const tpcl_checkpoint *ck;
    const tpcl_model_options *options;
    uint64_t total;
} loader;

static void report(const loader *l)
{
    if (l->options && l->options->progress)
        l->options->progress(l->options->progress_context, l->m->share.weight_bytes, l->total);
}

static tpcl_status norm_create(loader *l, tpcl_weight_role role, int layer, tpcl_tensor **out)
{
    tpcl_status status = TPCL_OK;
    tpcl_host_tensor t;
    TPI_TRY(tpcl_checkpoint_weight(l->ck, role, layer, &t));
    TPI_REQUIRE(t.shape[0] == l->m->config.hidden, TPCL_ERR_SHAPE,
                "%s: %lld elements, the model is %d wide", t.name, (long long)t.shape[0],
                l->m->config.hidden);
    TPI_TRY(tpcl_vector_create(l->m->group->dev, &t, out));
    l->m->share.weight_bytes += (*out)->bytes;
done:
    return status;
}

/* A weight and its bias; bias.name is NULL where the model has none. */
typedef struct weight_pair {
    tpcl_host_tensor weight, bias;
} weight_pair;

static tpcl_status find_pair(const loader *l, int layer, tpcl_weight_role weight,
                             tpcl_weight_role bias, weight_pair *out)
{
    tpcl_status status = tpcl_checkpoint_weight(l->ck, weight, layer, &out->weight);
    if (status == TPCL_OK) status = tpcl_checkpoint_weight(l->ck, bias, layer, &out->bias);
    return status;
}

static const tpcl_host_tensor *bias_of(const weight_pair *p)
{
    return p->bias.name ? &p->bias : NULL;
}

static tpcl_status load_attention(loader *l, int index, const tpi_layer_plan *plan)
{
    tpcl_status status = TPCL_OK;
    tpcl_model *m = l->m;
    const tpcl_model_config *c = &m->config;
    tpi_layer *layer = &m->layers[index];
    weight_pair q, k, v, o;
    tpcl_host_tensor q_norm, k_norm;

    TPI_TRY(find_pair(l, index, TPCL_W_Q, TPCL_W_Q_BIAS, &q));
    TPI_TRY(find_pair(l, index, TPCL_W_K, TPCL_W_K_BIAS, &k));
    TPI_TRY(find_pair(l, index, TPCL_W_V, TPCL_W_V_BIAS, &v));
    TPI_TRY(find_pair(l, index, TPCL_W_O, TPCL_W_O_BIAS, &o));
    const tpcl_qkv_linear_desc qkv = {.heads = c->heads,
                                      .kv_heads = c->kv_heads,
                                      .head_dim = c->head_dim,
                                      .q = &q.weight,
                                      .k = &k.weight,
                                      .v = &v.weight,
                                      .q_bias = bias_of(&q),
                                      .k_bias = bias_of(&k),
                                      .v_bias = bias_of(&v),
                                      .ranges = plan->heads};
    const tpcl_row_linear_options o_cut = {.columns = plan->q_rows};
    TPI_TRY(tpcl_qkv_linear_create(m->group, &qkv, &layer->qkv));
    TPI_TRY(tpcl_row_linear_create(m->group, &o.weight, bias_of(&o), &o_cut, &layer->o));
    TPI_TRY(tpcl_checkpoint_weight(l->ck, TPCL_W_Q_NORM, index, &q_norm));
    TPI_TRY(tpcl_checkpoint_weight(l->ck, TPCL_W_K_NORM, index, &k_norm));
    const tpcl_attention_desc desc = {.heads = c->heads,
                                      .kv_heads = c->kv_heads,
                                      .head_dim = c->head_dim,
                                      .mine = plan->heads[m->group->rank],
                                      .interleaved = c->rope_form == TPCL_ROPE_INTERLEAVED,
                                      .rope_table = m->rope_table,
                                      .q_norm = c->qk_norm ? &q_norm : NULL,
                                      .k_norm = c->qk_norm ? &k_norm : NULL,
                                      .norm_eps = c->norm_eps};
    TPI_TRY(tpcl_attention_create(m->group, &desc, &layer->attention));
    m->share.weight_bytes += tpcl_linear_bytes(layer->qkv) + tpcl_linear_bytes(layer->o) +
                             (c->qk_norm ? 8 * (uint64_t)c->head_dim : 0);
done:
    return status;
}

static tpcl_status load_mlp(loader *l, int index, const tpi_layer_plan *plan)
{
    tpcl_status status = TPCL_OK;
    tpcl_model *m = l->m;
    tpi_layer *layer = &m->layers[index];
    weight_pair gate, up, down;

    TPI_TRY(find_pair(l, index, TPCL_W_GATE, TPCL_W_GATE_BIAS, &gate));
    TPI_TRY(find_pair(l, index, TPCL_W_UP, TPCL_W_UP_BIAS, &up));
    TPI_TRY(find_pair(l, index, TPCL_W_DOWN, TPCL_W_DOWN_BIAS, &down));
    const tpcl_linear_part parts[2] = {
        {.weight = &gate.weight, .bias = bias_of(&gate), .rows = plan->inter},
        {.weight = &up.weight, .bias = bias_of(&up), .rows = plan->inter}};
    const tpcl_row_linear_options down_cut = {.columns = plan->inter};
    TPI_TRY(tpcl_column_linear_create(m->group, parts, 2, NULL, &layer->gate_up));
    TPI_TRY(
        tpcl_row_linear_create(m->group, &down.weight, bias_of(&down), &down_cut, &layer->down));
    layer->inter = (int)tpcl_range_size(plan->inter[m->group->rank]);
    m->share.weight_bytes += tpcl_linear_bytes(layer->gate_up) + tpcl_linear_bytes(layer->down);
done:
    return status;
}

/* Whether the tensors of two layers have the same types, so that the same kernels serve both. */
static tpcl_status same_types(const tpcl_checkpoint *ck, int a, int b, bool *same)
{
    tpcl_status status = TPCL_OK;
    *same = true;
    for (int role = TPCL_W_ATTN_NORM; role < TPCL_W_ROLES; role++) {
        tpcl_host_tensor ta, tb;
        TPI_TRY(tpcl_checkpoint_weight(ck, (tpcl_weight_role)role, a, &ta));
        TPI_TRY(tpcl_checkpoint_weight(ck, (tpcl_weight_role)role, b, &tb));
        if (ta.dtype != tb.dtype) *same = false;
    }
done:
    return status;
}

static tpcl_status load_layer(loader *l, int index, tpcl_head_range *heads)
{
    tpcl_status status = TPCL_OK;
    tpcl_model *m = l->m;
    tpi_layer *layer = &m->layers[index];
    tpi_layer_plan plan;

    TPI_TRY(tpi_layer_plan_create(l->ck, index, m->group->size, m->group->weights, &plan));
    heads[index] = plan.heads[m->group->rank];
    if (index == 0) {
        m->share.heads = heads[0];
        m->share.inter = plan.inter[m->group->rank];
        if (plan.o_widened && m->group->rank == 0)
            tpi_log(&m->log, TPCL_LOG_INFO,
                    "o-projections widened to f32: %d ranks cut heads of %d inside blocks",
                    m->group->size, m->config.head_dim);
    }
    status = norm_create(l, TPCL_W_ATTN_NORM, index, &layer->attn_norm);
    if (status == TPCL_OK) status = norm_create(l, TPCL_W_FFN_NORM, index, &layer->ffn_norm);
    if (status == TPCL_OK) status = load_attention(l, index, &plan);
    if (status == TPCL_OK) status = load_mlp(l, index, &plan);
    if (status == TPCL_OK && index > 0)
        status = same_types(l->ck, index - 1, index, &layer->like_last);
    tpi_layer_plan_free(&plan);
    report(l);
done:
    return status;
}

static tpcl_status load_vocab(loader *l)
{
    tpcl_status status = TPCL_OK;
    tpcl_model *m = l->m;
    tpcl_group *g = m->group;
    tpcl_host_tensor t;
    const tpcl_embedding_desc embedding = {.weight = &t, .max_tokens = 1}; /* ids: the batch's */
    TPI_TRY(tpcl_checkpoint_weight(l->ck, TPCL_W_EMBED, 0, &t));
    TPI_TRY(tpcl_embedding_create(g, &embedding, &m->embedding));
    m->share.vocab = tpcl_embedding_words(m->embedding, g->rank);
    m->share.weight_bytes += tpcl_embedding_bytes(m->embedding);
    report(l);
    TPI_TRY(tpcl_checkpoint_weight(l->ck, TPCL_W_LM_HEAD, 0, &t));
    const tpcl_lm_head_desc head = {.weight = m->config.tied ? NULL : &t,
                                    .tied = m->config.tied ? m->embedding : NULL};
    TPI_TRY(tpcl_lm_head_create(g, &head, &m->head));
    m->share.weight_bytes += tpcl_lm_head_bytes(m->head);
    TPI_TRY(norm_create(l, TPCL_W_OUT_NORM, 0, &m->out_norm));
    report(l);
done:
    return status;
}

static tpcl_status load_rope(tpcl_model *m)
{
    const tpcl_model_config *c = &m->config;
    const tpcl_rope_desc desc = {.head_dim = c->head_dim,
                                 .context = m->plan.context,
                                 .theta = c->rope_theta,
                                 .factor = c->rope_scaling.factor,
                                 .low_freq_factor = c->rope_scaling.low_freq_factor,
                                 .high_freq_factor = c->rope_scaling.high_freq_factor,
                                 .original_context = c->rope_scaling.original_context,
                                 .linear = c->rope_scaling.linear,
                                 .factors =
                                     c->rope_scaling.n_factors ? c->rope_scaling.factors : NULL};
    return tpcl_rope_table_create(m->group->dev, &desc, &m->rope_table);
}

static tpcl_status scratch_create(tpcl_model *m, int64_t rows, int64_t columns, tpcl_tensor **out)
{
    tpcl_status status = TPCL_OK;
    const int64_t shape[2] = {rows, columns};
    TPI_TRY(tpcl_tensor_create(m->group->dev, TPCL_F32, 2, shape, out));
    TPI_TRY(tpi_fill_zero(m->group->dev, (*out)->mem, (*out)->bytes / 4)); /* touch it now */
    m->share.scratch_bytes += (*out)->bytes;
done:
    return status;
}

static tpcl_status load_scratch(tpcl_model *m)
{
    tpcl_status status = TPCL_OK;
    const int chunk = m->plan.chunk;
    int qkv = 0, inter = 0, attention = 0;
    for (int i = 0; i < m->config.layers; i++) {
        const tpi_layer *l = &m->layers[i];
        if (tpcl_linear_out(l->qkv) > qkv) qkv = tpcl_linear_out(l->qkv);
        if (tpcl_linear_in(l->o) > attention) attention = tpcl_linear_in(l->o);
        if (l->inter > inter) inter = l->inter;
    }
    TPI_TRY(scratch_create(m, chunk, m->config.hidden, &m->h));
    TPI_TRY(scratch_create(m, 1, m->config.hidden, &m->spare));
    TPI_TRY(scratch_create(m, chunk, m->config.hidden, &m->x));
    TPI_TRY(scratch_create(m, chunk, m->config.hidden, &m->y));
    TPI_TRY(scratch_create(m, chunk, qkv, &m->qkv));
    TPI_TRY(scratch_create(m, chunk, attention, &m->attention));
    TPI_TRY(scratch_create(m, chunk, 2 * (int64_t)inter, &m->gate_up));
    TPI_TRY(scratch_create(m, chunk, inter, &m->act));
    if (m->group->rank == 0) {
        m->logits = malloc((size_t)TPI_LOGIT_ROWS * (size_t)m->config.vocab * sizeof *m->logits);
        TPI_REQUIRE(m->logits, TPCL_ERR_NOMEM, "logits of %d words", m->config.vocab);
    }
done:
    return status;
}

static tpcl_status load_cache(tpcl_model *m, const tpcl_model_options *o,
                              const tpcl_head_range *heads)
{
    tpcl_status status = TPCL_OK;
    const tpcl_kv_cache_desc desc = {.layers = m->config.layers,
                                     .head_dim = m->config.head_dim,
                                     .blocks = m->plan.blocks,
                                     .block_size = m->plan.block_size,
                                     .max_sequences = 1,
                                     .f32 = o && o->kv_f32,
                                     .heads = heads};
    TPI_TRY(tpcl_kv_cache_create(m->group, &desc, &m->cache));
    m->share.kv_bytes = tpcl_kv_cache_bytes(m->cache);
    const tpcl_batch_options rows = {.max_tokens = m->plan.chunk, .vocab = m->config.vocab};
    TPI_TRY(tpcl_batch_create(m->group, m->cache, &rows, &m->batch));
done:
    return status;
}

static tpcl_status load_all(loader *l)
{
    tpcl_status status = TPCL_OK;
    tpcl_model *m = l->m;
    tpcl_model_share planned;
    tpcl_head_range *heads = calloc((size_t)m->config.layers, sizeof *heads);
    TPI_REQUIRE(heads, TPCL_ERR_NOMEM, "%d layers", m->config.layers);
    m->layers = calloc((size_t)m->config.layers, sizeof *m->layers);
    TPI_REQUIRE(m->layers, TPCL_ERR_NOMEM, "%d layers", m->config.layers);
    TPI_TRY(tpcl_model_plan(l->ck, m->group->size, m->group->rank, m->group->weights, l->options,
                            &planned));
    l->total = planned.weight_bytes;
    TPI_TRY(load_rope(m));
    TPI_TRY(load_vocab(l));
    for (int i = 0; i < m->config.layers; i++) TPI_TRY(load_layer(l, i, heads));
    TPI_TRY(load_cache(m, l->options, heads));
    TPI_TRY(load_scratch(m));
done:
    free(heads);
    return status;
}

/* Every kernel that a prompt or a generated token can need runs once, on token 0. The sizes are one
 * of each way in which a linear layer multiplies: CLBlast (where the device uses it), tiles, rows.
 */
static tpcl_status warm_up(tpcl_model *m)
{
    tpcl_status status = TPCL_OK;
    static const int sizes[] = {TPI_GEMM_FROM, 24, 5, 3, 2, 1};
    const int32_t zeros[TPI_GEMM_FROM] = {0};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const int n = sizes[i] < TPI_LOGIT_ROWS ? sizes[i] : TPI_LOGIT_ROWS;
        if (sizes[i] > m->plan.chunk) continue;
        tpi_model_reset(m);
        TPI_TRY(tpcl_batch_add(m->batch, 0, zeros, sizes[i]));
        TPI_TRY(tpi_model_forward(m, false));
        TPI_TRY(tpcl_lm_head_forward(m->head, m->x, NULL, n, m->logits));
    }
    tpi_model_reset(m);
done:
    return status;
}

/* Ranks must load the same model in the same way; the first difference is named. */
static tpcl_status compare_ranks(tpcl_model *m, const tpcl_checkpoint *ck,
                                 const tpcl_model_options *o)
{
    tpcl_status status = TPCL_OK;
    static const char *const names[] = {"model", "context", "chunk", "kv type", "valid vocabulary"};
    enum { N = sizeof names / sizeof *names };
    int64_t low[N] = {(int64_t)(tpcl_checkpoint_hash(ck) >> 1), m->plan.context, m->plan.chunk,
                      o && o->kv_f32, m->valid_vocab};
    int64_t high[N];
    memcpy(high, low, sizeof low);
    TPI_TRY(tpcl_comm_allreduce_min(m->group->comm, TPCL_OK, low, N));
    TPI_TRY(tpcl_comm_allreduce_max(m->group->comm, TPCL_OK, high, N));
    for (int i = 0; i < N; i++)
        TPI_REQUIRE(low[i] == high[i], TPCL_ERR_MISMATCH,
                    i == 0 ? "ranks disagree: they were given different models (%s)"
                           : "ranks disagree on the %s: %lld to %lld",
                    i == 0 ? tpcl_checkpoint_path(ck) : names[i], (long long)low[i],
                    (long long)high[i]);
done:
    return status;
}

static tpcl_status prepare(tpcl_model *m, const tpcl_checkpoint *ck, const tpcl_model_options *o)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(ck, TPCL_ERR_ARG, "load: checkpoint is NULL");
    m->config = *tpcl_checkpoint_config(ck);
    m->log = o ? o->log : (tpcl_log){0};
    m->valid_vocab = o && o->valid_vocab ? o->valid_vocab : m->config.vocab;
    TPI_TRY(tpi_cache_plan_make(&m->config, o, &m->plan));
    gethostname(m->share.host, sizeof m->share.host - 1);
    m->share.pid = (int)getpid();
    memcpy(m->share.device, m->group->dev->info.name, sizeof m->share.device);
    memcpy(m->share.platform, m->group->dev->info.platform, sizeof m->share.platform);
done:
    return status;
}

/* Ranks read, compile and store binaries at their own pace: for that long the deadline is theirs.
 */
static tpcl_status load_together(tpcl_model *m, const tpcl_checkpoint *ck,
                                 const tpcl_model_options *options)
{
    tpcl_status status = TPCL_OK;
    tpcl_comm *comm = m->group->comm;
    loader l = {.m = m, .ck = ck, .options = options};
    const double timeout_s = tpcl_comm_set_timeout(comm, 0.0);
    tpcl_comm_set_timeout(comm, LOAD_PATIENCE * timeout_s);
    status = load_all(&l);
    TPI_TRY(tpcl_comm_agree(comm, status, "loading weights"));
    TPI_TRY(warm_up(m));
    tpi_programs_store(m->group->dev);
    TPI_TRY(tpcl_comm_agree(comm, TPCL_OK, "warm-up"));
done:
    tpcl_comm_set_timeout(comm, timeout_s);
    return status;
}

tpcl_status tpcl_model_load(tpcl_group *group, tpcl_status local, const tpcl_checkpoint *checkpoint,
                            const tpcl_model_options *options, tpcl_model **out)
{
    tpcl_status status = local;
    tpcl_model *m = NULL;

    if (out) *out = NULL;
    TPI_REQUIRE(group, TPCL_ERR_ARG, "load: group is NULL");
    m = calloc(1, sizeof *m);
    if (!m)
        return tpcl_comm_agree(group->comm, tpi_fail(TPCL_ERR_NOMEM, "model object"), "arguments");
    m->group = group;
    if (status == TPCL_OK && !out) TPI_FAIL(TPCL_ERR_ARG, "load: out is NULL");
    if (status == TPCL_OK) status = prepare(m, checkpoint, options);
    TPI_TRY(tpcl_comm_agree(group->comm, status, "arguments"));
    TPI_TRY(compare_ranks(m, checkpoint, options));
    TPI_TRY(load_together(m, checkpoint, options));
    *out = m;
    m = NULL;
done:
    tpcl_model_destroy(&m);
    return status;
}

static void layer_free(tpi_layer *l)
{
    tpcl_tensor_destroy(&l->attn_norm);
    tpcl_tensor_destroy(&l->ffn_norm);
    tpcl_linear_destroy(&l->qkv);
    tpcl_linear_destroy(&l->o);
    tpcl_linear_destroy(&l->gate_up);
    tpcl_linear_destroy(&l->down);
    tpcl_attention_destroy(&l->attention);
}

void tpcl_model_destroy(tpcl_model **model)
{
    if (!model || !*model) return;
    tpcl_model *m = *model;
    *model = NULL;
    for (int i = 0; m->layers && i < m->config.layers; i++) layer_free(&m->layers[i]);
    free(m->layers);
    tpcl_lm_head_destroy(&m->head); /* before the embedding whose rows it may share */
    tpcl_embedding_destroy(&m->embedding);
    tpcl_batch_destroy(&m->batch);
    tpcl_kv_cache_destroy(&m->cache);
    tpcl_tensor **tensors[] = {&m->out_norm, &m->rope_table, &m->h,         &m->spare,   &m->x,
                               &m->y,        &m->qkv,        &m->attention, &m->gate_up, &m->act};
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) tpcl_tensor_destroy(tensors[i]);
    free(m->logits);
    free(m);
}

int tpcl_model_context(const tpcl_model *model)
{
    return model ? model->plan.context : 0;
}

tpcl_status tpcl_model_shares(tpcl_model *m, tpcl_model_share *out)
{
    tpcl_status status = TPCL_OK;
    size_t *bytes = NULL;
    TPI_REQUIRE(m, TPCL_ERR_ARG, "shares: model is NULL");
    if (m->group->rank == 0 && !out) TPI_FAIL(TPCL_ERR_ARG, "shares: out is NULL on rank 0");
    TPI_TRY(tpcl_comm_agree(m->group->comm, status, "arguments"));
    bytes = malloc((size_t)m->group->size * sizeof *bytes);
    if (!bytes) TPI_FAIL(TPCL_ERR_NOMEM, "shares of %d ranks", m->group->size);
    TPI_TRY(tpcl_comm_agree(m->group->comm, status, "shares"));
    for (int r = 0; r < m->group->size; r++) bytes[r] = sizeof *out;
    TPI_TRY(tpcl_comm_gather(m->group->comm, TPCL_OK, &m->share, bytes, out, 0));
done:
    free(bytes);
    return status;
}
