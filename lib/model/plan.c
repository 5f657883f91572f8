/* SPDX-License-Identifier: Apache-2.0 */
#include "model/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/error.h"

enum { DEFAULT_CONTEXT = 4096, DEFAULT_CHUNK = 256, BLOCK_TOKENS = 256 };

static int gcd(int a, int b)
{
    while (b) {
        const int r = a % b;
        a = b;
        b = r;
    }
    return a;
}

static int count_empty(const tpcl_head_range *heads, int size)
{
    int n = 0;
    for (int r = 0; r < size; r++) n += heads[r].q.begin == heads[r].q.end;
    return n;
}

/* Heads are cut where the o-projection's blocks allow it; where that would idle a rank, anywhere,
 * and that one tensor is widened. */
static tpcl_status split_heads(const tpcl_model_config *c, int o_block, int size,
                               const double *weights, int rotate, tpcl_head_range *out,
                               bool *widened)
{
    tpcl_status status = TPCL_OK;
    const int granule = o_block / gcd(o_block, c->head_dim);
    *widened = false;
    TPI_TRY(tpcl_shard_heads(c->heads, c->kv_heads, granule, size, weights, rotate, out));
    if (granule == 1) goto done;
    const int empty = count_empty(out, size);
    tpcl_head_range *free_cut = malloc((size_t)size * sizeof *free_cut);
    TPI_REQUIRE(free_cut, TPCL_ERR_NOMEM, "plan of %d ranks", size);
    status = tpcl_shard_heads(c->heads, c->kv_heads, 1, size, weights, rotate, free_cut);
    if (status == TPCL_OK && count_empty(free_cut, size) < empty)
        memcpy(out, free_cut, (size_t)size * sizeof *out);
    free(free_cut);
    for (int r = 0; r < size; r++)
        if (out[r].q.begin != out[r].q.end &&
            (out[r].q.begin * c->head_dim % o_block || out[r].q.end * c->head_dim % o_block))
            *widened = true;
done:
    return status;
}

/* Most kv heads of a rank, and all that the ranks store together. */
static void count_kv(const tpcl_head_range *heads, int size, int64_t *most, int64_t *all)
{
    *most = *all = 0;
    for (int r = 0; r < size; r++) {
        const int64_t kv = tpcl_range_size(heads[r].kv);
        *all += kv;
        if (kv > *most) *most = kv;
    }
}

/* The remainder moves on by layer where that makes no rank store more kv heads. */
static tpcl_status rotate_heads(const tpcl_model_config *c, int o_block, int size,
                                const double *weights, int layer, tpi_layer_plan *p)
{
    tpcl_status status = TPCL_OK;
    bool widened = false;
    int64_t most[2], all[2];
    tpcl_head_range *turned = malloc((size_t)size * sizeof *turned);
    TPI_REQUIRE(turned, TPCL_ERR_NOMEM, "plan of %d ranks", size);
    TPI_TRY(split_heads(c, o_block, size, weights, 0, p->heads, &p->o_widened));
    TPI_TRY(split_heads(c, o_block, size, weights, layer, turned, &widened));
    count_kv(p->heads, size, &most[0], &all[0]);
    count_kv(turned, size, &most[1], &all[1]);
    if (most[1] > most[0] || all[1] > all[0] || widened != p->o_widened) goto done;
    memcpy(p->heads, turned, (size_t)size * sizeof *turned);
done:
    free(turned);
    return status;
}

tpcl_status tpi_layer_plan_create(const tpcl_checkpoint *checkpoint, int layer, int size,
                                  const double *weights, tpi_layer_plan *out)
{
    tpcl_status status = TPCL_OK;
    const tpcl_model_config *c = tpcl_checkpoint_config(checkpoint);
    tpcl_host_tensor o, down;

    memset(out, 0, sizeof *out);
    out->heads = calloc((size_t)size, sizeof *out->heads);
    out->q_rows = calloc((size_t)size, sizeof *out->q_rows);
    out->kv_rows = calloc((size_t)size, sizeof *out->kv_rows);
    out->inter = calloc((size_t)size, sizeof *out->inter);
    TPI_REQUIRE(out->heads && out->q_rows && out->kv_rows && out->inter, TPCL_ERR_NOMEM,
                "plan of %d ranks", size);
    TPI_TRY(tpcl_checkpoint_weight(checkpoint, TPCL_W_O, layer, &o));
    TPI_TRY(tpcl_checkpoint_weight(checkpoint, TPCL_W_DOWN, layer, &down));
    TPI_TRY(rotate_heads(c, tpcl_dtype_block(o.dtype), size, weights, layer, out));
    TPI_TRY(
        tpcl_shard_split(c->inter, tpcl_dtype_block(down.dtype), size, weights, layer, out->inter));
    for (int r = 0; r < size; r++) {
        const tpcl_head_range h = out->heads[r];
        out->q_rows[r] = (tpcl_range){h.q.begin * c->head_dim, h.q.end * c->head_dim};
        out->kv_rows[r] = (tpcl_range){h.kv.begin * c->head_dim, h.kv.end * c->head_dim};
    }
done:
    if (status != TPCL_OK) tpi_layer_plan_free(out);
    return status;
}

void tpi_layer_plan_free(tpi_layer_plan *plan)
{
    free(plan->heads);
    free(plan->q_rows);
    free(plan->kv_rows);
    free(plan->inter);
    memset(plan, 0, sizeof *plan);
}

tpcl_status tpi_cache_plan_make(const tpcl_model_config *c, const tpcl_model_options *o,
                                tpi_cache_plan *out)
{
    tpcl_status status = TPCL_OK;
    const int asked = o ? o->context : 0;
    TPI_REQUIRE(asked >= 0 && asked <= c->max_context, TPCL_ERR_ARG,
                "context %d: the model allows 1 to %d (0 = its default)", asked, c->max_context);
    TPI_REQUIRE(!o || o->chunk >= 0, TPCL_ERR_ARG, "chunk %d: need 1 or more tokens (0 = %d)",
                o ? o->chunk : 0, DEFAULT_CHUNK);
    TPI_REQUIRE(!o || (o->valid_vocab >= 0 && o->valid_vocab <= c->vocab), TPCL_ERR_ARG,
                "%d valid words: the model has 1 to %d (0 = all)", o ? o->valid_vocab : 0,
                c->vocab);
    out->context = asked                              ? asked
                   : c->max_context < DEFAULT_CONTEXT ? c->max_context
                                                      : DEFAULT_CONTEXT;
    out->block_size = out->context < BLOCK_TOKENS ? out->context : BLOCK_TOKENS;
    out->blocks = (out->context + out->block_size - 1) / out->block_size;
    out->chunk = o && o->chunk ? o->chunk : DEFAULT_CHUNK;
    if (out->chunk > out->context) out->chunk = out->context;
done:
    return status;
}

/* Bytes of `rows` by `columns` of a weight, padded to whole panels, widened where it is cut. */
static uint64_t part_bytes(const tpcl_host_tensor *t, int64_t rows, int64_t columns, bool widened)
{
    const tpcl_dtype dtype = widened ? TPCL_F32 : t->dtype;
    const int64_t padded = (rows + 15) / 16 * 16;
    return tpi_dtype_bytes(dtype, (size_t)columns) * (uint64_t)padded;
}

/* Whether this rank's cut of the o-projection goes through a block: then its part is f32. */
static bool cuts_block(const tpcl_host_tensor *t, tpcl_range columns)
{
    const int block = tpcl_dtype_block(t->dtype);
    return columns.begin % block != 0 || columns.end % block != 0;
}

static tpcl_status layer_bytes(const tpcl_checkpoint *ck, int layer, int size, int rank,
                               const double *weights, uint64_t *bytes, tpi_layer_plan *plan)
{
    tpcl_status status = TPCL_OK;
    const tpcl_model_config *c = tpcl_checkpoint_config(ck);
    tpcl_host_tensor t[7];
    static const tpcl_weight_role roles[7] = {TPCL_W_Q,    TPCL_W_K,  TPCL_W_V,   TPCL_W_O,
                                              TPCL_W_GATE, TPCL_W_UP, TPCL_W_DOWN};
    TPI_TRY(tpi_layer_plan_create(ck, layer, size, weights, plan));
    for (int i = 0; i < 7; i++) TPI_TRY(tpcl_checkpoint_weight(ck, roles[i], layer, &t[i]));
    const int64_t q = tpcl_range_size(plan->q_rows[rank]),
                  kv = tpcl_range_size(plan->kv_rows[rank]);
    const int64_t inter = tpcl_range_size(plan->inter[rank]);
    const bool mixed_qkv = t[0].dtype != t[1].dtype || t[0].dtype != t[2].dtype;
    const bool mixed_gu = t[4].dtype != t[5].dtype;
    *bytes += part_bytes(&t[0], q + 2 * kv, c->hidden, mixed_qkv);
    *bytes += part_bytes(&t[3], c->hidden, q, cuts_block(&t[3], plan->q_rows[rank]));
    *bytes += part_bytes(&t[4], 2 * inter, c->hidden, mixed_gu);
    *bytes += part_bytes(&t[6], c->hidden, inter, false);
    *bytes += 4 * (2 * (uint64_t)c->hidden + (c->qk_norm ? 2 * (uint64_t)c->head_dim : 0));
    if (c->qkv_bias) *bytes += 4 * (uint64_t)(q + 2 * kv);
done:
    return status;
}

/* The widest rows of a pass over the layers. */
typedef struct scratch_columns {
    int64_t qkv, attention, inter;
} scratch_columns;

static void widest(const tpi_layer_plan *p, int rank, int head_dim, scratch_columns *c)
{
    const int64_t q = tpcl_range_size(p->heads[rank].q) * head_dim;
    const int64_t kv = tpcl_range_size(p->heads[rank].kv) * head_dim;
    const int64_t inter = tpcl_range_size(p->inter[rank]);
    if (q + 2 * kv > c->qkv) c->qkv = q + 2 * kv;
    if (q > c->attention) c->attention = q;
    if (inter > c->inter) c->inter = inter;
}

tpcl_status tpcl_model_plan(const tpcl_checkpoint *checkpoint, int size, int rank,
                            const double *weights, const tpcl_model_options *options,
                            tpcl_model_share *out)
{
    tpcl_status status = TPCL_OK;
    tpi_layer_plan plan;
    tpi_cache_plan cache;
    tpcl_range *vocab = NULL;
    tpcl_host_tensor embed, head;
    scratch_columns columns = {0};

    memset(&plan, 0, sizeof plan);
    TPI_REQUIRE(checkpoint, TPCL_ERR_ARG, "plan: checkpoint is NULL");
    TPI_REQUIRE(out, TPCL_ERR_ARG, "plan: out is NULL");
    TPI_REQUIRE(size >= 1 && size <= TPCL_MAX_RANKS && rank >= 0 && rank < size, TPCL_ERR_ARG,
                "plan: rank %d of %d, need 1 to %d ranks", rank, size, TPCL_MAX_RANKS);
    memset(out, 0, sizeof *out);
    const tpcl_model_config *c = tpcl_checkpoint_config(checkpoint);
    vocab = malloc((size_t)size * sizeof *vocab);
    TPI_REQUIRE(vocab, TPCL_ERR_NOMEM, "plan of %d ranks", size);
    TPI_TRY(tpi_cache_plan_make(c, options, &cache));
    TPI_TRY(tpcl_shard_split(c->vocab, 1, size, weights, 0, vocab));
    out->vocab = vocab[rank];
    TPI_TRY(tpcl_checkpoint_weight(checkpoint, TPCL_W_EMBED, 0, &embed));
    TPI_TRY(tpcl_checkpoint_weight(checkpoint, TPCL_W_LM_HEAD, 0, &head));
    out->weight_bytes = part_bytes(&embed, tpcl_range_size(out->vocab), c->hidden, false);
    if (!c->tied)
        out->weight_bytes += part_bytes(&head, tpcl_range_size(out->vocab), c->hidden, false);
    out->weight_bytes += 4 * (uint64_t)c->hidden;
    const uint64_t tokens = (uint64_t)cache.blocks * (uint64_t)cache.block_size;
    for (int l = 0; l < c->layers; l++) {
        tpi_layer_plan_free(&plan);
        TPI_TRY(layer_bytes(checkpoint, l, size, rank, weights, &out->weight_bytes, &plan));
        out->kv_bytes += tokens * (uint64_t)tpcl_range_size(plan.heads[rank].kv) *
                         (uint64_t)c->head_dim * 2 * (options && options->kv_f32 ? 4 : 2);
        widest(&plan, rank, c->head_dim, &columns);
        if (l > 0) continue;
        out->heads = plan.heads[rank];
        out->inter = plan.inter[rank];
    }
    out->scratch_bytes =
        4 * (uint64_t)cache.chunk *
            (uint64_t)(3 * c->hidden + columns.qkv + columns.attention + 3 * columns.inter) +
        4 * (uint64_t)c->hidden;
done:
    tpi_layer_plan_free(&plan);
    free(vocab);
    return status;
}
