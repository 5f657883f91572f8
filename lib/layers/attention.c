/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <tpcl/attention.h>

#include "layers/kv_cache.h"
#include "ops/checks.h"

struct tpcl_attention {
    tpcl_group *group;
    tpi_heads heads;
    const tpcl_tensor *rope_table;
    tpcl_tensor *q_norm, *k_norm;
    float eps, scale;
    int window;
    tpcl_range kv; /* of the whole model's kv heads */
    /* [tiles, 4]: heads one by one, and in runs that share a kv head for single rows */
    tpcl_tensor *single, *shared;
    int n_single, n_shared;
};

/* Tiles of up to `most` q heads that read the same kv head. */
static int fill_tiles(const tpcl_attention_desc *d, int most, int32_t *tiles)
{
    const int per_kv = d->heads / d->kv_heads;
    int n = 0;
    for (int64_t h = d->mine.q.begin; h < d->mine.q.end;) {
        const int64_t kv = h / per_kv;
        int count = 1;
        while (count < most && h + count < d->mine.q.end && (h + count) / per_kv == kv) count++;
        tiles[4 * n] = (int32_t)(h - d->mine.q.begin);
        tiles[4 * n + 1] = count;
        tiles[4 * n + 2] = (int32_t)(kv - d->mine.kv.begin);
        tiles[4 * n + 3] = 0;
        n++;
        h += count;
    }
    return n;
}

static tpcl_status create_tiles(tpcl_attention *l, const tpcl_attention_desc *d, int most,
                                tpcl_tensor **out, int *n)
{
    tpcl_status status = TPCL_OK;
    const int64_t shape[2] = {l->heads.heads, 4};
    int32_t *tiles = malloc((size_t)l->heads.heads * 4 * sizeof *tiles + 1);
    TPI_REQUIRE(tiles, TPCL_ERR_NOMEM, "tiles of %d heads", l->heads.heads);
    *n = fill_tiles(d, most, tiles);
    TPI_TRY(tpcl_tensor_create(l->group->dev, TPCL_I32, 2, shape, out));
    TPI_TRY(tpcl_tensor_write(*out, tiles, (size_t)*n * 4));
done:
    free(tiles);
    return status;
}

static tpcl_status check_heads(const tpcl_attention_desc *d)
{
    tpcl_status status = TPCL_OK;
    const tpcl_range q = d->mine.q, kv = d->mine.kv;
    TPI_REQUIRE(d->kv_heads >= 1 && d->heads >= d->kv_heads && d->heads % d->kv_heads == 0,
                TPCL_ERR_ARG, "attention: %d heads over %d kv heads, need a multiple of them",
                d->heads, d->kv_heads);
    TPI_REQUIRE(q.begin >= 0 && q.begin <= q.end && q.end <= d->heads, TPCL_ERR_ARG,
                "attention: this rank's q heads %lld..%lld of %d", (long long)q.begin,
                (long long)q.end, d->heads);
    TPI_REQUIRE(kv.begin >= 0 && kv.begin <= kv.end && kv.end <= d->kv_heads, TPCL_ERR_ARG,
                "attention: this rank's kv heads %lld..%lld of %d", (long long)kv.begin,
                (long long)kv.end, d->kv_heads);
    const int per_kv = d->heads / d->kv_heads;
    TPI_REQUIRE(q.begin == q.end || (kv.begin <= q.begin / per_kv && (q.end - 1) / per_kv < kv.end),
                TPCL_ERR_ARG, "attention: q heads %lld..%lld need other kv heads than %lld..%lld",
                (long long)q.begin, (long long)q.end, (long long)kv.begin, (long long)kv.end);
done:
    return status;
}

static tpcl_status check_norm(const char *name, const tpcl_host_tensor *t, int head_dim)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(t->ndim == 1 && t->shape[0] == head_dim, TPCL_ERR_SHAPE,
                "attention: %s has %d dimensions of %lld elements, need [%d]", name, t->ndim,
                (long long)(t->ndim >= 1 ? t->shape[0] : 0), head_dim);
done:
    return status;
}

static tpcl_status check_norms(const tpcl_attention_desc *d)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(!d->q_norm == !d->k_norm, TPCL_ERR_ARG,
                "attention: %s is NULL and the other norm is not; give both or none",
                d->q_norm ? "k_norm" : "q_norm");
    if (!d->q_norm) goto done;
    TPI_TRY(check_norm("q_norm", d->q_norm, d->head_dim));
    TPI_TRY(check_norm("k_norm", d->k_norm, d->head_dim));
    TPI_REQUIRE(isfinite(d->norm_eps) && d->norm_eps >= 0.0f, TPCL_ERR_ARG,
                "attention: norm_eps %g, need 0 or more", (double)d->norm_eps);
done:
    return status;
}

static tpcl_status check_table(const tpcl_group *g, const tpcl_tensor *t, int head_dim)
{
    tpcl_status status = TPCL_OK;
    if (!t) goto done;
    TPI_REQUIRE(t->dev == g->dev, TPCL_ERR_ARG,
                "attention: rope_table is a tensor of another device than the group's");
    TPI_REQUIRE(t->dtype == TPCL_F32 && t->ndim == 3 && t->shape[2] == 2, TPCL_ERR_SHAPE,
                "attention: rope_table is no F32 tensor [context, head_dim / 2, 2]");
    TPI_REQUIRE(t->shape[1] == head_dim / 2, TPCL_ERR_SHAPE,
                "attention: rope_table is for head_dim %lld, the layer's is %d",
                (long long)t->shape[1] * 2, head_dim);
done:
    return status;
}

/* Copies the description, with zeros replaced by what they stand for. */
static tpcl_status complete(const tpcl_group *g, const tpcl_attention_desc *desc,
                            tpcl_attention_desc *d)
{
    tpcl_status status = TPCL_OK;
    *d = *desc;
    if (d->v_head_dim == 0) d->v_head_dim = d->head_dim;
    TPI_REQUIRE(tpi_head_dim_ok(d->head_dim), TPCL_ERR_ARG,
                "attention: head_dim %d, need an even number from 2 to 256", d->head_dim);
    TPI_REQUIRE(tpi_head_dim_ok(d->v_head_dim), TPCL_ERR_ARG,
                "attention: v_head_dim %d, need an even number from 2 to 256", d->v_head_dim);
    TPI_REQUIRE(isfinite(d->scale), TPCL_ERR_ARG, "attention: scale %g, need a finite number",
                (double)d->scale);
    TPI_REQUIRE(d->window >= 0, TPCL_ERR_ARG, "attention: window %d, need 0 or more", d->window);
    TPI_TRY(check_heads(d));
    TPI_TRY(check_norms(d));
    TPI_TRY(check_table(g, d->rope_table, d->head_dim));
done:
    return status;
}

static tpcl_status create(tpcl_group *group, const tpcl_attention_desc *d, tpcl_attention **out)
{
    tpcl_status status = TPCL_OK;
    tpcl_attention *l = calloc(1, sizeof *l);
    TPI_REQUIRE(l, TPCL_ERR_NOMEM, "attention object");
    l->group = group;
    l->heads = (tpi_heads){.heads = (int)tpcl_range_size(d->mine.q),
                           .kv_heads = (int)tpcl_range_size(d->mine.kv),
                           .head_dim = d->head_dim,
                           .v_head_dim = d->v_head_dim,
                           .interleaved = d->interleaved};
    l->rope_table = d->rope_table;
    l->eps = d->norm_eps;
    l->scale = d->scale;
    l->window = d->window;
    l->kv = d->mine.kv;
    if (d->q_norm) {
        TPI_TRY(tpi_vector_create(group, d->q_norm, 0, d->head_dim, &l->q_norm));
        TPI_TRY(tpi_vector_create(group, d->k_norm, 0, d->head_dim, &l->k_norm));
    }
    TPI_TRY(create_tiles(l, d, 1, &l->single, &l->n_single));
    TPI_TRY(create_tiles(l, d, TPI_ATTENTION_PAIRS, &l->shared, &l->n_shared));
    *out = l;
    l = NULL;
done:
    tpcl_attention_destroy(&l);
    return status;
}

tpcl_status tpcl_attention_create(tpcl_group *group, const tpcl_attention_desc *desc,
                                  tpcl_attention **out)
{
    tpcl_status status = TPCL_OK;
    tpcl_attention_desc d;
    TPI_REQUIRE(out, TPCL_ERR_ARG, "attention: out is NULL");
    *out = NULL;
    TPI_REQUIRE(group, TPCL_ERR_ARG, "attention: group is NULL");
    TPI_REQUIRE(desc, TPCL_ERR_ARG, "attention: desc is NULL");
    TPI_TRY(complete(group, desc, &d));
    TPI_TRY(create(group, &d, out));
done:
    return status;
}

void tpcl_attention_destroy(tpcl_attention **layer)
{
    if (!layer || !*layer) return;
    tpcl_tensor_destroy(&(*layer)->q_norm);
    tpcl_tensor_destroy(&(*layer)->k_norm);
    tpcl_tensor_destroy(&(*layer)->single);
    tpcl_tensor_destroy(&(*layer)->shared);
    free(*layer);
    *layer = NULL;
}

int tpcl_attention_in(const tpcl_attention *l)
{
    return l ? (int)tpi_qkv_columns(&l->heads) : 0;
}

int tpcl_attention_out(const tpcl_attention *l)
{
    return l ? l->heads.heads * l->heads.v_head_dim : 0;
}

static tpcl_status check_tensors(const tpcl_attention *l, const tpcl_tensor *qkv,
                                 const tpcl_tensor *out, int tokens)
{
    const int64_t table = l->rope_table ? (int64_t)(l->rope_table->bytes / 4) : 0;
    const tpi_operand operands[] = {
        {"attention qkv", qkv, tokens, tpcl_attention_in(l), TPI_WRITTEN},
        {"attention out", out, tokens, tpcl_attention_out(l), TPI_WRITTEN},
        {"attention rope table", l->rope_table, 1, table, TPI_READ}};
    return tpi_need_all(operands, l->rope_table ? 3 : 2);
}

static tpcl_status check_cache(const tpcl_attention *l, const tpcl_kv_cache *c, int layer)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(c->group == l->group, TPCL_ERR_ARG, "attention: the cache is of another group");
    TPI_REQUIRE(layer >= 0 && layer < c->desc.layers, TPCL_ERR_ARG,
                "attention: layer %d, the cache has 0 to %d", layer, c->desc.layers - 1);
    const tpcl_range kv = c->heads[layer].kv;
    TPI_REQUIRE(kv.begin == l->kv.begin && kv.end == l->kv.end, TPCL_ERR_SHAPE,
                "attention: kv heads %lld..%lld, the cache has %lld..%lld in layer %d",
                (long long)l->kv.begin, (long long)l->kv.end, (long long)kv.begin,
                (long long)kv.end, layer);
    TPI_REQUIRE(c->desc.head_dim == l->heads.head_dim, TPCL_ERR_SHAPE,
                "attention: head_dim %d, the cache has %d", l->heads.head_dim, c->desc.head_dim);
    TPI_REQUIRE(c->desc.v_head_dim == l->heads.v_head_dim, TPCL_ERR_SHAPE,
                "attention: v_head_dim %d, the cache has %d", l->heads.v_head_dim,
                c->desc.v_head_dim);
done:
    return status;
}

/* Everything that is alike on all ranks, before anything is written. */
static tpcl_status check_forward(const tpcl_attention *l, int layer, const tpcl_tensor *qkv,
                                 const tpcl_batch *b, const tpcl_kv_cache *cache,
                                 const tpcl_tensor *out)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(l, TPCL_ERR_ARG, "attention: layer is NULL");
    TPI_TRY(tpi_batch_check(b, cache, "attention"));
    TPI_TRY(check_cache(l, cache, layer));
    TPI_REQUIRE(!l->rope_table || b->end <= l->rope_table->shape[0], TPCL_ERR_ARG,
                "attention: position %d, the rope table has 0 to %lld", b->end - 1,
                (long long)l->rope_table->shape[0] - 1);
    TPI_TRY(check_tensors(l, qkv, out, b->n));
done:
    return status;
}

tpcl_status tpcl_attention_forward(tpcl_attention *l, int layer_index, tpcl_tensor *qkv,
                                   const tpcl_batch *b, tpcl_kv_cache *cache, tpcl_tensor *out)
{
    tpcl_status status = TPCL_OK;
    TPI_TRY(check_forward(l, layer_index, qkv, b, cache, out));
    if (b->n == 0) goto done; /* the tiles are those of the upload before */
    tpi_heads heads = l->heads;
    heads.block_size = cache->desc.block_size;
    heads.kv_f32 = cache->desc.f32;
    const tpi_rope_args rope = {.heads = heads,
                                .qkv = qkv,
                                .angles = l->rope_table,
                                .pos = b->pos,
                                .slot = b->slot,
                                .q_norm = l->q_norm,
                                .k_norm = l->k_norm,
                                .cache = &cache->layers[layer_index],
                                .tokens = b->n,
                                .eps = l->eps};
    TPI_TRY(tpi_rope_store(&rope));
    /* On a CPU, heads share K and V rows where that leaves enough work-items for every core. */
    const bool share = b->single_rows && l->group->dev->info.type == TPCL_DEVICE_CPU &&
                       b->n_tiles * l->n_shared >= 2 * l->group->dev->info.compute_units;
    const bool one = b->single_rows && (!share || l->n_shared == l->n_single);
    const tpi_attention_args args = {.heads = heads,
                                     .qkv = qkv,
                                     .out = out,
                                     .pos = b->pos,
                                     .seq = b->seq,
                                     .table = b->dev_table,
                                     .row_tiles = b->row_tiles,
                                     .head_tiles = share ? l->shared : l->single,
                                     .cache = &cache->layers[layer_index],
                                     .tokens = b->n,
                                     .n_row_tiles = b->n_tiles,
                                     .n_head_tiles = share ? l->n_shared : l->n_single,
                                     .table_width = cache->table_width,
                                     .pairs = one ? 1 : TPI_ATTENTION_PAIRS,
                                     .window = l->window,
                                     .scale = l->scale};
    TPI_TRY(tpi_attention(&args));
    if (layer_index == cache->desc.layers - 1) tpi_batch_stored(b);
done:
    return status;
}
